/** Writes DER (ITU-T X.690): the few types that a certificate consists of. */

const SHORT_LENGTH = 0x80;
const BASE = 128;

/** One element: its tag, the length of the content, the content. */
function element(tag: number, ...parts: readonly Uint8Array[]): Buffer {
  const content = Buffer.concat(parts);
  return Buffer.concat([Buffer.from([tag, ...lengthBytes(content.length)]), content]);
}

function lengthBytes(length: number): number[] {
  if (length < SHORT_LENGTH) return [length];
  const bytes = bigEndian(length, 256);
  return [SHORT_LENGTH + bytes.length, ...bytes];
}

function bigEndian(value: number, base: number): number[] {
  return value < base ? [value] : [...bigEndian(Math.floor(value / base), base), value % base];
}

export const sequence = (...parts: readonly Uint8Array[]): Buffer => element(0x30, ...parts);
export const setOf = (...parts: readonly Uint8Array[]): Buffer => element(0x31, ...parts);
export const utf8String = (text: string): Buffer => element(0x0c, Buffer.from(text));
export const octetString = (...parts: readonly Uint8Array[]): Buffer => element(0x04, ...parts);
export const TRUE = element(0x01, Buffer.from([0xff]));
/** `unused` is the number of unused bits at the end. */
export const bitString = (bytes: Uint8Array, unused = 0): Buffer =>
  element(0x03, Buffer.from([unused]), bytes);
/** A positive integer from its big-endian bytes, of which the first is not 0. */
export const integer = (bytes: Uint8Array): Buffer =>
  element(0x02, Buffer.from((bytes[0] ?? 0) >= SHORT_LENGTH ? [0] : []), bytes);
/** An element with a context-specific tag: one that contains others, or a plain one. */
export const constructed = (tag: number, ...parts: readonly Uint8Array[]): Buffer =>
  element(0xa0 + tag, ...parts);
export const plain = (tag: number, content: Uint8Array): Buffer => element(0x80 + tag, content);

/** An object identifier such as `2.5.29.17`. */
export function oid(text: string): Buffer {
  const [first = 0, second = 0, ...rest] = text.split(".").map(Number);
  const bytes = [first * 40 + second, ...rest].flatMap((arc) => {
    const digits = bigEndian(arc, BASE);
    return digits.map((digit, index) => (index < digits.length - 1 ? digit + BASE : digit));
  });
  return element(0x06, Buffer.from(bytes));
}

/** A time in ms since the epoch. RFC 5280 requires the short form until 2049. */
export function time(ms: number): Buffer {
  const digits = new Date(ms).toISOString().replaceAll(/[-:T]|\.\d+/g, "");
  return digits < "2050" ? element(0x17, Buffer.from(digits.slice(2))) : element(0x18, Buffer.from(digits));
}
