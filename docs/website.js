// What the theme leaves to mend for readers without a mouse or a screen: a wide table can be scrolled by its keys, and
// of several navigations on a page each says which it is, and a table's corner without a word is no header.

const named = (elements, name) => elements.forEach((element, i) => element.setAttribute("aria-label", `${name} ${i + 1}`));

function mend() {
  for (const table of document.querySelectorAll(".md-typeset__scrollwrap")) {
    if (table.scrollWidth > table.clientWidth) table.setAttribute("tabindex", "0");
  }
  for (const header of document.querySelectorAll(".md-typeset th:empty")) header.setAttribute("role", "cell");
  document.querySelector(".md-nav--primary")?.setAttribute("aria-label", "Pages");
  named(document.querySelectorAll(".md-code__nav"), "Code");
}

new MutationObserver(mend).observe(document.body, { childList: true, subtree: true });
window.addEventListener("resize", mend);
mend();
