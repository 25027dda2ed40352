// Elements of HTML and SVG, with attributes and children; texts become text, never HTML.
"use strict";

const DRAWN = ["svg", "path", "line", "circle", "rect", "text", "g", "title"];

function make(name, attributes = {}, ...children) {
  const made = DRAWN.includes(name) ? document.createElementNS("http://www.w3.org/2000/svg", name) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (key === "style") made.style.cssText = value; // the page's policy refuses the attribute
    else made.setAttribute(key, value === true ? "" : value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}
