// The fields of a form, made of the schema of a question.

import { h } from "./dom.js";

/**
 * A field of a question's schema.
 * @typedef {object} Field
 * @property {string} name
 * @property {HTMLElement} element
 * @property {() => unknown} value The value, undefined if there is none.
 */

/**
 * What a field's schema can have. The server has checked it.
 * @typedef {{ type?: string, title?: string, description?: string, format?: string, default?: unknown, const?: unknown, enum?: unknown[], enumNames?: unknown[], oneOf?: Schema[],
 *   anyOf?: Schema[], items?: Schema, properties?: Record<string, Schema>, required?: string[], minimum?: number, maximum?: number, minItems?: number, maxItems?: number,
 *   minLength?: number, maxLength?: number }} Schema
 */

/** @param {unknown} value @returns {Schema} */
function object(value) {
  return typeof value === "object" && value !== null ? value : {};
}

/** The values that a schema lists, with their titles; undefined if it lists none. @param {Schema} schema @returns {{ value: unknown, title: string }[] | undefined} */
function choices(schema) {
  const constants = [schema.oneOf, schema.anyOf].find(Array.isArray)?.map(object);
  if (constants?.every((one) => one.const !== undefined)) return constants.map((one) => ({ value: one.const, title: String(one.title ?? one.const) }));
  return Array.isArray(schema.enum) ? schema.enum.map((value, i) => ({ value, title: String(schema.enumNames?.[i] ?? value) })) : undefined;
}

/** @param {string} label @param {boolean} required */
const title = (label, required) => h("span", { class: "title" }, label, !required && h("span", { class: "hint" }, " (optional)"));

/** A choice of one value. @param {{ value: unknown, title: string }[]} options @param {Schema} schema @param {boolean} required */
function one(options, schema, required) {
  const select = h(
    "select",
    { required },
    h("option", { value: "" }, required ? "Choose…" : "—"),
    options.map((o, i) => h("option", { value: String(i) }, o.title)),
  );
  const at = options.findIndex((o) => o.value === schema.default);
  if (at >= 0) select.value = String(at);
  return { control: select, value: () => (select.value === "" ? undefined : options[Number(select.value)].value) };
}

/** A choice of several values. @param {{ value: unknown, title: string }[]} options @param {Schema} schema @param {boolean} required */
function several(options, schema, required) {
  const boxes = options.map(({ value, title }) => ({
    value,
    title,
    box: h("input", { type: "checkbox", checked: Array.isArray(schema.default) && schema.default.includes(value), onchange: () => check() }),
  }));
  const chosen = () => boxes.filter(({ box }) => box.checked).map(({ value }) => value);
  const { minItems = 0, maxItems = options.length } = schema;
  // A browser says what is wrong at a control: the first one.
  const check = () => {
    const n = chosen().length;
    const wrong = n > maxItems ? `Choose at most ${maxItems}.` : n < minItems && (required || n > 0) ? `Choose at least ${minItems}.` : "";
    boxes[0]?.box.setCustomValidity(wrong);
  };
  check();
  return {
    control: boxes.map(({ title, box }) => h("label", { class: "row" }, box, title)),
    value: () => (chosen().length === 0 && !required ? undefined : chosen()),
  };
}

/** Several texts, one a line. @param {Schema} schema @param {boolean} required */
function texts(schema, required) {
  const area = h("textarea", { rows: 3, required, value: Array.isArray(schema.default) ? schema.default.join("\n") : "", placeholder: "one a line" });
  const lines = () =>
    area.value
      .split("\n")
      .map((line) => line.trim())
      .filter((line) => line !== "");
  return { control: area, value: () => (lines().length === 0 && !required ? undefined : lines()) };
}

/** @param {Schema} schema @param {boolean} required */
function number(schema, required) {
  const input = h("input", {
    type: "number",
    required,
    step: schema.type === "integer" ? "1" : "any",
    min: schema.minimum,
    max: schema.maximum,
    value: schema.default ?? "",
  });
  return { control: input, value: () => (input.value === "" ? undefined : input.valueAsNumber) };
}

/** @param {Schema} schema @param {boolean} required */
function text(schema, required) {
  const type = { email: "email", uri: "url", date: "date" }[String(schema.format)] ?? "text";
  const input = h("input", { type, required, maxLength: schema.maxLength ?? 4096, value: schema.default ?? "", autocomplete: "off" });
  if (schema.minLength) input.minLength = schema.minLength;
  return { control: input, value: () => (input.value === "" && !required ? undefined : input.value) };
}

/** Makes a field. @param {string} name @param {Schema} schema @param {boolean} required @returns {Field} */
function field(name, schema, required) {
  const label = String(schema.title ?? name);
  const hint = schema.description && h("span", { class: "hint" }, String(schema.description));
  if (schema.type === "boolean") {
    const box = h("input", { type: "checkbox", checked: schema.default === true });
    return {
      name,
      element: h("div", { class: "field" }, h("label", { class: "row" }, box, h("span", { class: "title" }, label)), hint),
      value: () => box.checked,
    };
  }
  const options = choices(schema),
    items = choices(object(schema.items));
  if (schema.type === "array" && items) {
    const { control, value } = several(items, schema, required);
    return { name, element: h("fieldset", { class: "field" }, h("legend", null, title(label, required)), hint, control), value };
  }
  const { control, value } = options
    ? one(options, schema, required)
    : schema.type === "array"
      ? texts(schema, required)
      : schema.type === "integer" || schema.type === "number"
        ? number(schema, required)
        : text(schema, required);
  return { name, element: h("label", { class: "field" }, title(label, required), hint, control), value };
}

/** Makes the fields of a question. @param {unknown} schema @returns {Field[]} */
export function fields(schema) {
  const { properties, required } = object(schema);
  return Object.entries(properties ?? {}).map(([name, one]) => field(name, object(one), Array.isArray(required) && required.includes(name)));
}
