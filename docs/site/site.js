// What a screen reader needs beyond the theme: names for the search and the lists of pages, code that scrolls by keys.
function mend() {
  const set = (selector, name, value) =>
    document.querySelectorAll(`${selector}:not([${name}="${value}"])`).forEach(box => box.setAttribute(name, value));
  set(".md-search", "aria-label", "Search");
  set(".md-code__nav", "role", "none");
  set(".md-typeset pre > code", "tabindex", "0");
}
document.querySelectorAll(".md-nav .md-nav[aria-labelledby]").forEach((list, number) => {
  list.removeAttribute("aria-labelledby");
  list.setAttribute("aria-label", `Pages ${number + 1}`);
});
mend();
new MutationObserver(mend).observe(document.body, { childList: true, subtree: true, attributeFilter: ["tabindex"] });
