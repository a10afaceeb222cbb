// A table of texts and elements.

import { h } from "./dom.js";
import * as words from "./words.js";

/** A table whose numbers stand right: all columns but those in `text`. The `wide` column may
 * break its lines. Cells are text or elements. */
export function table(heads, lines, { text = [0], wide = null, label = heads[0] } = {}) {
  const side = (n) => (n === wide ? "wide" : text.includes(n) ? null : "number");
  const cell = (value, n) => h("td", { class: side(n) }, value instanceof Node ? value : String(value ?? words.NONE));
  return h(
    "div",
    { class: "scroll", tabindex: 0, role: "region", "aria-label": label },
    h(
      "table",
      {},
      h("thead", {}, h("tr", {}, heads.map((head, n) => h("th", { scope: "col", class: side(n) }, head)))),
      h("tbody", {}, lines.map((line) => h("tr", {}, line.map(cell)))),
    ),
  );
}
