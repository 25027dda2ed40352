"use strict";
// The numbers behind the picture: targets and losses from costs, and the edits between two outputs. No drawing here.

// What a cell is trained towards. "kl": softmax(-alpha cost); "ll": the cheapest token, ties by the model's liking.
// `counted` has the places of the candidates that take part, null for all.
function targetOf(costs, logs, loss, alpha, counted) {
  const places = counted || costs.map((_, place) => place);
  const target = costs.map(() => 0);
  if (!places.length) return target;
  const least = Math.min(...places.map(place => costs[place]));
  if (loss === "ll") {
    const tied = places.filter(place => costs[place] === least);
    target[tied.reduce((best, place) => logs[place] > logs[best] ? place : best)] = 1;
    return target;
  }
  let sum = 0;
  for (const place of places) sum += target[place] = Math.exp(-alpha * (costs[place] - least));
  return target.map(value => value / sum);
}

// The cross-entropy between a target and the model among the candidates that take part.
function lossOf(target, logs, counted) {
  const places = counted || logs.map((_, place) => place);
  if (!places.length) return 0;
  const most = Math.max(...places.map(place => logs[place]));
  const norm = most + Math.log(places.reduce((sum, place) => sum + Math.exp(logs[place] - most), 0));
  return places.reduce((sum, place) => target[place] ? sum + target[place] * (norm - logs[place]) : sum, 0);
}

// How an output came from the truth, as few edits as there can be: a list of {kind, from, to, place}, where `kind` is
// "same", "swap", "extra" (in the output alone) or "miss" (in the truth alone) and `place` is that in the output.
// Outputs of known length are compared place by place.
function editsOf(output, truth, known) {
  if (known) {
    return output.map((to, place) => ({kind: to === truth[place] ? "same" : "swap", from: truth[place], to, place}));
  }
  const rows = output.length, columns = truth.length;
  const table = Array.from({length: rows + 1}, (_, i) => Array.from({length: columns + 1}, (_, j) => i ? i : j));
  for (let i = 1; i <= rows; i++) {
    for (let j = 1; j <= columns; j++) {
      const swap = table[i - 1][j - 1] + (output[i - 1] === truth[j - 1] ? 0 : 1);
      table[i][j] = Math.min(swap, table[i - 1][j] + 1, table[i][j - 1] + 1);
    }
  }
  const edits = [];
  let i = rows, j = columns;
  while (i || j) {
    const same = i && j && output[i - 1] === truth[j - 1];
    if (i && j && table[i][j] === table[i - 1][j - 1] + (same ? 0 : 1)) {
      edits.push({kind: same ? "same" : "swap", from: truth[j - 1], to: output[i - 1], place: i - 1});
      i--; j--;
    } else if (i && table[i][j] === table[i - 1][j] + 1) {
      edits.push({kind: "extra", from: null, to: output[i - 1], place: i - 1});
      i--;
    } else {
      edits.push({kind: "miss", from: truth[j - 1], to: null, place: i});
      j--;
    }
  }
  return edits.reverse();
}

// A number without needless noughts, and in as few signs as there can be.
function plain(value, digits = 2) {
  const text = value.toFixed(digits);
  return text.includes(".") ? text.replace(/\.?0+$/, "") : text;
}

function brief(value, digits = 2) { return plain(value, digits).replace(/^(-?)0\./, "$1."); }

// Colours from cheap to dear, on light and on dark paper.
const RAMPS = {
  light: [[255, 255, 255], [253, 203, 140], [176, 64, 14]],
  dark: [[38, 46, 58], [140, 72, 30], [255, 200, 130]],
};

function mixed(stops, share) {
  const at = Math.min(Math.max(share, 0), 1) * (stops.length - 1);
  const low = Math.min(Math.floor(at), stops.length - 2);
  return stops[low].map((value, part) => Math.round(value + (stops[low + 1][part] - value) * (at - low)));
}

function css(colour) { return `rgb(${colour.join(", ")})`; }

// Black or white, whichever is read more easily there.
function inkOn(colour) {
  const [red, green, blue] = colour.map(value => {
    const part = value / 255;
    return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue > 0.179 ? "#000000" : "#ffffff";
}
