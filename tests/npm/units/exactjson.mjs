// Tests of JSON whose numbers keep all their digits.

import assert from "node:assert/strict";
import test from "node:test";
import { partsOfCall } from "../../../internal/page/web/callparts.js";
import { isExact, parseExact } from "../../../internal/page/web/exactjson.js";
import { nodeOf } from "../../../internal/page/web/jsontree.js";

test("numbers keep all their digits", () => {
  const text = '{"id":9007199254740993,"price":0.10,"n":7,"list":[12345678901234567890],"text":"9007199254740993"}';
  const value = /** @type {any} */ (parseExact(text));
  assert.equal(JSON.stringify(value), text);
  assert.equal(value.n, 7);
  assert.ok(isExact(value.id) && !isExact(value.n) && !isExact({}));
  assert.equal(nodeOf(value.id, "id").text, "9007199254740993");
  const [part] = partsOfCall("pay", text);
  assert.equal(part.kind, "json");
  assert.match(JSON.stringify(part), /9007199254740993/);
});
