// Definitions while they are edited, without a browser.

import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import test from "node:test";
import { AGENT } from "../../../internal/page/web/agentfields.js";
import { differences, merged, parsed, problemsByField, readable, same, textOf, typedValue, valueAt, withValue } from "../../../internal/page/web/draft.js";
import { ROLES, refusal } from "../../../internal/page/web/roles.js";
import { SCHEDULE } from "../../../internal/page/web/schedulefields.js";

const { schemas } = JSON.parse(await readFile(new URL("../../../docs/openapi.json", import.meta.url), "utf8")).components;

/** The paths of a schema's fields, with their schemas. Objects without declared fields are fields. */
function* leaves(schema, path = []) {
  for (const [name, one] of Object.entries(schema.properties)) {
    const to = one.$ref ? schemas[one.$ref.split("/").at(-1)] : one;
    if (to.properties) yield* leaves(to, [...path, name]);
    else yield [[...path, name].join("."), to];
  }
}

for (const [name, groups, schema] of [
  ["an agent", AGENT, schemas.AgentDefinition],
  ["a schedule", SCHEDULE, schemas.NewSchedule],
]) {
  test(`the form of ${name} has the fields of the API, with their bounds`, () => {
    const fields = new Map(groups.flatMap((g) => g.fields).map((f) => [f.path.join("."), f]));
    const declared = new Map(leaves(schema));
    assert.deepEqual([...fields.keys()].sort(), [...declared.keys()].sort());
    for (const [path, field] of fields) {
      const { type, minimum, maximum, enum: values } = declared.get(path);
      assert.equal(field.min, minimum, path);
      assert.equal(field.max, maximum, path);
      if (values) assert.deepEqual(field.options.map(([value]) => value).sort(), [...values].sort(), path);
      const kinds = { integer: ["integer"], number: ["number"], boolean: ["flag"], string: ["text", "prose", "choice"], object: ["map", "json"] };
      if (typeof type === "string") assert.ok(kinds[type].includes(field.kind), `${path} is ${type}`);
      else if (type) assert.ok(["lines", "rows"].includes(field.kind), path);
    }
  });
}

test("a field changes its value and nothing else, and no empty parents remain", () => {
  const doc = { model: "a/b", future: { kept: [1] }, limits: { maxSteps: 3 } };
  const more = withValue(doc, ["limits", "maxToolCalls"], 4);
  assert.deepEqual(more, { model: "a/b", future: { kept: [1] }, limits: { maxSteps: 3, maxToolCalls: 4 } });
  assert.deepEqual(withValue(more, ["limits", "maxToolCalls"], undefined), doc);
  assert.deepEqual(withValue(doc, ["limits", "maxSteps"], undefined), { model: "a/b", future: { kept: [1] } });
  assert.deepEqual(withValue({}, ["a", "b"], undefined), {});
  assert.deepEqual(doc.limits, { maxSteps: 3 }, "the original stays");
  assert.equal(valueAt(doc, ["limits", "maxSteps"]), 3);
  assert.equal(valueAt(doc, ["model", "length"]), undefined);
  assert.equal(valueAt({}, ["constructor"]), undefined);
});

test("what is typed becomes a value, or says what is wrong", () => {
  const field = (kind, more) => ({ path: ["x"], label: "X", kind, ...more });
  for (const [f, text, want] of [
    [field("integer", { min: 0, max: 9 }), " 7 ", 7],
    [field("integer"), "", undefined],
    [field("number"), "0.5", 0.5],
    [field("text"), "  a ", "a"],
    [field("text"), " ", undefined],
    [field("prose"), " a\n", " a\n"],
    [field("lines"), "a\n\n b \n", ["a", "b"]],
    [field("lines"), "\n", undefined],
    [field("flag"), "true", true],
    [field("flag"), "false", undefined],
    [field("flag", { default: true }), "false", false],
    [field("json"), '{"a":1}', { a: 1 }],
  ]) {
    assert.deepEqual(typedValue(f, text), { value: want }, `${f.kind} ${text}`);
    if (want !== undefined) assert.deepEqual(typedValue(f, textOf(f, want)), { value: want }, "and back");
  }
  for (const [f, text] of [
    [field("integer"), "1e3"],
    [field("integer"), "1.5"],
    [field("integer", { max: 9 }), "10"],
    [field("integer", { min: 0 }), "-1"],
    [field("number"), "a"],
    [field("json"), "{"],
  ]) {
    assert.ok(typedValue(f, text).problem, `${f.kind} ${text}`);
  }
});

test("a value that a field cannot show is left to the JSON", () => {
  const field = (kind, more) => ({ path: ["x"], label: "X", kind, ...more });
  for (const [f, value] of [
    [field("text"), 3],
    [field("integer"), "3"],
    [field("lines"), ["a", 1]],
    [field("lines"), ["two\nlines"]],
    [field("flag"), "yes"],
    [field("choice", { options: [["a", "A"]] }), "b"],
    [field("map"), { a: 1 }],
    [field("rows"), ["a"]],
  ]) {
    assert.equal(textOf(f, value), undefined, `${f.kind} ${JSON.stringify(value)}`);
    assert.equal(textOf(f, undefined), "", "without a value it is empty");
  }
});

test("a text is a definition only if it is an object", () => {
  assert.deepEqual(parsed('{"a":1}'), { doc: { a: 1 } });
  for (const text of ["[1]", "null", "1", "{", ""]) assert.ok(parsed(text).problem, text);
});

test("errors stand at the field that they are about", () => {
  const fields = [...AGENT, ...SCHEDULE].flatMap((g) => g.fields);
  const found = problemsByField(
    [
      { location: "body.limits.maxSteps", message: "too many" },
      { location: "body.tools[2]", message: "no such tool" },
      { location: "body.tools[3]", message: "nor this" },
      { location: "path.name", message: "is reserved" },
      { location: "body.approvals.pay", message: "is no policy" },
      { location: "body.toolsets", message: "is unknown" },
      { location: "body", message: "expected required property model" },
    ],
    fields,
  );
  assert.deepEqual(Object.fromEntries(found), {
    "limits.maxSteps": "too many",
    tools: "[2]: no such tool; [3]: nor this",
    name: "is reserved",
    approvals: "pay: is no policy",
    "": "toolsets: is unknown; expected required property model",
  });
});

test("the changes of two people become one definition", () => {
  const base = { model: "a", tools: ["x"], limits: { maxSteps: 1, maxToolCalls: 2 }, description: "d" };
  const mine = { model: "a", tools: ["x", "y"], limits: { maxSteps: 5, maxToolCalls: 2 }, extra: 1 };
  const theirs = { model: "b", tools: ["x"], limits: { maxSteps: 1, maxToolCalls: 9 }, description: "d" };
  assert.deepEqual(merged(base, mine, theirs), { doc: { model: "b", tools: ["x", "y"], limits: { maxSteps: 5, maxToolCalls: 9 }, extra: 1 }, both: [] });
  const both = merged({ a: 1, n: { b: 1 } }, { a: 2, n: { b: 2, c: 1 } }, { a: 3, n: { b: 3 } });
  assert.deepEqual(both, { doc: { a: 2, n: { b: 2, c: 1 } }, both: ["a", "n.b"] });
  assert.deepEqual(merged({ a: 1 }, {}, { a: 2 }), { doc: {}, both: ["a"] }, "removed by one, changed by the other");
  assert.deepEqual(merged({ a: 1 }, { a: 1 }, {}), { doc: {}, both: [] });
});

test("differences are named by their paths, whatever the order of fields", () => {
  assert.ok(same({ a: 1, b: [{ c: 2, d: 3 }] }, { b: [{ d: 3, c: 2 }], a: 1 }));
  assert.ok(!same([1, 2], [1]));
  assert.ok(same({ a: undefined }, {}));
  assert.deepEqual(differences({ a: { b: 1, c: 2 }, d: [1] }, { a: { b: 1, c: 3 }, d: [1, 2], e: 0 }), ["a.c", "d", "e"]);
  assert.deepEqual(differences({ a: 1 }, { a: 1 }), []);
});

test("the lines of a long text are compared as lines", () => {
  assert.equal(readable({ a: "x\ny" }), '{\n  "a": "x\\n\n      y"\n}');
  assert.equal(readable({ a: "x\\ny" }), '{\n  "a": "x\\\\ny"\n}', "a backslash before an n is no line");
});

test("why a key does not open the page is told apart", () => {
  const told = (status, message, key) => Object.values(refusal({ status, message }, key)).join("|");
  assert.equal(told(401, "not authenticated: an API key is required", ""), "Sign in|This server requires an API key.|false");
  assert.match(told(401, "not authenticated: an API key is required", "secret"), /^This is not a key\|.*tmk_/);
  assert.equal(told(401, 'not authenticated: API key "ann" is revoked', "tmk_1"), 'This key is not accepted|API key "ann" is revoked|true');
  assert.match(told(403, "this needs the role read", "tmk_1"), /^This key does not open the page\|This needs the role read/);
  assert.match(told(503, "the store does not answer", "tmk_1"), /^The key cannot be checked now\|The store/);
  assert.match(told(0, "", "tmk_1"), /^The server cannot be reached/);
});

test("every role is explained", () => {
  assert.deepEqual(ROLES.map(([role]) => role).sort(), [...schemas.ServerInfo.properties.roles.items.enum].sort());
});
