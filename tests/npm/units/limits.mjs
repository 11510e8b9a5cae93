// How long what people write may be.

import assert from "node:assert/strict";
import test from "node:test";
import { messageBytes, textBytes, toldOf } from "../../../internal/page/web/limits.js";

test("bytes are counted as the server counts them", () => {
  assert.equal(textBytes("aé€😀"), 1 + 2 + 3 + 4);
  const sizeOf = (content) => messageBytes({ threadId: "t", sender: "ann", content }) - messageBytes({ threadId: "t", sender: "ann", content: "" });
  for (const [content, bytes] of Object.entries({ é: 2, "<": 6, ">": 6, "&": 6, '"': 2, "\n": 2, "\u0001": 6, "\u2028": 6, "😀": 4 }))
    assert.equal(sizeOf(content), bytes, content);
});

test("a limit is told when it is near", () => {
  assert.deepEqual(toldOf(80, 100), { text: "", over: false });
  assert.deepEqual(toldOf(81, 100), { text: "81 of at most 100 bytes.", over: false });
  assert.deepEqual(toldOf(100, 100), { text: "100 of at most 100 bytes.", over: false });
  assert.deepEqual(toldOf(101, 100), { text: "1 byte too long: at most 100 bytes.", over: true });
});
