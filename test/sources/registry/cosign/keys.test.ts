import { generateKeyPairSync, type KeyObject } from "node:crypto";
import { expect, it } from "vitest";

import { readPublicKeys, readSigningKey } from "../../../../src/sources/registry/cosign/keys.ts";

const publicPem = (key: KeyObject): string => key.export({ type: "spki", format: "pem" }).toString();
const ec = (namedCurve: string) => generateKeyPairSync("ec", { namedCurve });
const rsa = (modulusLength: number) => generateKeyPairSync("rsa", { modulusLength });
const SMALL_RSA = rsa(1024);

it("reads P-256 and RSA keys, several of one file, and what stands between them", () => {
  const [first, second] = [publicPem(ec("P-256").publicKey), publicPem(rsa(2048).publicKey)];
  const keys = readPublicKeys(`# of the old team\n${first}\ntext\n${second}`, "keys.pub");
  expect(keys.map(({ source, key }) => [source, key.asymmetricKeyType])).toEqual([
    ["keys.pub", "ec"],
    ["keys.pub", "rsa"],
  ]);
});

it.each<[string, string, string]>([
  ["P-384", publicPem(ec("P-384").publicKey), "has a key of type ec secp384r1"],
  ["Ed25519", publicPem(generateKeyPairSync("ed25519").publicKey), "has a key of type ed25519"],
  ["a small RSA key", publicPem(SMALL_RSA.publicKey), "has a key of type rsa 1024"],
  [
    "a private key",
    ec("P-256").privateKey.export({ type: "pkcs8", format: "pem" }).toString(),
    "contains a private key",
  ],
  ["no key", "hello", "contains no PEM public key"],
  ["half a key", "-----BEGIN PUBLIC KEY-----\nMFkw", "contains no PEM public key"],
  ["garbage", "-----BEGIN PUBLIC KEY-----\nMFkw\n-----END PUBLIC KEY-----", "cannot be read as a key"],
  [
    "a good key beside a weak one",
    `${publicPem(ec("P-256").publicKey)}${publicPem(SMALL_RSA.publicKey)}`,
    "has a key of type rsa 1024",
  ],
])("refuses %s, with the file's name", (_, text, message) => {
  expect(() => readPublicKeys(text, "ci.pub")).toThrow(new RegExp(`ci\\.pub.*${message}`, "s"));
});

it("reads a signing key with its passphrase, and repeats neither in errors", () => {
  const cipher = { cipher: "aes-256-cbc", passphrase: "open sesame" };
  const text = ec("P-256")
    .privateKey.export({ type: "pkcs8", format: "pem", ...cipher })
    .toString();
  expect(readSigningKey(text, "ci.key", "open sesame").hint).toMatch(/=$/);
  for (const wrong of ["wrong words", undefined])
    expect(() => readSigningKey(text, "ci.key", wrong)).toThrow(
      /^(?!.*(?:wrong words|open|BEGIN)).*COSIGN_PASSWORD/s,
    );
});

it("says what to do with a key in cosign's own format", () => {
  const text =
    "-----BEGIN ENCRYPTED SIGSTORE PRIVATE KEY-----\neyJr\n-----END ENCRYPTED SIGSTORE PRIVATE KEY-----";
  expect(() => readSigningKey(text, "cosign.key", "x")).toThrow("openssl genpkey");
});
