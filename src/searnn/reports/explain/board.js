"use strict";
// The tables: costs with targets and probabilities, and where the model looked.

const data = JSON.parse(document.getElementById("data").textContent);
const $ = id => document.getElementById(id);
const nameOf = token => token === undefined || token === null ? "" : data.names[token];

// A letter of 8 x 16 pixels as a drawing.
function letterOf(bits, label) {
  const {width, height} = data.inputs;
  let path = "";
  for (let place = 0; place < width * height; place++) {
    const byte = parseInt(bits.slice(2 * (place >> 3), 2 * (place >> 3) + 2), 16);
    if (byte >> (7 - (place & 7)) & 1) path += `M${place % width} ${Math.floor(place / width)}h1v1h-1z`;
  }
  const settings = {viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label};
  return make("svg", settings, make("path", {d: path}));
}

// Part `place` of the input: a word, a sign or a picture.
function sourceOf(place) {
  const {letters, units} = data.inputs;
  if (letters) return place < letters.length ? letterOf(letters[place], `letter ${place + 1} of the input`) : "";
  return units && place < units.length ? units[place] : "";
}

const known = data.eos === null;  // the output has a cell for each part of the input
const sources = (data.inputs.letters || data.inputs.units || []).length;
const truthAt = cell => cell < data.truth.length ? data.truth[cell] : known ? undefined : data.eos;
const isDark = matchMedia("(prefers-color-scheme: dark)");
const topCost = Math.max(...data.searches.flatMap(found => found.costs.flat()));

// What the settings show: one search with the targets that follow from it.
function viewOf(state) {
  const rolledIn = data.rolled_in[state.moment][state.roll_in];
  const found = data.searches[data.views[state.moment][state.roll_in][state.roll_out]];
  const counted = cell => state.candidates === "drawn" && rolledIn.drawn ? rolledIn.drawn[cell] : null;
  const targets = found.costs.map((costs, cell) =>
    targetOf(costs, rolledIn.logs[cell], state.loss, state.alpha, counted(cell)));
  const losses = targets.map((target, cell) => lossOf(target, rolledIn.logs[cell], counted(cell)));
  const least = found.costs.map(costs => Math.min(...costs));
  return {...rolledIn, ...found, counted, targets, losses, least, probs: rolledIn.logs.map(row => row.map(Math.exp))};
}

// The share of the way from cheap to dear that a square's colour shows; by the root, as an untrained model's costs are
// far above those that matter later. The scale is the same at all times, so that costs are seen to move.
function shareOf(view, state, cell, row) {
  if (state.colour === "cost") return topCost ? Math.sqrt(view.costs[cell][row] / topCost) : 0;
  const most = Math.max(...view.costs.flatMap((costs, at) => costs.map(cost => cost - view.least[at])));
  return most ? Math.sqrt((view.costs[cell][row] - view.least[cell]) / most) : 0;
}

function headOf(name, cells, kind, content) {
  const row = make("tr", {}, make("th", {scope: "row", class: "name"}, name));
  for (let cell = 0; cell < cells; cell++) {
    const [inside, more] = content(cell);
    row.append(make("td", {class: `${kind} ${more || ""}`, "data-cell": cell}, make("span", {class: "clip", title: typeof inside === "string" ? inside : null}, inside)));
  }
  return row;
}

function drawCosts(view, state) {
  const cells = view.costs.length, ramp = RAMPS[isDark.matches ? "dark" : "light"];
  const head = make("thead"), body = make("tbody"), foot = make("tfoot");
  const numbers = make("tr", {}, make("th", {scope: "col"}, "cell"));
  for (let cell = 0; cell < cells; cell++) numbers.append(make("th", {scope: "col", "data-cell": cell}, `${cell + 1}`));
  head.append(numbers);
  if (known && sources) head.append(headOf("input", cells, "letter", cell => [sourceOf(cell)]));
  head.append(headOf("truth", cells, "truth", cell => [nameOf(truthAt(cell))]));
  head.append(headOf("roll-in", cells, "wrote", cell =>
    [nameOf(view.prefix[cell]), view.prefix[cell] === truthAt(cell) ? "" : "wrong"]));
  data.tokens.forEach((token, row) => {
    const line = make("tr", {}, make("th", {scope: "row", title: nameOf(token)}, nameOf(token)));
    for (let cell = 0; cell < cells; cell++) {
      const cost = view.costs[cell][row], counted = view.counted(cell);
      const kinds = [
        cost === view.least[cell] && "low",
        token === view.prefix[cell] && "path",
        view.drawn && view.drawn[cell].includes(row) && "drawn",
      ].filter(Boolean);
      const colour = mixed(ramp, shareOf(view, state, cell, row));
      const square = make("span", {class: "square"}, brief(cost));
      square.style.background = css(colour);
      square.style.color = inkOn(colour);
      const bars = make("span", {class: "bars", "aria-hidden": "true"}, make("i", {class: "t"}), make("i", {class: "m"}));
      bars.children[0].style.width = `${100 * view.targets[cell][row]}%`;
      bars.children[1].style.width = `${100 * view.probs[cell][row]}%`;
      if (counted && !counted.includes(row)) bars.children[0].style.width = "0";
      line.append(make("td", {class: kinds.join(" "), "data-cell": cell, "data-row": row, tabindex: "-1"}, square, bars));
    }
    body.append(line);
  });
  foot.append(headOf("loss", cells, "loss", cell => [brief(view.losses[cell])]));
  $("costs").replaceChildren(head, body, foot);
  for (const id of ["costs", "looks"]) $(id).style.maxWidth = `${8 + 4 * cells}rem`;
}

function drawLooks(view) {
  $("looks-card").hidden = !view.looks || !sources;
  if ($("looks-card").hidden) return;
  const head = make("thead"), body = make("tbody");
  head.append(headOf("roll-in", view.looks.length, "wrote", cell => [nameOf(view.prefix[cell])]));
  for (let place = 0; place < sources; place++) {
    const line = make("tr", {}, make("th", {scope: "row"}, sourceOf(place)));
    view.looks.forEach((weights, cell) => {
      const square = make("span", {class: "square", title: `${brief(100 * weights[place], 1)} %`});
      const colour = mixed(isDark.matches ? [[38, 46, 58], [108, 177, 255]] : [[240, 243, 247], [11, 98, 196]], weights[place]);
      square.style.background = css(colour);
      square.style.color = inkOn(colour);
      square.textContent = weights[place] >= 0.1 ? brief(weights[place], 1) : "";
      line.append(make("td", {"data-cell": cell}, square));
    });
    body.append(line);
  }
  $("looks").replaceChildren(head, body);
}
