import { expect, it } from "vitest";

import { decodeText, findInvalidLine, toOwnBytes } from "../../../src/base/index.ts";

it.each<[string, number[], number | undefined]>([
  ["text", [...Buffer.from("é\n😀\n")], undefined],
  ["nothing", [], undefined],
  ["a byte of another encoding", [0x61, 0x0a, 0x62, 0x97], 2],
  ["half of a character at the end", [0x61, 0xc3], 1],
  ["a character that a line feed cuts", [0x0a, 0xc3, 0x0a, 0xa9], 2],
  ["a surrogate", [0xed, 0xa0, 0x80], 1],
])("%s", (_, bytes, line) => {
  expect(findInvalidLine(Buffer.from(bytes))).toBe(line);
});

it("a text is decoded, and other bytes are refused", () => {
  expect(decodeText(Buffer.from("é\n"))).toBe("é\n");
  expect(() => decodeText(Buffer.from([0x0a, 0x97]))).toThrow("line 2 is no UTF-8 text");
});

it.each([
  ["text", "é😀", "utf8"],
  ["nothing", "", "utf8"],
  ["base64", "w6nwn5iA", "base64"],
  ["base64 with padding", "w6k=", "base64"],
] as const)("%s becomes bytes in a memory of their own", (_, text, encoding) => {
  const bytes = toOwnBytes(text, encoding);
  expect(bytes.toString(encoding)).toBe(text);
  expect(bytes.buffer.byteLength).toBe(bytes.byteLength);
});
