/** Issues the certificates of the webhook server: a CA of its own, and certificates that it signs (ECDSA with P-256). */

import { X509Certificate, createHash, createPrivateKey, createPublicKey } from "node:crypto";
import { generateKeyPairSync, randomBytes, sign } from "node:crypto";
import type { KeyObject } from "node:crypto";
import { isIP } from "node:net";

import { TRUE, bitString, constructed, integer, octetString, oid, plain, sequence } from "./der.ts";
import { setOf, time, utf8String } from "./der.ts";

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

const ECDSA_SHA256 = sequence(oid("1.2.840.10045.4.3.2"));
/** Replicas show their certificate to each other, too. */
const USAGES = sequence(oid("1.3.6.1.5.5.7.3.1"), oid("1.3.6.1.5.5.7.3.2"));
/** Key usages as bits: certificates are signed with the key, or handshakes are. */
const CERT_SIGN = bitString(Buffer.from([0x04]), 2);
const DIGITAL_SIGNATURE = bitString(Buffer.from([0x80]), 7);

/** A self-signed CA. Its name is unique, so that CAs of different times can be in one bundle. */
export function issueCa(validity: Validity): KeyPair {
  const { privateKey, publicKey } = newKey();
  const subject = name(`addon-operator webhooks ${randomBytes(4).toString("hex")}`);
  const extensions = [
    extension("2.5.29.19", sequence(TRUE), true),
    extension("2.5.29.15", CERT_SIGN, true),
    extension("2.5.29.14", octetString(keyId(publicKey))),
  ];
  return signed({ subject, issuer: subject, validity, publicKey, extensions }, privateKey, privateKey);
}

/** A certificate for a server with these names or IP addresses, signed by `ca`, which `issueCa` made. */
export function issueServer(ca: KeyPair, hosts: readonly string[], validity: Validity): KeyPair {
  const caKey = createPrivateKey(ca.key);
  const { privateKey, publicKey } = newKey();
  const extensions = [
    extension("2.5.29.15", DIGITAL_SIGNATURE, true),
    extension("2.5.29.37", USAGES),
    extension("2.5.29.17", sequence(...hosts.map(generalName))),
    extension("2.5.29.35", sequence(plain(0, keyId(createPublicKey(caKey))))),
  ];
  const subject = name(hosts[0]?.slice(0, LONGEST_NAME) ?? "");
  return signed({ subject, issuer: subjectOf(ca.cert), validity, publicKey, extensions }, caKey, privateKey);
}

/** Limit of a common name (RFC 5280); clients read the alternative names instead. */
const LONGEST_NAME = 64;

interface Certificate {
  readonly subject: Buffer;
  readonly issuer: Buffer;
  readonly validity: Validity;
  readonly publicKey: KeyObject;
  readonly extensions: readonly Buffer[];
}

function signed(
  { subject, issuer, validity, publicKey, extensions }: Certificate,
  signer: KeyObject,
  own: KeyObject,
): KeyPair {
  const serial = randomBytes(16);
  serial[0] = ((serial[0] ?? 0) & 0x7f) | 1;
  const content = sequence(
    constructed(0, integer(Buffer.from([2]))),
    integer(serial),
    ECDSA_SHA256,
    issuer,
    sequence(time(validity.from), time(validity.to)),
    subject,
    publicKey.export({ type: "spki", format: "der" }),
    constructed(3, sequence(...extensions)),
  );
  const der = sequence(content, ECDSA_SHA256, bitString(sign("sha256", content, signer)));
  const base64 = der.toString("base64").replace(/.{1,64}/g, "$&\n");
  return {
    cert: `-----BEGIN CERTIFICATE-----\n${base64}-----END CERTIFICATE-----\n`,
    key: own.export({ type: "pkcs8", format: "pem" }) as string,
  };
}

function newKey(): { privateKey: KeyObject; publicKey: KeyObject } {
  return generateKeyPairSync("ec", { namedCurve: "P-256" });
}

function name(commonName: string): Buffer {
  return sequence(setOf(sequence(oid("2.5.4.3"), utf8String(commonName))));
}

function extension(id: string, value: Buffer, critical = false): Buffer {
  return sequence(oid(id), ...(critical ? [TRUE] : []), octetString(value));
}

function keyId(publicKey: KeyObject): Buffer {
  return createHash("sha1")
    .update(publicKey.export({ type: "spki", format: "der" }))
    .digest();
}

function generalName(host: string): Buffer {
  return isIP(host) === 0 ? plain(2, Buffer.from(host)) : plain(7, addressBytes(host));
}

function addressBytes(address: string): Buffer {
  if (isIP(address) === 4) return Buffer.from(address.split(".").map(Number));
  // URL writes IPv6 in its canonical form: lower case, one `::`, no embedded IPv4 address.
  const [head = "", tail] = new URL(`http://[${address}]`).hostname.slice(1, -1).split("::");
  const groups = (text = ""): number[] =>
    text === "" ? [] : text.split(":").map((group) => Number.parseInt(group, 16));
  const [front, back] = [groups(head), groups(tail)];
  const zeros = Array.from({ length: 8 - front.length - back.length }, () => 0);
  return Buffer.from([...front, ...zeros, ...back].flatMap((group) => [group >> 8, group & 0xff]));
}

/** The name of a CA that `issueCa` made: `X509Certificate` gives it as text, `CN=…`. */
function subjectOf(cert: string): Buffer {
  return name(new X509Certificate(cert).subject.replace(/^CN=/, ""));
}
