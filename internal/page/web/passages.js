// Passages of documents: what they are called, with links to their chunks.

import { passageAddress } from "./addresses.js";
import { h } from "./dom.js";

/** @import { Passage } from "./ranks.js" */

/** @param {Passage} p */
export function passageName(p) {
  return [h("a", { href: passageAddress(p), class: "title" }, p.title || p.source), ...(p.path ?? []).map((heading) => ` › ${heading}`), p.page && `, page ${p.page}`,
    p.title && h("span", { class: "hint" }, " ", p.source)];
}
