import * as fc from "fast-check";

/** One change to the bytes of an input. Places and lengths are fractions of what is there. */
interface Change {
  readonly kind: "flip" | "insert" | "remove" | "repeat" | "cut" | "swap";
  readonly at: number;
  readonly length: number;
  readonly bytes: Uint8Array;
}

/** What readers of texts have stumbled over. */
const WORDS = [
  "__proto__",
  "constructor",
  "toString",
  "\u0000",
  "\uFEFF",
  "\u2028",
  "1e999",
  "-0",
  "9".repeat(400),
  "0x1F",
  "null",
  "{}",
  "[]",
  '"',
  "'",
  "\\",
  "\r\n",
  "\n---\n",
  "\n...\n",
  "%",
  "%00",
  "/../",
  "~1~0~",
  "{{",
  "}}",
  "&a [*a, *a]",
  "<<: *a",
  "!!binary ",
  "? ",
  "| ",
  "-----BEGIN A-----",
  "[".repeat(5000),
  '{"a":'.repeat(5000),
  "a".repeat(20_000),
  "\r\nTransfer-Encoding: chunked\r\n",
  "\r\nContent-Length: 99999999999\r\n",
];

const change: fc.Arbitrary<Change> = fc.record({
  kind: fc.constantFrom("flip", "insert", "insert", "remove", "repeat", "cut", "swap"),
  at: fc.double({ min: 0, max: 1, noNaN: true }),
  length: fc.double({ min: 0, max: 0.3, noNaN: true }),
  bytes: fc.oneof(
    fc.constantFrom(...WORDS).map((word) => new Uint8Array(Buffer.from(word))),
    fc.uint8Array({ minLength: 1, maxLength: 8 }),
  ),
});

/** Inputs that are one of the seeds with a few changes to its bytes. */
export function mutated(seeds: readonly (string | Uint8Array)[]): fc.Arbitrary<Buffer> {
  return fc
    .tuple(fc.constantFrom(...seeds), fc.array(change, { maxLength: 6 }))
    .map(([seed, changes]) => changes.reduce(apply, Buffer.from(seed as string)));
}

function apply(text: Buffer, { kind, at, length, bytes }: Change): Buffer {
  const from = Math.floor(at * text.length);
  const to = Math.min(text.length, from + Math.ceil(length * text.length));
  const [before, piece, after] = [text.subarray(0, from), text.subarray(from, to), text.subarray(to)];
  switch (kind) {
    case "flip":
      return Buffer.concat([before, piece.map((byte) => byte ^ (bytes[0] ?? 1)), after]);
    case "insert":
      return Buffer.concat([before, bytes, piece, after]);
    case "remove":
      return Buffer.concat([before, after]);
    case "repeat":
      return Buffer.concat([before, piece, piece, piece, after]);
    case "cut":
      return before;
    case "swap":
      return Buffer.concat([after, piece, before]);
  }
}
