// What a model writes: examples with their edits, confused tokens, and where the errors are. Uses report.js.
"use strict";

function letters(pixels) { // each letter is 16 rows of 8 pixels, 32 hexadecimal digits
  const wide = 9, canvas = make("canvas", { width: pixels.length * wide + 1, height: 18, role: "img", "aria-label": `${plural(pixels.length, "handwritten letter")}` });
  const pen = canvas.getContext("2d");
  pen.fillStyle = "#fff"; pen.fillRect(0, 0, canvas.width, canvas.height);
  pen.fillStyle = "#111";
  pixels.forEach((digits, letter) => [...digits].forEach((digit, at) => {
    for (let bit = 0; bit < 4; bit++) if (parseInt(digit, 16) >> (3 - bit) & 1)
      pen.fillRect(1 + letter * wide + (at % 2) * 4 + bit, 1 + Math.floor(at / 2), 1, 1);
  }));
  return canvas;
}

function marked(example, joint, side) { // the output, or the truth, with what differs marked
  const made = make("dd", { class: "edits" });
  example.edits.forEach(([kind, ours, truth]) => {
    const text = side === "output" ? ours : truth;
    if (text === null) return;
    const tag = kind === "=" ? null : kind === "~" ? "mark" : kind === "+" ? "ins" : "del";
    if (made.childNodes.length && !joint) made.append(" ");
    made.append(tag ? make(tag, {}, joint ? space(text) : text) : text);
  });
  if (!made.childNodes.length) made.append(make("span", { class: "muted" }, "(nothing)"));
  if (example.cut) made.append(" …");
  return made;
}

function examples(data) {
  const found = data.examples;
  if (!found && data.missing && data.runs.length === 1) section("Examples", make("p", { class: "card" }, `There are none: ${data.missing}.`));
  if (!found) return;
  const split = found.split === "test" ? "test" : "validation";
  const one = (example) => make("li", { class: "card" },
    make("div", { class: "small muted" }, `example ${example.number} · ${example.error === 0 ? "all right" : `${show(100 * example.error)} % wrong`}`),
    make("dl", {},
      ...(example.source !== null ? [make("dt", {}, "input"), make("dd", {}, example.source)] : []),
      ...(example.pixels ? [make("dt", {}, "input"), make("dd", {}, letters(example.pixels))] : []),
      make("dt", {}, "output"), marked(example, found.joint, "output"),
      ...(example.error ? [make("dt", {}, "truth"), marked(example, found.joint, "truth")] : [])));
  const list = (each) => make("ul", { class: "examples" }, ...each.map(one));
  const key = make("p", { class: "small edits" }, "In the output ", make("mark", {}, "another token"), " and ", make("ins", {}, "one too many"), "; in the truth ", make("del", {}, "what is missing"), ".");
  const from = found.whole ? `all ${show(found.count)}` : `${show(found.count)}`;
  section(`Examples from the ${split} data`, make("p", { class: "muted" }, `The outputs of the best model for ${from} ${split} examples, by free decoding. `, make("code", {}, `searnn explain RUN --example N${found.split === "test" ? "" : " --split valid"} --out page.html`), " shows what each token costs in one of them."), key,
    make("div", { class: "grid two" },
      make("div", {}, make("h3", {}, "Worst"), found.worst.length ? list(found.worst) : make("p", { class: "card well" }, "No output has an error.")),
      make("div", {}, make("h3", {}, "Best"), found.best.length ? list(found.best) : make("p", { class: "card" }, "There is none that is better."))));
  confusion(found);
  where(found);
}

function confusion(found) {
  const { tokens, counts, pairs, hidden } = found.confusion;
  if (!pairs.length) return;
  const name = (token, none) => (token === "" ? none : space(token));
  const most = Math.max(1, ...counts.flatMap((row, i) => row.filter((_, j) => i !== j)));
  const body = counts.map((row, i) => make("tr", {}, make("th", { scope: "row" }, name(tokens[i], "extra")), ...row.map((count, j) => {
    if (i === j) return make("td", { class: "right" }, tokens[i] === "" ? "" : show(count));
    return make("td", { style: count ? `background:rgb(var(--heat) / ${(0.08 + 0.34 * count / most).toFixed(2)})` : null }, count ? show(count) : "");
  })));
  const corner = make("td", { class: "small muted" }, "truth ↓ output →");
  const grid = make("table", { class: "confusion", id: "confusion" }, make("thead", {}, make("tr", {}, corner, ...tokens.map((token) => make("th", { scope: "col" }, name(token, "missing"))))), make("tbody", {}, ...body));
  const rows = pairs.map(([truth, ours, count]) => [make("span", { class: "pair" }, truth === "" ? `${space(ours)} too many` : ours === "" ? `${space(truth)} left out` : `${space(truth)} → ${space(ours)}`), show(count)]);
  const note = hidden ? ` ${plural(hidden, "error")} with other tokens ${hidden === 1 ? "is" : "are"} not shown.` : "";
  section("Which tokens are confused", make("div", { class: "grid two confused" },
    make("div", { class: "card" }, scrolled("tokens that are confused", grid), make("p", { class: "small muted" }, `The tokens with the most errors; on the diagonal, how often each was right.${note}`)),
    make("div", { class: "card" }, make("h3", {}, "Most frequent"), table(["truth → output", "times"], rows, [1]))));
}

function where(found) {
  const figure = (id, title, note, rows, unit) => {
    const made = make("figure", { class: "card chart", id }, make("figcaption", {}, make("h3", {}, title), make("p", {}, note)));
    const told = rows.map((row) => `${row.name}: ${show(100 * row.error)} %`).join(", ");
    queueMicrotask(() => barChart(made, { rows, unit, describe: `${title}: ${told}` }));
    return made;
  };
  if (!found.positions.length || !found.lengths.length) return;
  section("Where the errors are", make("div", { class: "grid two" },
    figure("chart-positions", "Error by position", "Share of the truth's tokens, counted from 1, that are wrong or missing.", found.positions, "tokens"),
    figure("chart-lengths", "Error by length", "Edits per token of the truth, by how long the truth is.", found.lengths, "examples")));
}
