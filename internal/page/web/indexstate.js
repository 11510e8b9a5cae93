// The state of the index: how many documents are found, and by which vectors.

import { plural } from "./documentparts.js";
import { fill, h } from "./dom.js";

/** @import { components } from "./client/api.js" */
/** @typedef {components["schemas"]["Knowledge"]} Knowledge */

/** How many chunks have vectors of the embedder. @param {Knowledge} index */
const withVectors = ({ embedder, embedders }) => embedders.find((e) => e.name === embedder)?.chunks ?? 0;

/** Whether chunks still get vectors of the embedder. @param {Knowledge} index */
export const isGrowing = (index) => index.embedder !== "" && withVectors(index) < index.chunks;

/** Shows the state. @param {Element} element @param {Knowledge} index */
export function showIndex(element, index) {
  fill(
    element,
    h("strong", null, plural(index.documents, "document")),
    ` · ${plural(index.chunks, "chunk")} · `,
    ...vectors(index),
    index.rerankModel && [", ordered by ", h("code", null, index.rerankModel)],
  );
}

/** What is said of the vectors. @param {Knowledge} index */
function vectors(index) {
  const { embedder, withoutVectors, embedders, chunks } = index;
  if (embedder === "") return ["found by their words alone", withoutVectors && `: ${withoutVectors}`];
  if (!isGrowing(index)) return ["found by words and by meaning (", h("code", null, embedder), ")"];
  const own = withVectors(index),
    serving = embedders.filter((e) => e.name !== embedder).sort((a, b) => b.chunks - a.chunks)[0];
  return [
    h("progress", { max: chunks, value: own, "aria-label": `Chunks with vectors of ${embedder}` }),
    ` ${own.toLocaleString()} of ${chunks.toLocaleString()} have vectors of `,
    h("code", null, embedder),
    " so far",
    ...(serving && serving.chunks > own ? [". Until all have, ", h("code", null, serving.name), " serves"] : []),
  ];
}
