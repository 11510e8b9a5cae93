// A definition while it is edited: its fields and its JSON, errors at fields, changes of two people.

/** @typedef {{ [key: string]: unknown }} Doc */

/**
 * A field of a form.
 * @typedef {object} Field
 * @property {string[]} path Where its value is in the definition.
 * @property {string} label
 * @property {"text" | "prose" | "integer" | "number" | "choice" | "lines" | "flag" | "json" | "map" | "rows"} kind
 * @property {string} [hint]
 * @property {[value: string, label: string][]} [options] Of a choice, or of the values of a map.
 * @property {boolean} [default] Of a flag.
 * @property {number} [min] @property {number} [max]
 * @property {boolean} [required]
 * @property {boolean} [fixed] It cannot be changed once the definition is stored.
 * @property {string} [list] The name of the suggestions.
 * @property {number} [rows] The height of prose, in lines.
 * @property {Field[]} [columns] Of rows: the fields of each.
 * @property {{ key: string, value: string, add: string }} [names] Of a map: what its names and values are called, and its button.
 * @property {keyof import("./session.js").ServerInfo["limits"]} [limit] The server's limit of its length.
 * @property {(text: string, doc: Doc) => number} [size] How its length is counted. Default: the bytes of the text.
 * @property {(doc: Doc) => boolean} [when] Whether the field is shown. Default: always.
 */

/**
 * Fields that belong together.
 * @typedef {object} Group
 * @property {string} title
 * @property {boolean} [open] Whether it is open although none of its fields has a value.
 * @property {Field[]} fields
 * @property {{ path: string, label: string, initial: unknown }[]} [either] The definition has exactly one of these.
 * @property {string} [legend] Of the choice of these.
 */

/**
 * A definition as it is stored.
 * @typedef {object} Stored
 * @property {Doc | undefined} doc Undefined: none is stored.
 * @property {number} [version]
 * @property {string} [by] Who stored it.
 * @property {string} [at] When.
 */

/** Somebody has stored another definition meanwhile. */
export class ChangedMeanwhile extends Error {
  /** @param {Stored} theirs */
  constructor(theirs) {
    super("Somebody else has changed it meanwhile.");
    this.theirs = theirs;
  }
}

/** @param {unknown} value @returns {value is Doc} */
export const isDoc = (value) => typeof value === "object" && value !== null && !Array.isArray(value);

/** The value at a path, or undefined. @param {unknown} doc @param {string[]} path */
export function valueAt(doc, path) {
  return path.reduce((value, name) => (isDoc(value) && Object.hasOwn(value, name) ? value[name] : undefined), doc);
}

/**
 * A copy with another value at a path. Without a value, it has no such field, nor one that is empty because of that.
 * @param {Doc} doc @param {string[]} path @param {unknown} value @returns {Doc}
 */
export function withValue(doc, [name, ...rest], value) {
  const inner = doc[name];
  const next = rest.length === 0 ? value : withValue(isDoc(inner) ? inner : {}, rest, value);
  const out = { ...doc, [name]: next };
  if (next === undefined || (value === undefined && isDoc(next) && Object.keys(next).length === 0)) delete out[name];
  return out;
}

/**
 * A definition after a change that has left out the part that it must have: that part is empty instead.
 * @param {Doc} before @param {Doc} after @param {NonNullable<Group["either"]>} parts @returns {Doc}
 */
export function withPart(before, after, parts) {
  const part = parts.find(({ path }) => before[path] !== undefined);
  return part && parts.every(({ path }) => after[path] === undefined) ? { ...after, [part.path]: part.initial } : after;
}

/** @param {unknown} value @returns {value is string[]} */
const isTexts = (value) => Array.isArray(value) && value.every((one) => typeof one === "string" && !one.includes("\n"));

/** The text of a value in its field. Undefined if the field cannot show it: then it is edited as JSON. @param {Field} field @param {unknown} value @returns {string | undefined} */
export function textOf(field, value) {
  if (field.kind === "json") return value === undefined ? "" : JSON.stringify(value, null, 2);
  if (value === undefined || value === null) return "";
  switch (field.kind) {
    case "lines":
      return isTexts(value) ? value.join("\n") : undefined;
    case "integer":
    case "number":
      return typeof value === "number" ? String(value) : undefined;
    case "flag":
      return typeof value === "boolean" ? String(value) : undefined;
    case "map":
      return isDoc(value) && Object.values(value).every((one) => typeof one === "string") ? "" : undefined;
    case "rows":
      return Array.isArray(value) && value.every(isDoc) ? "" : undefined;
    case "choice":
      return typeof value === "string" && field.options?.some(([one]) => one === value) ? value : undefined;
  }
  return typeof value === "string" ? value : undefined;
}

/** The value of what is typed in a field, or what is wrong with it. @param {Field} field @param {string} text @returns {{ value: unknown, problem?: undefined } | { problem: string }} */
export function typedValue(field, text) {
  const trimmed = text.trim();
  switch (field.kind) {
    case "prose":
      return { value: text === "" ? undefined : text };
    case "lines": {
      const lines = text.split("\n").map((line) => line.trim());
      const value = lines.filter((line) => line !== "");
      return { value: value.length > 0 ? value : undefined };
    }
    case "flag":
      return { value: (trimmed === "true") === (field.default ?? false) ? undefined : trimmed === "true" };
    case "json":
      if (trimmed === "") return { value: undefined };
      try {
        return { value: JSON.parse(text) };
      } catch (error) {
        return { problem: `This is not JSON: ${/** @type {Error} */ (error).message}` };
      }
    case "integer":
    case "number": {
      if (trimmed === "") return { value: undefined };
      const value = Number(trimmed);
      if (!(field.kind === "integer" ? /^-?\d+$/ : /^-?(\d+\.?\d*|\.\d+)$/).test(trimmed)) {
        return { problem: field.kind === "integer" ? "Write a whole number." : "Write a number." };
      }
      const { min = -Infinity, max = Infinity } = field;
      return value < min || value > max ? { problem: `It has to be between ${min} and ${max}.` } : { value };
    }
  }
  return { value: trimmed === "" ? undefined : trimmed };
}

/** The definition of a text, or what is wrong with it. @param {string} text @returns {{ doc: Doc, problem?: undefined } | { problem: string }} */
export function parsed(text) {
  try {
    const doc = JSON.parse(text);
    return isDoc(doc) ? { doc } : { problem: "A definition is an object: { … }" };
  } catch (error) {
    return { problem: `This is not JSON: ${/** @type {Error} */ (error).message}` };
  }
}

/**
 * The errors of an answer by the field that they are about, "" for those about no field.
 * @param {{ location?: string, message?: string }[]} errors @param {Field[]} fields @returns {Map<string, string>} By path.
 */
export function problemsByField(errors, fields) {
  /** @type {Map<string, string>} */
  const out = new Map();
  for (const { location = "", message = "" } of errors) {
    const path = location.replace(/^(body|path|query)\.?/, "");
    const names = path.split(/[.[\]]+/).filter((name) => name !== "");
    let best = "";
    for (const { path: at } of fields) {
      if (at.every((name, i) => names[i] === name) && at.join(".").length > best.length) best = at.join(".");
    }
    const rest = best === "" ? path : path.slice(best.length).replace(/^\./, "");
    const text = rest === "" ? message : `${rest}: ${message}`;
    out.set(best, [out.get(best), text].filter(Boolean).join("; "));
  }
  return out;
}

/** Whether two values are the same JSON, whatever the order of their fields. @param {unknown} a @param {unknown} b @returns {boolean} */
export function same(a, b) {
  if (Array.isArray(a) && Array.isArray(b)) return a.length === b.length && a.every((one, i) => same(one, b[i]));
  if (!isDoc(a) || !isDoc(b)) return a === b;
  return [...new Set([...Object.keys(a), ...Object.keys(b)])].every((name) => same(a[name], b[name]));
}

/** The paths at which two values differ. @param {unknown} a @param {unknown} b @param {string[]} [path] @returns {string[]} */
export function differences(a, b, path = []) {
  if (same(a, b)) return [];
  if (!isDoc(a) || !isDoc(b)) return [path.join(".")];
  return [...new Set([...Object.keys(a), ...Object.keys(b)])].flatMap((name) => differences(a[name], b[name], [...path, name]));
}

/**
 * The changes of two people to the same definition, in one. Where both have changed a value, mine is taken.
 * @param {Doc} base @param {Doc} mine @param {Doc} theirs
 * @returns {{ doc: Doc, both: string[] }} both: the paths of the values that both have changed.
 */
export function merged(base, mine, theirs) {
  /** @type {string[]} */
  const both = [];
  /** @param {unknown} b @param {unknown} m @param {unknown} t @param {string[]} path @returns {unknown} */
  const one = (b, m, t, path) => {
    if (same(m, t) || same(b, t)) return m;
    if (same(b, m)) return t;
    if (isDoc(m) && isDoc(t)) return all(isDoc(b) ? b : {}, m, t, path);
    both.push(path.join("."));
    return m;
  };
  /** @param {Doc} b @param {Doc} m @param {Doc} t @param {string[]} path */
  const all = (b, m, t, path) => {
    /** @type {Doc} */
    const out = {};
    for (const name of new Set([...Object.keys(t), ...Object.keys(m)])) {
      const value = one(b[name], m[name], t[name], [...path, name]);
      if (value !== undefined) out[name] = value;
    }
    return out;
  };
  return { doc: all(base, mine, theirs, []), both };
}

/** JSON in which the lines of long texts are lines, to be compared by people. @param {unknown} value */
export function readable(value) {
  return (JSON.stringify(value, null, 2) ?? "").replace(/\\\\|\\n/g, (found) => (found === "\\n" ? "\\n\n      " : found));
}
