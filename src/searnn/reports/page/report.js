// The report: turns the data in the page, or that of a run that is followed, into sections.
"use strict";

const main = document.getElementById("report");
const state = { across: "step", open: {} }; // what the reader has chosen: kept when a followed run is drawn anew
const UNITS = { step: ["updates", "updates"], minutes: ["min", "minutes"] };

const percent = (share) => `${show(100 * share)} %`;
const SHARES = new Set(["error", "sequence_error", "accuracy", "f1", "precision", "recall"]), RATES = new Set(["wer", "per", "exact"]);
const scored = (metric, value) => (SHARES.has(metric) ? percent(value) : RATES.has(metric) ? `${show(value)} %` : show(value));
const NAMES = { bleu: "BLEU", chrf: "chrF", per: "PER", wer: "WER", f1: "F1" };
const words = (name) => { const text = name.replace(/^valid_/, "").replaceAll("_", " "); return NAMES[text] || text; };
const mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;
const plural = (count, one, more = one + "s") => `${show(count)} ${count === 1 ? one : more}`;
const space = (token) => (token.trim() === "" ? "␣" : token);

function section(title, ...children) {
  const made = make("section", {}, make("h2", {}, title), ...children);
  main.append(made);
  return made;
}

function folded(name, title, open, ...children) {
  const made = make("details", { class: "card" }, make("summary", {}, title), ...children);
  made.open = state.open[name] ?? open;
  made.addEventListener("toggle", () => { state.open[name] = made.open; });
  return made;
}

function scrolled(label, child) {
  return make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": label }, child);
}

function table(heads, rows, numbers = []) {
  const kind = (at) => (numbers.includes(at) ? "number" : null);
  return make("table", { class: "wide" },
    make("thead", {}, make("tr", {}, ...heads.map((head, at) => make("th", { scope: "col", class: kind(at) }, head)))),
    make("tbody", {}, ...rows.map((row) => make("tr", {}, ...row.map((entry, at) =>
      at === 0 ? make("th", { scope: "row" }, entry) : make("td", { class: kind(at) }, entry))))));
}

function finding(found) {
  return make("li", { class: `card finding ${found.level}` },
    make("span", { class: "tag" }, found.level), make("h3", {}, found.title),
    make("p", {}, found.reason), make("p", {}, make("strong", {}, "What to do: "), found.remedy));
}

function doctor(data) {
  const several = data.runs.length > 1;
  const made = section("Doctor");
  const own = several ? data.findings : data.runs[0].findings;
  if (own.length) made.append(make("ul", { class: "findings" }, ...own.map(finding)));
  else if (!several) made.append(make("p", { class: "card well" }, "Nothing looks wrong: the curves and the costs are as they should be."));
  if (!several) return;
  const list = make("div", { class: "findings" });
  data.runs.forEach((run, at) => {
    const warnings = run.findings.filter((found) => found.level === "warning").length;
    if (!run.findings.length) return;
    const told = [warnings && plural(warnings, "warning"), run.findings.length - warnings && plural(run.findings.length - warnings, "note")];
    list.append(folded(`doctor-${at}`, `${run.name}: ${told.filter(Boolean).join(", ")}`, false,
      make("ul", { class: "findings" }, ...run.findings.map(finding))));
  });
  made.append(list.childElementCount ? list : make("p", { class: "card well" }, "Nothing looks wrong in any of the runs."));
}

function tiles(data, run) {
  const facts = [];
  if (run.best) facts.push([scored(run.metric, run.best.value), `best validation ${words(run.metric)}, at update ${show(run.best.step)}`]);
  if (run.tested && run.tested.metrics[run.metric] !== undefined) {
    const sample = run.tested.whole ? "" : `, ${show(run.tested.count)} examples`;
    facts.push([scored(run.metric, run.tested.metrics[run.metric]), `${run.tested.split === "test" ? "test" : "validation"} ${words(run.metric)} of the best model${sample}`]);
  }
  if (data.examples) facts.push([percent(data.examples.right / data.examples.count), `of ${plural(data.examples.count, "output")} exactly right`]);
  facts.push([show(run.step), "updates"]);
  facts.push([run.minutes < 1 ? `${show(60 * run.minutes)} s` : `${show(run.minutes)} min`, "training time"]);
  return make("ul", { class: "tiles" }, ...facts.map(([value, text]) => make("li", { class: "card" }, make("strong", {}, value), make("span", {}, text))));
}

function swatch(colour) {
  return make("span", { class: "swatch", style: `background:var(--c${colour % 8})`, "aria-hidden": "true" });
}

function spread(values, metric) {
  if (!values.length) return "–";
  const many = values.length > 1 ? ` (${scored(metric, Math.min(...values))} to ${scored(metric, Math.max(...values))})` : "";
  return scored(metric, mean(values)) + many;
}

function comparison(data) {
  const splits = [...new Set(data.runs.map((run) => run.tested && run.tested.split).filter(Boolean))];
  const heads = ["Settings", "Runs", "Best validation", ...splits.map((split) => (split === "test" ? "Test, best model" : "Validation, best model")), "Minutes"];
  const order = data.groups.map((group, at) => at).sort((a, b) => {
    const [x, y] = [data.groups[a], data.groups[b]];
    if (!x.best.length || !y.best.length) return y.best.length - x.best.length;
    return (mean(x.best) - mean(y.best)) * (x.higher ? -1 : 1);
  });
  const rows = order.map((at) => {
    const group = data.groups[at], runs = group.runs.map((number) => data.runs[number]);
    const tested = splits.map((split) => spread(runs.filter((run) => run.tested && run.tested.split === split).map((run) => run.tested.metrics[run.metric]).filter((value) => value !== undefined), group.metric));
    const metric = data.runs.some((run) => run.metric !== data.metric) ? `${words(group.metric || "")} ` : "";
    return [make("span", {}, swatch(at), group.name), String(group.runs.length), metric + spread(group.best, group.metric), ...tested, spread(group.minutes)];
  });
  const sampled = data.runs.some((run) => run.tested && !run.tested.whole) ? " Test values are of a sample of the examples." : "";
  section(data.metric ? `Comparison by ${words(data.metric)}` : "Comparison",
    make("div", { class: "card" }, scrolled("comparison", table(heads, rows, heads.map((_, at) => at).slice(1))),
      make("p", { class: "small muted" }, `Mean over runs that differ by their seed alone, with the lowest and the highest. ${data.higher ? "Higher" : "Lower"} is better.${sampled}`)));
}

function legend(entries) {
  return make("ul", { class: "legend" }, ...entries.map(([label, colour, dashed]) => {
    const line = make("line", { x1: 1, x2: 21, y1: 6, y2: 6, class: `line s${colour % 8}`, "stroke-width": 3 });
    if (dashed || colour >= 8) line.setAttribute("stroke-dasharray", colour >= 16 ? "2 4" : "6 4");
    return make("li", {}, make("svg", { width: 22, height: 12, "aria-hidden": "true" }, line), label);
  }));
}

function xs(run, across) {
  const { step = [], seconds = [] } = run.columns;
  return across === "step" ? step : seconds.map((value) => (value === null ? null : value / 60));
}

function seriesOf(data, chart) {
  if (data.runs.length === 1) {
    const run = data.runs[0];
    return chart.keys.map(([key, label], at) => ({
      label, colour: at, dashed: at > 0, key, run, y: run.columns[key] || [],
      best: chart.metric && run.best ? run.columns.step.indexOf(run.best.step) : null,
    }));
  }
  const [key] = chart.keys[0];
  return data.runs.filter((run) => (run.columns[key] || []).some((value) => value !== null)).map((run) => ({
    label: run.name, colour: run.group, run, key, y: run.columns[key], thin: chart.metric && data.groups[run.group].runs.length > 1,
  }));
}

function drawChart(data, chart, across) {
  const series = seriesOf(data, chart).map((line) => ({ ...line, x: xs(line.run, across) }));
  const [unit, name] = UNITS[across];
  const bands = [];
  if (data.runs.length === 1 && chart.id === "prefixes" && series.length === 2) {
    const both = series[0].x.map((_, at) => at).filter((at) => series[0].y[at] !== null && series[1].y[at] !== null);
    bands.push({ colour: 1, x: both.map((at) => series[0].x[at]), low: both.map((at) => series[0].y[at]), high: both.map((at) => series[1].y[at]) });
  }
  if (data.runs.length > 1 && chart.metric) data.groups.forEach((group, colour) => {
    const { step, minutes, mean: middle, low, high } = group.curves, x = across === "step" ? step : minutes;
    if (group.runs.length < 2 || `valid_${group.metric}` !== chart.keys[0][0]) return;
    series.push({ label: `${group.name}, mean`, colour, x, y: middle });
    bands.push({ colour, x, low, high });
  });
  const told = series.slice(0, 6).map((line) => {
    const values = line.y.filter((value) => value !== null);
    return values.length ? `${line.label} from ${show(values[0])} to ${show(values[values.length - 1])}` : `${line.label}: nothing`;
  });
  const figure = make("figure", { class: "card chart", id: `chart-${chart.id}-${across}` },
    make("figcaption", {}, make("h3", {}, data.runs.length > 1 && chart.metric ? `${chart.title} by ${name}` : chart.title), make("p", {}, chart.note)));
  if (data.runs.length === 1 && series.length > 1) figure.append(legend(series.map((line) => [line.label, line.colour, line.dashed])));
  queueMicrotask(() => lineChart(figure, { series, bands, unit, across: name, describe: `${chart.title} over ${name}: ${told.join("; ")}` }));
  return figure;
}

function curves(data) {
  if (!data.runs.some((run) => (run.columns.step || []).length)) {
    section("Curves", make("p", { class: "card" }, "Nothing was recorded yet: the first evaluation has not come."));
    return;
  }
  const several = data.runs.length > 1;
  const box = make("div", { class: "grid" }), first = make("div", { class: "grid two" });
  const buttons = Object.entries({ step: "updates", minutes: "minutes" }).map(([across, label]) => {
    const button = make("button", { type: "button", "data-across": across }, label);
    button.addEventListener("click", () => { state.across = across; fill(); });
    return button;
  });
  function fill() {
    buttons.forEach((button) => button.setAttribute("aria-pressed", String(button.dataset.across === state.across)));
    box.replaceChildren(...data.charts.filter((chart) => !(several && chart.metric)).map((chart) => drawChart(data, chart, state.across)));
  }
  const bar = make("div", { class: "bar" }, make("div", { role: "group", "aria-label": "horizontal axis" }, make("span", { class: "small muted" }, several ? "The others over" : "Over"), ...buttons));
  const made = section("Curves");
  if (several) {
    made.append(legend(data.groups.map((group, colour) => [`${group.name} (${plural(group.runs.length, "run")})`, colour])));
    for (const chart of data.charts.filter((each) => each.metric)) first.append(drawChart(data, chart, "step"), drawChart(data, chart, "minutes"));
    first.style.margin = ".75rem 0";
    made.append(first);
  }
  made.append(bar, box);
  fill();
}

function settings(data) {
  if (data.runs.length > 1) {
    const { groups, rows } = data.differing;
    if (rows.length) section("Settings that differ", make("div", { class: "card" }, scrolled("settings that differ",
      table(["setting", ...groups.map((name, at) => make("span", {}, swatch(at), name))], rows.map(([name, values]) => [name.replaceAll("_", "-"), ...values])))));
    const list = data.runs.map((run) => [run.name, run.seed === null ? "–" : String(run.seed), run.best ? `${scored(run.metric, run.best.value)} at ${show(run.best.step)}` : "–",
      ...(data.runs.some((each) => each.tested) ? [run.tested ? scored(run.metric, run.tested.metrics[run.metric]) : "–"] : []), show(run.step), show(run.minutes)]);
    const heads = ["run", "seed", "best validation", ...(data.runs.some((each) => each.tested) ? ["test"] : []), "updates", "minutes"];
    section("The runs", make("div", { class: "card" }, scrolled("runs", table(heads, list, heads.map((_, at) => at).slice(1)))));
    return;
  }
  const groups = data.runs[0].settings;
  if (!groups.length) return;
  section("Settings", folded("settings", `${plural(groups.reduce((sum, group) => sum + group[1].length, 0), "setting")}, as in config.toml`, true,
    make("div", { class: "settings" }, ...groups.map(([name, values]) => make("section", {}, make("h3", {}, name),
      make("table", { class: "wide" }, make("tbody", {}, ...values.map(([key, value]) => make("tr", {}, make("th", { scope: "row" }, key.replaceAll("_", "-")), make("td", {}, value))))))))));
}

function numbers(data) {
  if (data.runs.length > 1) return;
  const columns = data.runs[0].columns, names = Object.keys(columns).filter((name) => name !== "signature");
  if (!names.length) return;
  const rows = columns.step.map((_, at) => names.map((name) => (name === "step" ? String(columns.step[at]) : show(columns[name][at]))));
  section("The numbers", folded("numbers", `${plural(rows.length, "evaluation")} in a table`, false,
    scrolled("all numbers", table(names.map((name) => name.replaceAll("_", " ")), rows, names.map((_, at) => at)))));
}

function headroom(data) {
  const found = data.headroom;
  if (!found) return;
  const shown = (rows) => table(Object.keys(rows[0]), rows.map((row) => Object.values(row)), Object.keys(rows[0]).map((_, at) => at).slice(1));
  const [forecast, ...others] = found.words;
  section("Headroom", make("div", { class: "card" },
    found.stale ? make("p", { class: "finding" }, "Measured of another model than the best: run searnn headroom again.") : null,
    make("p", {}, make("strong", {}, forecast)), ...others.map((told) => make("p", {}, told)),
    make("div", { class: "grid two" }, scrolled("ways of decoding", shown(found.ways)), scrolled("mistakes on both sides", shown(found.sides))),
    make("p", { class: "small muted" }, `${found.title}. In brackets the interval that holds 95 of 100 draws of the examples.`)));
}

function render(data) {
  const run = data.runs[0], several = data.runs.length > 1;
  document.getElementById("title").textContent = data.title;
  const facts = several ? [plural(data.runs.length, "run"), plural(data.groups.length, "setting")] : [run.task, run.algorithm && run.algorithm.toUpperCase(), run.seed !== null && `seed ${run.seed}`];
  document.getElementById("about").textContent = facts.filter(Boolean).join(" · ");
  main.replaceChildren();
  if (several) comparison(data);
  else main.append(tiles(data, run));
  if (!several && data.follow) {
    const share = Math.max(0, ...[["steps", run.step], ["minutes", run.minutes]].filter(([name]) => run.limits[name]).map(([name, done]) => done / run.limits[name]));
    if (share) main.append(make("div", { class: "meter", role: "progressbar", "aria-label": "done", "aria-valuemin": "0", "aria-valuemax": "100", "aria-valuenow": String(Math.round(100 * Math.min(1, share))) },
      make("div", { style: `width:${(100 * Math.min(1, share)).toFixed(1)}%` })));
  }
  doctor(data);
  headroom(data);
  curves(data);
  examples(data);
  settings(data);
  numbers(data);
}

function follow() {
  const line = document.getElementById("following");
  let before = null;
  line.hidden = false;
  line.textContent = "Following the run.";
  const tell = (text) => { if (line.textContent !== text) line.textContent = text; }; // said aloud only when it changes
  const look = async () => {
    try {
      const answer = await fetch(`data.json${location.search}`, { cache: "no-store" }), text = await answer.text();
      if (!answer.ok) throw new Error(text.trim());
      if (before !== null && text !== before) render(JSON.parse(text));
      if (text !== before) tell(before === null ? "Following the run." : `Following the run; new numbers at ${new Date().toLocaleTimeString()}.`);
      before = text;
    } catch (error) {
      tell(error instanceof TypeError ? "The run is no longer followed: searnn report has ended." : String(error.message));
    }
    setTimeout(look, 2000);
  };
  look();
}

const data = JSON.parse(document.getElementById("data").textContent);
render(data);
if (data.follow === "serve") follow();
if (data.follow === "watch") setTimeout(() => location.reload(), 5000);
