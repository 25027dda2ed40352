"use strict";
// The view as an SVG of its own, for a paper: always on white.

function escaped(text) {
  return text.replace(/[&<>"]/g, sign => ({"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;"})[sign]);
}

// `view` has title, rows and columns (names), costs[column][row], targets and probs likewise, top (the highest cost).
function pictureOf(view) {
  const wide = 30, high = 24, left = 12 + 7.5 * Math.max(4, ...view.rows.map(name => name.length)), top = 64;
  const columns = view.columns.length, width = left + Math.max(columns * wide, 6.4 * view.title.length) + 12;
  const height = top + view.rows.length * high + 34;
  const parts = [
    `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}" `
      + `font-family="sans-serif" font-size="11">`,
    `<title>${escaped(view.title)}</title><rect width="${width}" height="${height}" fill="#ffffff"/>`,
    `<text x="${left}" y="18" font-size="12">${escaped(view.title)}</text>`,
  ];
  const text = (x, y, anchor, words, more = "") =>
    parts.push(`<text x="${x}" y="${y}" text-anchor="${anchor}"${more}>${escaped(words)}</text>`);
  text(left - 6, 36, "end", "truth", ' fill="#57606a"');
  text(left - 6, 54, "end", "roll-in", ' fill="#57606a"');
  view.columns.forEach((name, column) => {
    const x = left + column * wide;
    text(x + wide / 2, 36, "middle", view.truth[column]);
    text(x + wide / 2, 54, "middle", name, ' font-weight="bold"');
    view.rows.forEach((_, row) => {
      const y = top + row * high, cost = view.costs[column][row], colour = mixed(RAMPS.light, Math.sqrt(cost / (view.top || 1)));
      const low = cost === Math.min(...view.costs[column]);
      parts.push(`<rect class="square" x="${x + 1}" y="${y + 1}" width="${wide - 2}" height="${high - 10}" fill="${css(colour)}" `
        + `stroke="${low ? "#0b62c4" : "#d5dbe1"}" stroke-width="${low ? 2 : 0.5}"/>`);
      text(x + wide / 2, y + high - 13, "middle", brief(cost), ` font-size="9" fill="${inkOn(colour)}"`);
      const bar = (share, at, fill) => parts.push(
        `<rect x="${x + 1}" y="${y + at}" width="${((wide - 2) * share).toFixed(2)}" height="3" fill="${fill}"/>`);
      bar(view.targets[column][row], high - 8, "#0b62c4");
      bar(view.probs[column][row], high - 4, "#15803d");
    });
  });
  view.rows.forEach((name, row) => text(left - 6, top + row * high + 13, "end", name));
  const foot = height - 12;
  parts.push(`<rect x="${left}" y="${foot - 6}" width="14" height="3" fill="#0b62c4"/>`,
    `<rect x="${left + 60}" y="${foot - 6}" width="14" height="3" fill="#15803d"/>`);
  text(left + 18, foot, "start", "target");
  text(left + 78, foot, "start", "model");
  return parts.join("") + "</svg>";
}
