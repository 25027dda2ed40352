"use strict";
// What the reader does: switch, step through training, point at squares, save.

const state = {...data.start, colour: "cost", cell: 0, row: 0};
let view = null;

function unit(content, kinds = "") {
  return make("span", {class: `unit ${kinds}`}, content);
}

// Radio buttons of one setting; `names` are [value, text].
function offer(id, names) {
  const box = make("span", {class: "choices"});
  for (const [value, text] of names) {
    const button = make("input", {type: "radio", name: id, value: String(value), checked: state[id] === value});
    button.addEventListener("change", () => { state[id] = value; show(); });
    box.append(make("label", {}, button, make("span", {}, text)));
  }
  $(id).append(box);
  $(id).hidden = names.length < 2;
}

function slide(id, count, toState) {
  const input = $(id);
  input.max = count - 1;
  input.addEventListener("input", () => { toState(Number(input.value)); show(); });
}

// The finished output behind a square: the roll-in up to the cell, the row's token, the roll-out.
function outputAt(cell, row) {
  return [...view.prefix.slice(0, cell), data.tokens[row], ...view.tails[cell][row]];
}

function pairings(cell, row) {
  const words = tokens => tokens.filter(token => token !== data.eos);
  const edits = editsOf(words(outputAt(cell, row)), words(data.truth), known);
  const flow = make("div", {class: "flow"});
  for (const {kind, from, to, place} of edits) {
    const part = kind === "miss" ? "" : place < cell ? "in" : place === cell ? "at" : "out";
    flow.append(make("span", {class: `pairing ${kind} ${part}`},
      unit(from === null ? "·" : nameOf(from), "above"), unit(to === null ? "–" : nameOf(to), "below")));
  }
  return [flow, edits.filter(({kind}) => kind !== "same").length];
}

function bars(cell) {
  const places = data.tokens.map((_, row) => row)
    .sort((a, b) => Math.max(view.targets[cell][b], view.probs[cell][b]) - Math.max(view.targets[cell][a], view.probs[cell][a]))
    .slice(0, 6).filter((row, rank) => rank < 2 || Math.max(view.targets[cell][row], view.probs[cell][row]) >= 0.005);
  const box = make("div", {class: "pair", role: "img", "aria-label": "Target and model: " + places.map(row =>
    `${nameOf(data.tokens[row])} ${plain(view.targets[cell][row])} and ${plain(view.probs[cell][row])}`).join(", ")});
  for (const row of places) {
    const both = make("span", {class: "both"}, make("i", {class: "t"}), make("i", {class: "m"}));
    both.children[0].style.width = `${100 * view.targets[cell][row]}%`;
    both.children[1].style.width = `${100 * view.probs[cell][row]}%`;
    box.append(make("span", {class: "label"}, nameOf(data.tokens[row])), both,
      make("span", {class: "value"}, view.targets[cell][row].toFixed(2), make("br"), view.probs[cell][row].toFixed(2)));
  }
  return box;
}

// Tell of one square.
function tell(cell, row) {
  const name = nameOf(data.tokens[row]), [flow, edits] = pairings(cell, row);
  const ends = data.tokens[row] === data.eos;
  const facts = `Cost ${plain(view.costs[cell][row], 4)}, ${plain(view.costs[cell][row] - view.least[cell], 4)} above the cheapest here. `
    + `Target ${plain(view.targets[cell][row], 3)}, model ${plain(view.probs[cell][row], 3)}.`;
  const whole = edits === 0 ? "No edit: the output is the truth." : `${edits} ${edits === 1 ? "edit" : "edits"} against the truth (above).`;
  $("detail").replaceChildren(
    make("h2", {}, `Cell ${cell + 1}: ${name}`),
    make("p", {class: "small facts"}, facts),
    make("h3", {}, ends ? "The output ends here" : "The finished roll-out"),
    flow, make("p", {class: "small muted"}, whole),
    make("h3", {}, "Target and model at this cell"), bars(cell));
  for (const element of document.querySelectorAll("[data-cell].chosen, .unit.chosen")) element.classList.remove("chosen");
  for (const element of document.querySelectorAll(`thead [data-cell="${cell}"]`)) element.classList.add("chosen");
  const square = squareAt(cell, row);
  if (square) square.classList.add("chosen");
  $("prefix").children[cell]?.classList.add("chosen");
  drawInput(cell);
}

// The input, shaded by what the model looked at when it scored the cell.
function drawInput(cell) {
  const weights = view.looks ? view.looks[Math.min(cell, view.looks.length - 1)] : null;
  const parts = [];
  for (let place = 0; place < sources; place++) {
    const part = unit(sourceOf(place), `${data.inputs.letters ? "letter" : ""} ${known && place === cell ? "chosen" : ""}`);
    if (weights) part.style.boxShadow = `inset 0 -${(0.5 * weights[place]).toFixed(3)}em rgb(var(--heat) / .55)`;
    parts.push(part);
  }
  $("input").replaceChildren(...(parts.length ? parts : ["(not shown)"]));
}

function squareAt(cell, row) {
  return document.querySelector(`#costs tbody td[data-cell="${cell}"][data-row="${row}"]`);
}

// Choose a square for good; pointing at one only shows it for a while.
function choose(cell, row, focus) {
  const before = squareAt(state.cell, state.row);
  if (before) before.tabIndex = -1;
  state.cell = cell;
  state.row = row;
  const square = squareAt(cell, row);
  square.tabIndex = 0;
  if (focus) square.focus({preventScroll: false});
  tell(cell, row);
}

function placeOf(event) {
  const square = event.target.closest("#costs tbody td[data-row]");
  return square && [Number(square.dataset.cell), Number(square.dataset.row)];
}

function show() {
  view = viewOf(state);
  const focused = document.activeElement?.matches("#costs tbody td");
  drawCosts(view, state);
  drawLooks(view);
  $("alpha-box").hidden = state.loss !== "kl";
  $("alpha").value = data.alphas.indexOf(state.alpha);
  $("alpha-value").textContent = state.alpha;
  $("alpha").setAttribute("aria-valuetext", $("alpha-value").textContent);
  $("moment").value = state.moment;
  $("moment-value").textContent = data.moments[state.moment].name;
  $("moment").setAttribute("aria-valuetext", data.moments[state.moment].name);
  $("prefix").replaceChildren(...view.prefix.map((token, cell) =>
    unit(nameOf(token), token === truthAt(cell) ? "" : "wrong")));
  $("ramp").style.background = `linear-gradient(to right, ${RAMPS[isDark.matches ? "dark" : "light"].map(css).join(", ")})`;
  $("ramp-text").textContent = state.colour === "cost" ? `cost (${data.cost}), 0 to ${plain(topCost)}` : "cost above the cell's cheapest";
  choose(Math.min(state.cell, view.costs.length - 1), state.row, focused);
}

function pictureNow() {
  const words = [data.title, data.moments[state.moment].name, `${data.roll_ins[state.roll_in]} roll-in`,
    `${data.roll_outs[state.roll_out]} roll-out`, state.loss === "kl" ? `KL, alpha ${state.alpha}` : "LL"];
  return pictureOf({title: words.join(", "), rows: data.tokens.map(nameOf), columns: view.prefix.map(nameOf),
    truth: view.prefix.map((_, cell) => nameOf(truthAt(cell))), costs: view.costs, targets: view.targets,
    probs: view.probs, top: topCost});
}

function save() {
  const address = URL.createObjectURL(new Blob([pictureNow()], {type: "image/svg+xml"}));
  const link = make("a", {href: address, download: "searnn-explain.svg"});
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 1000);
}

function play() {
  let timer = null;
  const stop = () => { clearInterval(timer); timer = null; $("play").setAttribute("aria-pressed", "false"); };
  $("play").addEventListener("click", () => {
    if (timer) return stop();
    if (state.moment === data.moments.length - 1) { state.moment = 0; show(); }
    $("play").setAttribute("aria-pressed", "true");
    timer = setInterval(() => {
      state.moment = Math.min(state.moment + 1, data.moments.length - 1);
      show();
      if (state.moment === data.moments.length - 1) stop();
    }, 900);
  });
}

function begin() {
  $("title").textContent = `What each token costs: ${data.title}`;
  $("subtitle").textContent = `One example of the task ${data.task}, seen by the search of SEARNN.`;
  $("truth").replaceChildren(...data.truth.map(token => unit(nameOf(token))));
  $("stands-in").hidden = !data.stands_in;
  $("notes").replaceChildren(...data.notes.map(note => make("li", {}, note)));
  const hidden = [];
  if (data.hidden_tokens) hidden.push(`${data.hidden_tokens} tokens that matter less are hidden; targets and losses are those of the tokens shown, the model's probabilities those among all.`);
  if (data.hidden_cells) hidden.push(`${data.hidden_cells} cells at the end are hidden.`);
  $("hidden").textContent = hidden.join(" ");
  offer("roll_in", data.roll_ins.map((name, place) => [place, name]));
  offer("roll_out", data.roll_outs.map((name, place) => [place, name]));
  offer("loss", data.losses.map(name => [name, name.toUpperCase()]));
  const drawn = data.rolled_in[0][0].drawn !== null;
  offer("candidates", drawn ? [["shown", "all shown"], ["drawn", "as drawn in training"]] : []);
  $("drawn-key").hidden = !drawn;
  offer("colour", [["cost", "cost"], ["above", "above the cheapest"]]);
  slide("alpha", data.alphas.length, place => { state.alpha = data.alphas[place]; });
  slide("moment", data.moments.length, place => { state.moment = place; });
  $("moment-box").hidden = data.moments.length < 2;
  $("controls").addEventListener("submit", event => event.preventDefault());
  $("save").addEventListener("click", save);
  play();
  const table = $("costs");
  table.addEventListener("click", event => { const at = placeOf(event); if (at) choose(...at, true); });
  table.addEventListener("pointerover", event => {
    const at = event.pointerType === "mouse" && placeOf(event);
    if (at) tell(...at);
  });
  table.addEventListener("pointerleave", event => { if (event.pointerType === "mouse") tell(state.cell, state.row); });
  table.addEventListener("keydown", event => {
    const moves = {ArrowUp: [0, -1], ArrowDown: [0, 1], ArrowLeft: [-1, 0], ArrowRight: [1, 0]};
    const move = moves[event.key];
    if (!move || !placeOf(event)) return;
    event.preventDefault();
    const cell = Math.min(Math.max(state.cell + move[0], 0), view.costs.length - 1);
    choose(cell, Math.min(Math.max(state.row + move[1], 0), data.tokens.length - 1), true);
  });
  isDark.addEventListener("change", show);
  const wrong = firstMistake();
  state.cell = wrong;
  state.row = Math.max(0, data.tokens.indexOf(data.rolled_in[state.moment][state.roll_in].prefix[wrong]));
  show();
}

// The first cell where the roll-in leaves the truth, else the first of all: where there is most to see.
function firstMistake() {
  const {prefix} = data.rolled_in[state.moment][state.roll_in];
  return Math.max(0, prefix.findIndex((token, cell) => token !== truthAt(cell)));
}

begin();
