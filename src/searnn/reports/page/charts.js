// Charts as inline SVG: lines over updates or minutes, and bars. No library; everything is text or a path.
"use strict";

const PAD = { left: 50, right: 12, top: 10, bottom: 24 };

function show(value) {
  if (value === null || value === undefined) return "–";
  const size = Math.abs(value);
  if (size >= 10000) return Math.round(value).toLocaleString("en");
  if (Number.isInteger(value)) return value.toLocaleString("en");
  if (size !== 0 && size < 0.001) return value.toExponential(1);
  return String(Number(value.toPrecision(size >= 1000 ? 4 : 3)));
}

// Round numbers that span the values: 1, 2 or 5 times a power of ten apart.
function ticks(low, high, count) {
  const rough = (high - low) / count, power = 10 ** Math.floor(Math.log10(rough));
  const unit = [1, 2, 2.5, 5, 10].find((factor) => factor * power >= rough * 0.999) * power;
  const found = [];
  for (let at = Math.ceil(low / unit - 1e-9); at * unit <= high + unit * 1e-9; at++) found.push(Number((at * unit).toPrecision(12)));
  return found;
}

function scale(values, from, to, { zero = false, log = false } = {}) {
  let low = Math.min(...values), high = Math.max(...values);
  if (!values.length) [low, high] = [0, 1];
  if (log) {
    const [first, last] = [Math.log10(low), Math.log10(high)];
    const marks = [];
    for (let power = Math.floor(first); power <= Math.ceil(last); power++)
      for (const factor of last - first > 2.5 ? [1] : [1, 2, 5]) {
        const mark = factor * 10 ** power;
        if (mark >= low * 0.999 && mark <= high * 1.001) marks.push(mark);
      }
    return { at: (value) => from + (to - from) * (Math.log10(value) - first) / (last - first || 1), marks };
  }
  if (zero) low = Math.min(0, low);
  if (high - low < 1e-12 * Math.max(1, Math.abs(high))) { const room = Math.abs(high) * 0.1 || 1; high += room; low -= zero && low === 0 ? 0 : room; }
  else if (!zero) { const room = (high - low) * 0.04; low = low >= 0 ? Math.max(0, low - room) : low - room; high += room; }
  return { at: (value) => from + (to - from) * (value - low) / (high - low), marks: ticks(low, high, 5) };
}

// Values that span powers of ten are seen on a logarithmic axis only.
function wantsLog(values) {
  return values.length > 3 && Math.min(...values) > 0 && Math.max(...values) / Math.min(...values) > 60;
}

function path(points) {
  let text = "", pen = "M";
  for (const [x, y] of points) {
    if (y === null || !Number.isFinite(y)) { pen = "M"; continue; } // a gap where nothing finite was recorded
    text += `${pen}${x.toFixed(1)} ${y.toFixed(1)}`;
    pen = "L";
  }
  return text;
}

// series: [{label, colour, x: [], y: [], thin, dots, best}], bands: [{colour, x, low, high}]
function lineChart(box, { series, bands = [], unit, across, describe }) {
  const svg = make("svg", { class: "plot", role: "img" });
  const tip = make("div", { class: "tip", hidden: "" });
  box.append(svg, tip);
  const finite = (list) => list.filter((value) => value !== null && Number.isFinite(value));
  const every = finite([...series.flatMap((line) => line.y), ...bands.flatMap((band) => [...band.low, ...band.high])]);
  const log = wantsLog(every);
  svg.setAttribute("aria-label", describe + (log ? ", on a logarithmic axis" : ""));
  let xs, places = [];

  function draw() {
    const width = svg.clientWidth || 320, height = svg.clientHeight || 208;
    svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    svg.replaceChildren();
    xs = scale(finite(series.flatMap((line) => line.x)), PAD.left, width - PAD.right, { zero: true });
    const ys = scale(every, height - PAD.bottom, PAD.top, { log });
    for (const mark of ys.marks) {
      const y = ys.at(mark);
      svg.append(make("line", { class: "axis", x1: PAD.left, x2: width - PAD.right, y1: y, y2: y }));
      svg.append(make("text", { x: PAD.left - 6, y: y + 4, "text-anchor": "end" }, show(mark)));
    }
    const right = width - PAD.right, last = xs.marks.length - 1;
    let free = Infinity; // from the right: the last label has the unit, one that would run into it is left out
    for (let at = last; at >= 0; at--) {
      const mark = xs.marks[at], x = xs.at(mark), end = at === last && x > right - 30;
      const label = make("text", { class: "tick", x: end ? right : x, y: height - 7, "text-anchor": end ? "end" : "middle" },
        show(mark) + (at === 0 ? "" : at === last ? ` ${unit}` : ""));
      svg.append(label);
      const box = label.getBBox();
      if (box.x + box.width > free) label.remove();
      else free = box.x - 6;
    }
    for (const band of bands) {
      const points = [...band.x.map((x, at) => [xs.at(x), ys.at(band.high[at])]),
        ...band.x.map((x, at) => [xs.at(x), ys.at(band.low[at])]).reverse()];
      if (points.length) svg.append(make("path", { class: `band mark s${band.colour % 8}`, d: path(points) + "Z" }));
    }
    places = [];
    for (const line of series) {
      const points = line.x.map((x, at) => [xs.at(x), line.y[at] === null ? null : ys.at(line.y[at])]);
      const drawn = make("path", { class: `line mark s${line.colour % 8}${line.thin ? " thin" : ""}`, d: path(points), style: "fill:none" });
      if (line.colour >= 8 || line.dashed) drawn.setAttribute("stroke-dasharray", line.colour >= 16 ? "2 4" : "6 4");
      svg.append(drawn);
      const seen = points.filter((point) => point[1] !== null);
      if (seen.length <= 30 && !line.thin) for (const [x, y] of seen) svg.append(make("circle", { class: `dot mark s${line.colour % 8}`, cx: x, cy: y, r: seen.length > 15 ? 1.6 : 2.4 }));
      points.forEach(([x, y], at) => { if (y !== null && line.label) places.push({ x, y, line, at }); });
      if (line.best !== undefined && line.best !== null && points[line.best])
        svg.append(make("circle", { class: `best mark s${line.colour % 8}`, cx: points[line.best][0], cy: points[line.best][1], r: 5, style: "fill:var(--surface)" },
          make("title", {}, "best")));
    }
  }

  function point(event) {
    const bounds = svg.getBoundingClientRect(), x = event.clientX - bounds.left;
    svg.querySelectorAll(".cursor").forEach((old) => old.remove());
    if (!places.length) return;
    const near = places.reduce((best, place) => (Math.abs(place.x - x) < Math.abs(best.x - x) ? place : best));
    const rows = [], seen = new Set();
    for (const place of places) {
      if (Math.abs(place.x - near.x) < 2 && !seen.has(place.line)) { seen.add(place.line); rows.push(place); }
    }
    tip.replaceChildren(make("div", {}, `${show(near.line.x[near.at])} ${across}`),
      ...rows.slice(0, 10).map((place) => make("div", {}, `${place.line.label}: ${show(place.line.y[place.at])}`)));
    tip.hidden = false;
    svg.append(make("line", { class: "cursor", x1: near.x, x2: near.x, y1: PAD.top, y2: bounds.height - PAD.bottom }));
    const left = Math.min(Math.max(0, near.x + 10), box.clientWidth - tip.offsetWidth);
    tip.style.left = `${near.x + 10 + tip.offsetWidth > box.clientWidth ? Math.max(0, near.x - tip.offsetWidth - 10) : left}px`;
    tip.style.top = `${svg.offsetTop + 8}px`;
  }
  svg.addEventListener("pointermove", point);
  svg.addEventListener("pointerdown", point);
  svg.addEventListener("pointerleave", () => { tip.hidden = true; svg.querySelectorAll(".cursor").forEach((old) => old.remove()); });
  new ResizeObserver(draw).observe(svg);
  draw();
}

// rows: [{name, error, count}]
function barChart(box, { rows, describe, unit }) {
  const svg = make("svg", { class: "plot", role: "img", "aria-label": describe });
  box.append(svg);
  function draw() {
    const width = svg.clientWidth || 320, height = svg.clientHeight || 208;
    svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    svg.replaceChildren();
    const ys = scale([0, ...rows.map((row) => row.error)], height - PAD.bottom - 14, PAD.top, { zero: true });
    for (const mark of ys.marks) {
      const y = ys.at(mark);
      svg.append(make("line", { class: "axis", x1: PAD.left, x2: width - PAD.right, y1: y, y2: y }));
      svg.append(make("text", { x: PAD.left - 6, y: y + 4, "text-anchor": "end" }, `${show(100 * mark)} %`));
    }
    const room = (width - PAD.left - PAD.right) / rows.length;
    const every = Math.ceil(rows.length * Math.max(...rows.map((row) => row.name.length)) * 7.5 / (width - PAD.left - PAD.right));
    rows.forEach((row, at) => {
      const x = PAD.left + at * room, y = ys.at(row.error), base = ys.at(0);
      svg.append(make("rect", { class: "mark s0", x: x + room * 0.12, width: room * 0.76, y: Math.min(y, base - 1), height: Math.max(1, base - y) },
        make("title", {}, `${row.name}: ${show(100 * row.error)} % of ${show(row.count)} ${unit}`)));
      if (at % every === 0) svg.append(make("text", { x: x + room / 2, y: height - 22, "text-anchor": "middle" }, row.name));
    });
    svg.append(make("text", { x: PAD.left, y: height - 5 }, `Bars stand for ${show(Math.min(...rows.map((row) => row.count)))} to ${show(Math.max(...rows.map((row) => row.count)))} ${unit}.`));
  }
  new ResizeObserver(draw).observe(svg);
  draw();
}
