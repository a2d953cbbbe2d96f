/**
 * Issues the certificates of the webhook server: a CA of its own, and certificates that it signs (ECDSA with P-256). Node has
 * no function for that, so this file encodes the fields of a certificate in DER, the binary form of ASN.1.
 */

import { X509Certificate, createHash, createPrivateKey, createPublicKey } from "node:crypto";
import { generateKeyPairSync, randomBytes, sign } from "node:crypto";
import type { KeyObject } from "node:crypto";
import { isIP } from "node:net";

/** A certificate and its private key, as PEM. */
export interface KeyPair {
  readonly cert: string;
  readonly key: string;
}

/** Validity, in ms since the epoch. */
interface Validity {
  readonly from: number;
  readonly to: number;
}

/* DER (ITU-T X.690): the few types that a certificate consists of. Each number is the tag of the type. */

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

/**
 * Encodes an OBJECT IDENTIFIER such as `2.5.29.17`: seven bits a byte, and the high bit on all but the last byte of a number.
 * The first two numbers are encoded as one.
 */
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

/** Object identifiers of X.509 (RFC 5280, RFC 5758). */
const OID = {
  ecdsaWithSha256: "1.2.840.10045.4.3.2",
  serverAuth: "1.3.6.1.5.5.7.3.1",
  clientAuth: "1.3.6.1.5.5.7.3.2",
  basicConstraints: "2.5.29.19",
  keyUsage: "2.5.29.15",
  subjectKeyIdentifier: "2.5.29.14",
  extendedKeyUsage: "2.5.29.37",
  subjectAltName: "2.5.29.17",
  authorityKeyIdentifier: "2.5.29.35",
  commonName: "2.5.4.3",
} as const;

const ECDSA_SHA256 = sequence(oid(OID.ecdsaWithSha256));
/** For servers and for clients: a replica that forwards a review presents its certificate as a client. */
const EXTENDED_KEY_USAGES = sequence(oid(OID.serverAuth), oid(OID.clientAuth));
/** Key usages as bits: the key signs certificates (a CA) or handshakes (a server). */
const CERT_SIGN = bitString(Buffer.from([0x04]), 2);
const DIGITAL_SIGNATURE = bitString(Buffer.from([0x80]), 7);

/** Issues a self-signed CA. Its name is unique, so that an old and a new CA can be in one bundle. */
export function issueCa(validity: Validity): KeyPair {
  const { privateKey, publicKey } = generateKey();
  const subject = distinguishedName(`addon-operator webhooks ${randomBytes(4).toString("hex")}`);
  const extensions = [
    buildExtension(OID.basicConstraints, sequence(TRUE), true),
    buildExtension(OID.keyUsage, CERT_SIGN, true),
    buildExtension(OID.subjectKeyIdentifier, octetString(keyIdentifier(publicKey))),
  ];
  const fields = { subject, issuer: subject, validity, publicKey, extensions };
  return buildSignedCertificate(fields, privateKey, privateKey);
}

/** Issues a certificate for a server with these names or IP addresses, signed by a CA of `issueCa`. */
export function issueServerCertificate(ca: KeyPair, hosts: readonly string[], validity: Validity): KeyPair {
  const caKey = createPrivateKey(ca.key);
  const caKeyIdentifier = keyIdentifier(createPublicKey(caKey));
  const { privateKey, publicKey } = generateKey();
  const extensions = [
    buildExtension(OID.keyUsage, DIGITAL_SIGNATURE, true),
    buildExtension(OID.extendedKeyUsage, EXTENDED_KEY_USAGES),
    buildExtension(OID.subjectAltName, sequence(...hosts.map(generalName))),
    buildExtension(OID.authorityKeyIdentifier, sequence(contextPrimitive(0, caKeyIdentifier))),
  ];
  const subject = distinguishedName(hosts[0]?.slice(0, MAX_COMMON_NAME_LENGTH) ?? "");
  const fields = { subject, issuer: readCaSubject(ca.cert), validity, publicKey, extensions };
  return buildSignedCertificate(fields, caKey, privateKey);
}

/** Limit of a common name (RFC 5280); clients read the alternative names instead. */
const MAX_COMMON_NAME_LENGTH = 64;

/** The parts of a certificate, most of them encoded as DER. */
interface CertificateFields {
  readonly subject: Buffer;
  readonly issuer: Buffer;
  readonly validity: Validity;
  readonly publicKey: KeyObject;
  readonly extensions: readonly Buffer[];
}

/** Builds the X.509 certificate, signs it with `signingKey`, and returns it with the private key of its subject. */
function buildSignedCertificate(
  { subject, issuer, validity, publicKey, extensions }: CertificateFields,
  signingKey: KeyObject,
  privateKey: KeyObject,
): KeyPair {
  const serial = randomBytes(16);
  // Positive, and without a leading zero byte, as DER requires.
  serial[0] = ((serial[0] ?? 0) & 0x7f) | 1;
  const content = sequence(
    // Version 3 is written as 2.
    contextConstructed(0, integer(Buffer.from([2]))),
    integer(serial),
    ECDSA_SHA256,
    issuer,
    sequence(encodeTime(validity.from), encodeTime(validity.to)),
    subject,
    publicKey.export({ type: "spki", format: "der" }),
    contextConstructed(3, sequence(...extensions)),
  );
  const der = sequence(content, ECDSA_SHA256, bitString(sign("sha256", content, signingKey)));
  const base64 = der.toString("base64").replace(/.{1,64}/g, "$&\n");
  return {
    cert: `-----BEGIN CERTIFICATE-----\n${base64}-----END CERTIFICATE-----\n`,
    key: privateKey.export({ type: "pkcs8", format: "pem" }) as string,
  };
}

function generateKey(): { privateKey: KeyObject; publicKey: KeyObject } {
  return generateKeyPairSync("ec", { namedCurve: "P-256" });
}

/** Encodes a distinguished name that consists of a common name. */
function distinguishedName(commonName: string): Buffer {
  return sequence(setOf(sequence(oid(OID.commonName), utf8String(commonName))));
}

/** Encodes an extension; verifiers must understand a critical one. */
function buildExtension(id: string, value: Buffer, critical = false): Buffer {
  return sequence(oid(id), ...(critical ? [TRUE] : []), octetString(value));
}

/** The identifier of a key, by which a certificate names the key of its CA: SHA-1 of the public key. */
function keyIdentifier(publicKey: KeyObject): Buffer {
  return createHash("sha1")
    .update(publicKey.export({ type: "spki", format: "der" }))
    .digest();
}

/** Encodes a subject alternative name: a DNS name or an IP address. */
function generalName(host: string): Buffer {
  return isIP(host) === 0 ? contextPrimitive(2, Buffer.from(host)) : contextPrimitive(7, addressBytes(host));
}

/** The 4 or 16 bytes of an IP address. */
function addressBytes(address: string): Buffer {
  if (isIP(address) === 4) return Buffer.from(address.split(".").map(Number));
  // URL writes IPv6 in its canonical form: lower case, one `::`, no embedded IPv4 address.
  const [head = "", tail] = new URL(`http://[${address}]`).hostname.slice(1, -1).split("::");
  const groups = (text = ""): number[] =>
    text === "" ? [] : text.split(":").map((group) => Number.parseInt(group, 16));
  const front = groups(head);
  const back = groups(tail);
  // `::` stands for all missing groups of the eight.
  const zeros = Array.from({ length: 8 - front.length - back.length }, () => 0);
  return Buffer.from([...front, ...zeros, ...back].flatMap((group) => [group >> 8, group & 0xff]));
}

/** Encodes the name of a CA of `issueCa` again, because `X509Certificate` returns it as text only: `CN=…`. */
function readCaSubject(cert: string): Buffer {
  return distinguishedName(new X509Certificate(cert).subject.replace(/^CN=/, ""));
}
