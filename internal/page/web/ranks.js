// Why a passage was found, in words.

/** @import { components } from "./client/api.js" */
/** @typedef {components["schemas"]["Passage"]} Passage */

const rules = new Intl.PluralRules("en", { type: "ordinal" });
const ENDINGS = /** @type {Record<Intl.LDMLPluralRule, string>} */ ({ one: "st", two: "nd", few: "rd", other: "th" });

/** @param {number} n */
export const ordinal = (n) => `${n}${ENDINGS[rules.select(n)]}`;

/** Its ranks in the searches that found a passage, the one that decided first. @param {Passage} p */
export function ranks({ rerankRank, textRank, vectorRank }) {
  return [
    rerankRank && `${ordinal(rerankRank)} by the reranking model`,
    textRank && `${ordinal(textRank)} by words`,
    vectorRank && `${ordinal(vectorRank)} by meaning`,
  ]
    .filter(Boolean)
    .join(", ");
}
