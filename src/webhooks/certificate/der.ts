/** Encodes DER (ITU-T X.690): the few types that a certificate consists of. Each number is the tag of the type. */

const SHORT_LENGTH = 0x80;
const OID_BASE = 128;

/** Encodes one element: its tag, the length of its content, and the content, which is the joined parts. */
function encodeElement(tag: number, ...parts: readonly Uint8Array[]): Buffer {
  const content = Buffer.concat(parts);
  return Buffer.concat([Buffer.from([tag, ...encodeLength(content.length)]), content]);
}

/** Encodes the length of an element: one byte below 128, else the number of length bytes and the length bytes. */
function encodeLength(length: number): number[] {
  if (length < SHORT_LENGTH) return [length];
  const bytes = toBigEndianDigits(length, 256);
  return [SHORT_LENGTH + bytes.length, ...bytes];
}

/** The digits of a number in a base, the most significant first. */
function toBigEndianDigits(value: number, base: number): number[] {
  return value < base ? [value] : [...toBigEndianDigits(Math.floor(value / base), base), value % base];
}

/** Encodes a SEQUENCE of encoded elements. */
export const sequence = (...parts: readonly Uint8Array[]): Buffer => encodeElement(0x30, ...parts);
/** Encodes a SET OF encoded elements. */
export const setOf = (...parts: readonly Uint8Array[]): Buffer => encodeElement(0x31, ...parts);
/** Encodes a UTF8String. */
export const utf8String = (text: string): Buffer => encodeElement(0x0c, Buffer.from(text));
/** Encodes an OCTET STRING. */
export const octetString = (...parts: readonly Uint8Array[]): Buffer => encodeElement(0x04, ...parts);
/** The BOOLEAN `true`. */
export const TRUE = encodeElement(0x01, Buffer.from([0xff]));
/** Encodes a BIT STRING; `unused` is the number of unused bits at its end. */
export const bitString = (bytes: Uint8Array, unused = 0): Buffer =>
  encodeElement(0x03, Buffer.from([unused]), bytes);
/** Encodes a positive INTEGER from its big-endian bytes, the first of which is not 0. DER needs a leading 0 if the sign bit is set. */
export const integer = (bytes: Uint8Array): Buffer =>
  encodeElement(0x02, Buffer.from((bytes[0] ?? 0) >= SHORT_LENGTH ? [0] : []), bytes);
/** Encodes an element with a context-specific tag that contains other elements. */
export const contextConstructed = (tag: number, ...parts: readonly Uint8Array[]): Buffer =>
  encodeElement(0xa0 + tag, ...parts);
/** Encodes an element with a context-specific tag that contains bytes. */
export const contextPrimitive = (tag: number, content: Uint8Array): Buffer =>
  encodeElement(0x80 + tag, content);

/** Encodes an OBJECT IDENTIFIER such as `2.5.29.17`: seven bits a byte, and the high bit on all but the last byte of a number. */
export function oid(text: string): Buffer {
  const [first = 0, second = 0, ...rest] = text.split(".").map(Number);
  const bytes = [first * 40 + second, ...rest].flatMap((arc) => {
    const digits = toBigEndianDigits(arc, OID_BASE);
    return digits.map((digit, index) => (index < digits.length - 1 ? digit + OID_BASE : digit));
  });
  return encodeElement(0x06, Buffer.from(bytes));
}

/** Encodes a time in ms since the epoch. RFC 5280 requires UTCTime (two-digit year) until 2049, and GeneralizedTime later. */
export function encodeTime(ms: number): Buffer {
  const digits = new Date(ms).toISOString().replaceAll(/[-:T]|\.\d+/g, "");
  return digits < "2050"
    ? encodeElement(0x17, Buffer.from(digits.slice(2)))
    : encodeElement(0x18, Buffer.from(digits));
}
