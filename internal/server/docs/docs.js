"use strict";

const el = (tag, attributes, ...children) => {
  const node = Object.assign(document.createElement(tag), attributes);
  node.append(...children.filter((child) => child !== undefined));
  return node;
};

const refName = (ref) => ref.split("/").pop();

// typeOf says a schema in a few words; references become links.
function typeOf(schema) {
  if (!schema) return "";
  if (schema.$ref) return el("a", { href: "#schema-" + refName(schema.$ref) }, refName(schema.$ref));
  if (schema.oneOf) {
    return el("span", {}, ...schema.oneOf.flatMap((one, i) => (i ? [" or ", typeOf(one)] : [typeOf(one)])));
  }
  const types = [].concat(schema.type ?? "any").filter((type) => type !== "null");
  if (types[0] === "array") return el("span", {}, "list of ", typeOf(schema.items));
  if (schema.enum) return schema.enum.map((value) => JSON.stringify(value)).join(" | ");
  return types.join(" or ") + (schema.format ? ` (${schema.format})` : "");
}

function table(rows) {
  return el("table", {}, el("tbody", {}, ...rows.map((cells) => el("tr", {}, ...cells.map((cell) => el("td", {}, cell ?? ""))))));
}

function properties(schema) {
  const required = new Set(schema.required ?? []);
  return table(Object.entries(schema.properties ?? {}).map(([name, property]) => [
    el("code", {}, name + (required.has(name) ? "" : "?")), typeOf(property), property.description,
  ]));
}

function media(title, content) {
  return Object.entries(content ?? {}).map(([type, body]) =>
    el("p", {}, title, " ", el("code", {}, type), ": ", typeOf(body.schema)));
}

function operation(path, method, op) {
  const parameters = (op.parameters ?? []).map((p) => [
    el("code", {}, p.name + (p.required ? "" : "?")), p.in, typeOf(p.schema), p.description,
  ]);
  const answers = Object.entries(op.responses ?? {}).map(([status, response]) => [
    el("code", {}, status), response.description, el("span", {}, ...media("", response.content)),
  ]);
  return el("details", { id: op.operationId },
    el("summary", {}, el("span", { className: "method" }, method.toUpperCase()), el("code", {}, path), " ",
      el("span", { className: "muted" }, op.summary ?? "")),
    op.description ? el("p", {}, op.description) : undefined,
    parameters.length ? el("h4", {}, "Parameters") : undefined,
    parameters.length ? table(parameters) : undefined,
    ...media("Body", op.requestBody?.content),
    el("h4", {}, "Answers"), table(answers));
}

function render(api) {
  const groups = new Map();
  for (const [path, item] of Object.entries(api.paths)) {
    for (const method of ["get", "post", "put", "patch", "delete"]) {
      const op = item[method];
      if (!op) continue;
      const tag = op.tags?.[0] ?? "other";
      groups.set(tag, [...(groups.get(tag) ?? []), operation(path, method, op)]);
    }
  }
  const schemas = Object.entries(api.components?.schemas ?? {}).map(([name, schema]) =>
    el("section", { id: "schema-" + name }, el("h3", {}, name), properties(schema)));
  document.getElementById("api").replaceChildren(
    el("p", {}, api.info.description ?? ""),
    ...[...groups].flatMap(([tag, operations]) => [el("h2", {}, tag), ...operations]),
    el("h2", {}, "Schemas"), ...schemas);
}

fetch("/openapi.json")
  .then((response) => {
    if (!response.ok) throw new Error("HTTP " + response.status);
    return response.json();
  })
  .then(render)
  .catch((error) => {
    document.getElementById("api").textContent = "The description of the API could not be loaded: " + error.message;
  });
