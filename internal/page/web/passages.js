// Passages of documents: what they are called, with links to their chunks.

import { passageAddress } from "./addresses.js";
import { h } from "./dom.js";

/** @import { Passage } from "./ranks.js" */

/** The title and the headings, of which the first one often is the title. @param {Passage} p */
export function passageName(p) {
  const title = p.title || p.source,
    path = p.path ?? [];
  return [
    h("a", { href: passageAddress(p), class: "title" }, title),
    ...path.slice(path[0] === title ? 1 : 0).map((heading) => ` › ${heading}`),
    p.page && `, page ${p.page}`,
    p.title && h("span", { class: "hint" }, " ", p.source),
  ];
}
