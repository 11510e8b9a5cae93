// The page of the API: what /openapi.json describes, for people, with a form for each operation that
// sends real requests.

const el = (tag, attributes, ...children) => {
  const node = Object.assign(document.createElement(tag), attributes);
  node.append(...children.flat().filter((child) => child !== undefined && child !== ""));
  return node;
};

const refName = (ref) => ref.split("/").pop();

let api;

const resolve = (schema) => (schema?.$ref ? api.components.schemas[refName(schema.$ref)] : schema) ?? {};

// typeOf says a schema in a few words; references become links.
function typeOf(schema) {
  if (!schema) return "";
  if (schema.$ref) return el("a", { href: "#schema-" + refName(schema.$ref) }, refName(schema.$ref));
  const either = schema.oneOf ?? schema.anyOf;
  if (either) return el("span", {}, either.flatMap((one, i) => (i ? [" or ", typeOf(one)] : [typeOf(one)])));
  const types = [].concat(schema.type ?? "any").filter((type) => type !== "null");
  if (types[0] === "array") return el("span", {}, "list of ", typeOf(schema.items));
  if (schema.enum) return schema.enum.map((value) => JSON.stringify(value)).join(" | ");
  return types.join(" or ") + (schema.format ? ` (${schema.format})` : "");
}

// example returns a value of a schema: the fields that are required, at the least.
function example(schema, depth = 0) {
  schema = resolve(schema);
  if (schema.examples) return schema.examples[0];
  if (schema.default !== undefined) return schema.default;
  if (schema.enum) return schema.enum[0];
  const type = [].concat(schema.type ?? "object").find((one) => one !== "null");
  if (type === "array") return [];
  if (type === "integer" || type === "number") return schema.minimum ?? 0;
  if (type === "boolean") return false;
  if (type === "string") return schema.format === "date-time" ? new Date().toISOString() : "text";
  if (depth > 3) return {};
  return Object.fromEntries((schema.required ?? []).map((name) => [name, example(schema.properties?.[name], depth + 1)]));
}

function table(head, rows) {
  return el("table", {},
    el("thead", {}, el("tr", {}, head.map((name) => el("th", { scope: "col" }, name)))),
    el("tbody", {}, rows.map((cells) => el("tr", {}, cells.map((cell) => el("td", {}, cell ?? ""))))));
}

function properties(schema) {
  const required = new Set(schema.required ?? []);
  return table(["field", "type", "description"], Object.entries(schema.properties ?? {}).map(([name, property]) => [
    el("code", {}, name + (required.has(name) ? "" : "?")), typeOf(property), property.description,
  ]));
}

const media = (title, content) => Object.entries(content ?? {}).map(([type, body]) =>
  el("p", {}, title, " ", el("code", {}, type), ": ", typeOf(body.schema)));

const quoted = (text) => `'${text.replaceAll("'", `'\\''`)}'`;

// curl returns the command for a request.
function curl({ method, path, body, stream }) {
  const parts = ["curl"];
  if (stream) parts.push("-N -H 'Accept: text/event-stream'");
  if (method !== "get" && !(method === "post" && body !== undefined)) parts.push("-X " + method.toUpperCase());
  if (document.getElementById("key").value) parts.push('-H "Authorization: Bearer $THREADMILL_API_KEY"');
  if (body !== undefined) parts.push("-H 'Content-Type: application/json'", "-d " + quoted(body));
  return [...parts, quoted(location.origin + path)].join(" ");
}

async function send({ method, path, body, stream }, signal, show) {
  const headers = {};
  const key = document.getElementById("key").value;
  if (key) headers.Authorization = "Bearer " + key;
  if (stream) headers.Accept = "text/event-stream";
  if (body !== undefined) headers["Content-Type"] = "application/json";
  const response = await fetch(path, { method: method.toUpperCase(), headers, body, signal });
  const status = `${response.status} ${response.statusText}\n\n`;
  if (!(response.headers.get("Content-Type") ?? "").startsWith("text/event-stream")) {
    const text = await response.text();
    try {
      show(status + JSON.stringify(JSON.parse(text), null, 2));
    } catch {
      show(status + text);
    }
    return;
  }
  let text = status;
  const decoder = new TextDecoder();
  for (const reader = response.body.getReader(); ;) {
    const { done, value } = await reader.read();
    if (done) return;
    text = (text + decoder.decode(value, { stream: true })).slice(-100_000);
    show(text);
  }
}

// attempt returns the form that sends requests of an operation.
function attempt(path, method, op) {
  const inputs = (op.parameters ?? []).filter((p) => p.in !== "header").map((p) => ({
    ...p, input: el("input", { name: p.name, required: p.required ?? false, placeholder: String(p.schema?.default ?? "") }),
  }));
  const schema = op.requestBody?.content?.["application/json"]?.schema;
  const body = schema && el("textarea", { rows: 6, spellcheck: false, value: JSON.stringify(example(schema), null, 2) });
  const streams = Boolean(op.responses?.["200"]?.content?.["text/event-stream"]);
  const stream = streams && el("input", { type: "checkbox", checked: true });
  const request = () => {
    const query = new URLSearchParams();
    let target = path;
    for (const p of inputs) {
      if (p.in === "path") target = target.replace(`{${p.name}}`, encodeURIComponent(p.input.value));
      else if (p.input.value) query.set(p.name, p.input.value);
    }
    return { method, path: target + (query.size ? "?" + query : ""), body: body?.value, stream: stream && stream.checked };
  };
  const command = el("pre", {}, el("code"));
  const answer = el("pre", { hidden: true, ariaLive: "polite" });
  const stop = el("button", { type: "button", hidden: true }, "Stop");
  const form = el("form", { className: "try" },
    inputs.map((p) => el("label", {}, el("code", {}, p.name), p.input)),
    body && el("label", {}, "body", body),
    stream && el("label", {}, "stream", stream),
    command, el("button", {}, "Send " + method.toUpperCase()), stop, answer);
  const describe = () => { command.firstChild.textContent = curl(request()); };
  form.addEventListener("input", describe);
  describe();
  form.addEventListener("submit", async (e) => {
    e.preventDefault();
    const control = new AbortController();
    stop.hidden = answer.hidden = false;
    stop.onclick = () => control.abort();
    answer.textContent = "…";
    try {
      await send(request(), control.signal, (text) => { answer.textContent = text; });
    } catch (error) {
      if (!control.signal.aborted) answer.textContent = "The request failed: " + error.message;
    }
    stop.hidden = true;
  });
  return form;
}

function operation(path, method, op) {
  const parameters = (op.parameters ?? []).map((p) => [
    el("code", {}, p.name + (p.required ? "" : "?")), p.in, typeOf(p.schema), p.description,
  ]);
  const answers = Object.entries(op.responses ?? {}).map(([status, response]) => [
    el("code", {}, status), response.description, el("span", {}, media("", response.content)),
  ]);
  const details = el("details", { id: op.operationId },
    el("summary", {}, el("span", { className: "method" }, method.toUpperCase()), el("code", {}, path), " ",
      el("span", { className: "muted" }, op.summary ?? "")));
  // Hundreds of tables take long, and few are ever opened.
  details.addEventListener("toggle", () => details.append(
    op.description ? el("p", {}, op.description) : "",
    ...(parameters.length ? [el("h4", {}, "Parameters"), table(["name", "in", "type", "description"], parameters)] : []),
    ...media("Body", op.requestBody?.content),
    el("h4", {}, "Responses"), table(["status", "when", "body"], answers),
    el("h4", {}, "Try it"), attempt(path, method, op)), { once: true });
  return details;
}

function render() {
  const groups = new Map((api.tags ?? []).map((tag) => [tag.name, []]));
  for (const [path, item] of Object.entries(api.paths)) {
    for (const method of ["get", "post", "put", "patch", "delete"]) {
      if (item[method]) groups.get(item[method].tags?.[0])?.push(operation(path, method, item[method]));
    }
  }
  const described = Object.fromEntries((api.tags ?? []).map((tag) => [tag.name, tag.description]));
  const schemas = Object.entries(api.components?.schemas ?? {}).map(([name, schema]) =>
    el("section", { id: "schema-" + name }, el("h3", {}, name),
      schema.description ? el("p", {}, schema.description) : "",
      schema.oneOf ? el("p", {}, typeOf(schema)) : properties(schema)));
  document.getElementById("description").textContent = api.info.description ?? "";
  document.getElementById("api").replaceChildren(
    ...[...groups].flatMap(([tag, operations]) => [
      el("h2", {}, tag), el("p", { className: "muted" }, described[tag] ?? ""), ...operations]),
    el("h2", {}, "Schemas"), ...schemas);
}

const examples = {
  open: { method: "post", path: "/v1/threads", body: '{"id": "first", "message": "hello"}' },
  watch: { method: "get", path: "/v1/threads/first/events", stream: true },
  post: { method: "post", path: "/v1/threads/first/messages?wait=true", body: '{"content": "what time is it?"}' },
  approve: { method: "post", path: "/v1/threads/first/approvals/CALL", body: '{"decision": "approve", "by": "ann"}' },
};

function showExamples() {
  for (const code of document.querySelectorAll("[data-example]")) code.textContent = curl(examples[code.dataset.example]);
}

const key = document.getElementById("key");
key.value = sessionStorage.getItem("threadmill.key") ?? "";
key.addEventListener("input", () => {
  sessionStorage.setItem("threadmill.key", key.value);
  showExamples();
});
document.getElementById("access").addEventListener("submit", (e) => e.preventDefault());
showExamples();

// open shows the operation or the schema that the address names.
function open() {
  const target = document.getElementById(location.hash.slice(1));
  if (target instanceof HTMLDetailsElement) target.open = true;
  target?.scrollIntoView();
}

try {
  const response = await fetch("/openapi.json");
  if (!response.ok) throw new Error("HTTP " + response.status);
  api = await response.json();
  render();
  addEventListener("hashchange", open);
  open();
} catch (error) {
  document.getElementById("api").textContent = "The description of the API could not be loaded: " + error.message;
}
