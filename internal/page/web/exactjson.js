// JSON whose numbers keep all their digits: what people approve is what runs. Browsers round integers above 2^53 otherwise.

/**
 * What browsers have had since 2023 to 2025, and the types do not.
 * @typedef {object} Exact
 * @property {(text: string, reviver: (name: string, value: unknown, context?: { source?: string }) => unknown) => unknown} parse
 * @property {(text: string) => unknown} [rawJSON]
 * @property {(value: unknown) => boolean} [isRawJSON]
 */

const json = /** @type {Exact} */ (/** @type {unknown} */ (JSON));

/** Whether a number is one that JavaScript would round. @param {unknown} value */
export const isExact = (value) => json.isRawJSON?.(value) ?? false;

/** Parses JSON. Numbers that JavaScript would round become values that JSON.stringify writes as they were. @param {string} text */
export function parseExact(text) {
  return json.parse(text, (_, value, context) => {
    if (typeof value !== "number" || context?.source === undefined || !json.rawJSON) return value;
    return JSON.stringify(value) === context.source ? value : json.rawJSON(context.source);
  });
}
