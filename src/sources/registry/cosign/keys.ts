/** Keys that sign and verify: P-256 and RSA, as cosign and key management services make them. */

import { createHash, createPrivateKey, createPublicKey, sign, verify, type KeyObject } from "node:crypto";

import { oneLine } from "../../../base/index.ts";
import { ProblemError } from "../../../base/model/index.ts";

/** A public key that may verify signatures, with the file that it was read from. */
export interface PublicKey {
  /** File or name for messages. */
  readonly source: string;
  readonly key: KeyObject;
  /** base64 of the SHA-256 of the key: signatures may contain it to name the key. It proves nothing. */
  readonly hint: string;
}

/** A private key with its public half. */
export interface SigningKey extends PublicKey {
  readonly privateKey: KeyObject;
}

/** One block of a PEM file; the label is repeated at its end. */
const PEM_BLOCK = /-----BEGIN ([A-Z ]+)-----[^-]*-----END \1-----/g;
/** Shorter RSA keys are no longer considered secure. */
const MIN_RSA_BITS = 2048;

/** Reads all public keys of a PEM file. Throws ProblemError for no key, a private key, or a key of an unsupported type. */
export function readPublicKeys(text: string, source: string): PublicKey[] {
  const blocks = text.match(PEM_BLOCK) ?? [];
  const remedy = "use the .pub file of `cosign generate-key-pair`";
  if (blocks.length === 0) throw toKeyProblem(source, "contains no PEM public key", remedy);
  return blocks.map((block) => {
    if (block.includes("PRIVATE KEY"))
      throw toKeyProblem(source, "contains a private key", "use the public key only");
    const key = parseKey(source, () => createPublicKey(block));
    return toPublicKey(key, source);
  });
}

/**
 * Reads the private key of a PEM file, which may be encrypted with a passphrase. Throws ProblemError with a remedy
 * for cosign's own key format and for public keys.
 */
export function readSigningKey(text: string, source: string, passphrase: string | undefined): SigningKey {
  if (text.includes("ENCRYPTED SIGSTORE PRIVATE KEY") || text.includes("ENCRYPTED COSIGN PRIVATE KEY"))
    throw toKeyProblem(
      source,
      "is in cosign's own format, which only cosign reads",
      "make one with `openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256`; `cosign import-key-pair` reads it, too",
    );
  if (text.includes("BEGIN PUBLIC KEY"))
    throw toKeyProblem(source, "contains a public key", "use the private key, with which modules are signed");
  const key = { key: text, ...(passphrase === undefined ? {} : { passphrase }) };
  const privateKey = parseKey(source, () => createPrivateKey(key));
  return { ...toPublicKey(createPublicKey(privateKey), source), privateKey };
}

/** Signs bytes with SHA-256. */
export function signBytes({ privateKey }: SigningKey, bytes: Buffer): Buffer {
  return sign("sha256", bytes, privateKey);
}

/** Finds the key that made a signature of `bytes`; undefined if none of `keys` did. */
export function findSigningKey(
  keys: readonly PublicKey[],
  bytes: Buffer,
  signature: Buffer,
): PublicKey | undefined {
  return keys.find(({ key }) => verify("sha256", bytes, key, signature));
}

/** Checks the type of a public key and computes its hint. Throws ProblemError unless it is P-256, or RSA of 2048 bits or more. */
function toPublicKey(key: KeyObject, source: string): PublicKey {
  const { asymmetricKeyType: type, asymmetricKeyDetails: details } = key;
  const isSupported =
    (type === "ec" && details?.namedCurve === "prime256v1") ||
    (type === "rsa" && (details?.modulusLength ?? 0) >= MIN_RSA_BITS);
  if (!isSupported) {
    const words = [type, details?.namedCurve, details?.modulusLength].filter((each) => each !== undefined);
    const remedy = "use ECDSA P-256, or RSA with at least 2048 bits";
    throw toKeyProblem(source, `has a key of type ${words.join(" ")}`, remedy);
  }
  const der = key.export({ type: "spki", format: "der" });
  return { source, key, hint: createHash("sha256").update(der).digest("base64") };
}

/** Calls `parse`, which reads a key. Turns an error into a ProblemError that names the file and the remedy. */
function parseKey(source: string, parse: () => KeyObject): KeyObject {
  try {
    return parse();
  } catch (error) {
    const remedy = "use a PEM key; for an encrypted one set its passphrase in COSIGN_PASSWORD";
    throw toKeyProblem(source, `cannot be read as a key: ${oneLine(error)}`, remedy);
  }
}

function toKeyProblem(file: string, message: string, remedy: string): ProblemError {
  return new ProblemError({ file, message, remedy });
}
