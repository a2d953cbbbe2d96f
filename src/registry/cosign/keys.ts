/** Keys that sign and verify: P-256 and RSA, as cosign and key management services make them. */

import { createHash, createPrivateKey, createPublicKey, sign, verify, type KeyObject } from "node:crypto";

import { oneLine } from "../../lib/index.ts";
import { ProblemError } from "../../model/index.ts";

/** A public key, and where it came from. */
export interface PublicKey {
  /** File or name for messages. */
  readonly source: string;
  readonly key: KeyObject;
  /** base64 of the SHA-256 of the key: a hint that signatures may contain. It proves nothing. */
  readonly hint: string;
}

/** A private key with its public half. */
export interface SigningKey extends PublicKey {
  readonly privateKey: KeyObject;
}

const BLOCK = /-----BEGIN ([A-Z ]+)-----[^-]*-----END \1-----/g;
const SMALLEST_RSA = 2048;

/** All public keys of a PEM text. Throws ProblemError where it has none, or one of another type. */
export function readPublicKeys(text: string, source: string): PublicKey[] {
  const blocks = text.match(BLOCK) ?? [];
  if (blocks.length === 0)
    throw problem(source, "contains no PEM public key", "use the .pub file of `cosign generate-key-pair`");
  return blocks.map((block) => {
    if (block.includes("PRIVATE KEY"))
      throw problem(source, "contains a private key", "use the public key only");
    return publicKey(
      parsed(source, () => createPublicKey(block)),
      source,
    );
  });
}

/** The private key of a PEM text. Throws ProblemError. */
export function readSigningKey(text: string, source: string, passphrase: string | undefined): SigningKey {
  if (text.includes("ENCRYPTED SIGSTORE PRIVATE KEY") || text.includes("ENCRYPTED COSIGN PRIVATE KEY"))
    throw problem(
      source,
      "is in cosign's own format, which only cosign reads",
      "make one with `openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256`; `cosign import-key-pair` reads it, too",
    );
  if (text.includes("BEGIN PUBLIC KEY"))
    throw problem(source, "contains a public key", "use the private key, with which modules are signed");
  const key = { key: text, ...(passphrase === undefined ? {} : { passphrase }) };
  const privateKey = parsed(source, () => createPrivateKey(key));
  return { ...publicKey(createPublicKey(privateKey), source), privateKey };
}

/** Signs bytes with SHA-256. */
export function signBytes({ privateKey }: SigningKey, bytes: Buffer): Buffer {
  return sign("sha256", bytes, privateKey);
}

/** The first of `keys` that made this signature. */
export function signerOf(
  keys: readonly PublicKey[],
  bytes: Buffer,
  signature: Buffer,
): PublicKey | undefined {
  return keys.find(({ key }) => verify("sha256", bytes, key, signature));
}

/** Checks the type of a public key. Throws ProblemError for anything but P-256 and RSA of at least 2048 bits. */
function publicKey(key: KeyObject, source: string): PublicKey {
  const { asymmetricKeyType: type, asymmetricKeyDetails: details } = key;
  const isGood =
    (type === "ec" && details?.namedCurve === "prime256v1") ||
    (type === "rsa" && (details?.modulusLength ?? 0) >= SMALLEST_RSA);
  if (!isGood) {
    const what = [type, details?.namedCurve, details?.modulusLength]
      .filter((each) => each !== undefined)
      .join(" ");
    throw problem(source, `has a key of type ${what}`, "use ECDSA P-256, or RSA with at least 2048 bits");
  }
  const der = key.export({ type: "spki", format: "der" });
  return { source, key, hint: createHash("sha256").update(der).digest("base64") };
}

/** The key that `read` returns. An error becomes a ProblemError that names the file. */
function parsed(source: string, read: () => KeyObject): KeyObject {
  try {
    return read();
  } catch (error) {
    const remedy = "use a PEM key; for an encrypted one set its passphrase in COSIGN_PASSWORD";
    throw problem(source, `cannot be read as a key: ${oneLine(error)}`, remedy);
  }
}

function problem(file: string, message: string, remedy: string): ProblemError {
  return new ProblemError({ file, message, remedy });
}
