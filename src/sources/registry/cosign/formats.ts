/** Builds and verifies the two forms of cosign's signatures: simple signing, and the Sigstore bundle v0.3. */

import { hash, X509Certificate } from "node:crypto";

import { asString, objectOf, objectsIn, type JsonObject } from "../../../base/model/index.ts";
import { parseJsonObject, type Descriptor } from "../manifest.ts";
import { isIdentity, type Signer } from "./identity.ts";
import { signBytes, findSigningKey, type PublicKey, type SigningKey } from "./keys.ts";
import type { Evidence } from "./keyless.ts";

/** Media type of the payload of a simple-signing signature. */
export const SIMPLE_SIGNING_TYPE = "application/vnd.dev.cosign.simplesigning.v1+json";
export const SIGNATURE_ANNOTATION = "dev.cosignproject.cosign/signature";
/** Prefix of the annotations with which cosign stores certificate, log entry and timestamp. */
const ANNOTATION_PREFIX = "dev.sigstore.cosign";
export const BUNDLE_TYPE = "application/vnd.dev.sigstore.bundle.v0.3+json";
export const BUNDLE_TYPE_PREFIX = "application/vnd.dev.sigstore.bundle";
/** Predicate of statements that are signatures; attestations have other predicates. */
export const SIGN_PREDICATE = "https://sigstore.dev/cosign/sign/v1";

const BUNDLE_TYPES: ReadonlySet<string> = new Set([BUNDLE_TYPE, `${BUNDLE_TYPE_PREFIX}+json;version=0.3`]);
const IN_TOTO_TYPE = "application/vnd.in-toto+json";
const STATEMENT_TYPE_PREFIX = "https://in-toto.io/Statement/";
const SIMPLE_SIGNATURE_KIND = "cosign container image signature";
const MAX_PAYLOAD_BYTES = 64 * 1024;
/** Most bytes of a bundle with a certificate, because the time to verify it grows with its size. Only attestations are longer. */
const MAX_CERTIFIED_BUNDLE_BYTES = 64 * 1024;

/**
 * Builds the JSON that a simple-signing signature signs. The repository's name is for information only: neither
 * cosign nor this program verifies it.
 */
export function buildSimpleSigningPayload(repository: string, digest: string): Buffer {
  const critical = {
    identity: { "docker-reference": repository },
    image: { "docker-manifest-digest": digest },
    type: SIMPLE_SIGNATURE_KIND,
  };
  return Buffer.from(JSON.stringify({ critical, optional: null }));
}

/** Signs a digest with a key and returns the signature as a Sigstore bundle. */
export function buildBundle(key: SigningKey, digest: string): Buffer {
  const statement = {
    _type: `${STATEMENT_TYPE_PREFIX}v1`,
    subject: [{ digest: { sha256: sha256HexOf(digest) }, annotations: {} }],
    predicateType: SIGN_PREDICATE,
    predicate: {},
  };
  const payload = Buffer.from(JSON.stringify(statement));
  const envelope = { payload, signature: signBytes(key, preAuthEncoding(payload)) };
  return Buffer.from(JSON.stringify(toBundle({ publicKey: { hint: key.hint } }, envelope)));
}

/** Makes a Sigstore bundle of a signed payload and what verifies its signature. */
function toBundle(verificationMaterial: JsonObject, { payload, signature }: SignedEnvelope): JsonObject {
  return {
    mediaType: BUNDLE_TYPE,
    verificationMaterial,
    dsseEnvelope: {
      payload: payload.toString("base64"),
      payloadType: IN_TOTO_TYPE,
      signatures: [{ sig: signature.toString("base64") }],
    },
  };
}

/**
 * Verifies a simple-signing signature of `digest`: its payload, and the signature in the annotations beside it.
 * Returns the signer. Throws Error with the reason if it is not valid.
 */
export async function verifySimpleSigning(
  signers: readonly Signer[],
  digest: string,
  { payload, annotations }: { readonly payload: Buffer; readonly annotations: Descriptor["annotations"] },
): Promise<Signer> {
  const signature = annotations?.[SIGNATURE_ANNOTATION];
  if (signature === undefined) throw new Error("it has no signature");
  const key = findSigningKey(pickPublicKeys(signers), payload, decodeBase64(signature));
  const evidence =
    key === undefined ? buildSimpleSigningEvidence(payload, signature, annotations ?? {}) : undefined;
  const signer = key ?? (await verifyCertificateSigner(signers, evidence));
  const critical = objectOf(parseJsonObject(payload)["critical"]);
  if (critical["type"] !== SIMPLE_SIGNATURE_KIND) throw new Error("it is a signature of another type");
  if (objectOf(critical["image"])["docker-manifest-digest"] !== digest)
    throw new Error("it signs another digest");
  return signer;
}

/** Verifies a bundle as a signature of `digest`. Returns the signer. Throws Error with the reason if it is not valid. */
export async function verifyBundle(
  signers: readonly Signer[],
  digest: string,
  bytes: Buffer,
): Promise<Signer> {
  const bundle = parseJsonObject(bytes);
  const envelope = parseEnvelope(bundle);
  const { payload, signature } = envelope;
  const key = findSigningKey(pickPublicKeys(signers), preAuthEncoding(payload), signature);
  // The verification of a long bundle by its certificate would take too much time.
  const isShort = bytes.length <= MAX_CERTIFIED_BUNDLE_BYTES;
  const evidence = isShort && key === undefined ? buildBundleEvidence(bundle, envelope) : undefined;
  const signer = key ?? (await verifyCertificateSigner(signers, evidence));
  const statement = parseJsonObject(payload);
  if (!readString(statement, "_type").startsWith(STATEMENT_TYPE_PREFIX))
    throw new Error("it is no in-toto statement");
  // An SBOM or a test report about the same digest by the same key is an attestation: it does not approve the content.
  if (statement["predicateType"] !== SIGN_PREDICATE) throw new Error("it is an attestation, not a signature");
  const subjects = objectsIn(statement["subject"]).map((each) => objectOf(each["digest"])["sha256"]);
  if (!subjects.includes(sha256HexOf(digest))) throw new Error("it signs another digest");
  return signer;
}

function pickPublicKeys(signers: readonly Signer[]): readonly PublicKey[] {
  return signers.filter((each): each is PublicKey => !isIdentity(each));
}

/**
 * Verifies a keyless signature by the identities among the signers. Throws Error with the reason if it is not valid,
 * or if there is no certificate or no identity.
 */
async function verifyCertificateSigner(
  signers: readonly Signer[],
  evidence: Evidence | undefined,
): Promise<Signer> {
  const identities = signers.filter(isIdentity);
  if (evidence === undefined || identities.length === 0) throw new Error("it is not by one of the keys");
  return (await import("./keyless.ts")).findSigningIdentity(identities, evidence);
}

/**
 * Collects the parts of a bundle that the keyless verification needs; undefined if the bundle has no certificate. The
 * envelope is built from the parsed parts, so that the library verifies exactly the payload that this program reads.
 */
function buildBundleEvidence(bundle: JsonObject, envelope: SignedEnvelope): Evidence | undefined {
  const material = objectOf(bundle["verificationMaterial"]);
  const { certificate, tlogEntries, timestampVerificationData } = material;
  if (certificate === undefined) return undefined;
  const proofs = {
    certificate,
    ...(tlogEntries === undefined ? {} : { tlogEntries }),
    ...(timestampVerificationData === undefined ? {} : { timestampVerificationData }),
  };
  return { bundle: toBundle(proofs, envelope) };
}

/**
 * Converts the annotations of a simple-signing signature into a bundle, the only form that the library verifies.
 * Returns undefined without a certificate. Throws Error for invalid annotations.
 */
function buildSimpleSigningEvidence(
  payload: Buffer,
  signature: string,
  annotations: NonNullable<Descriptor["annotations"]>,
): Evidence | undefined {
  const [certificate, logEntry, timestamp] = ["certificate", "bundle", "rfc3161timestamp"].map(
    (name) => annotations[`${ANNOTATION_PREFIX}/${name}`],
  );
  if (certificate === undefined) return undefined;
  const rawBytes = new X509Certificate(certificate).raw.toString("base64");
  const signedTimestamp =
    timestamp && readString(parseJsonObject(Buffer.from(timestamp)), "SignedRFC3161Timestamp");
  return {
    artifact: payload,
    bundle: {
      mediaType: `${BUNDLE_TYPE_PREFIX}+json;version=0.1`,
      verificationMaterial: {
        x509CertificateChain: { certificates: [{ rawBytes }] },
        tlogEntries: logEntry === undefined ? [] : [toBundleLogEntry(parseJsonObject(Buffer.from(logEntry)))],
        timestampVerificationData: { rfc3161Timestamps: signedTimestamp ? [{ signedTimestamp }] : [] },
      },
      messageSignature: {
        messageDigest: { algorithm: "SHA2_256", digest: hash("sha256", payload, "base64") },
        signature,
      },
    },
  };
}

/** Converts a log entry from the form of annotations to the form of bundles. Throws Error for an invalid entry. */
function toBundleLogEntry({ SignedEntryTimestamp, Payload: entry }: JsonObject): JsonObject {
  const { body = null, integratedTime = null, logIndex = null, logID } = objectOf(entry);
  const { kind = null, apiVersion: version = null } = parseJsonObject(decodeBase64(asString(body) ?? ""));
  return {
    logIndex: JSON.stringify(logIndex),
    integratedTime: JSON.stringify(integratedTime),
    logId: { keyId: Buffer.from(asString(logID) ?? "", "hex").toString("base64") },
    kindVersion: { kind, version },
    inclusionPromise: { signedEntryTimestamp: SignedEntryTimestamp ?? "" },
    canonicalizedBody: body,
  };
}

/** The signed payload of a bundle, and its signature. */
interface SignedEnvelope {
  readonly payload: Buffer;
  readonly signature: Buffer;
}

/** Parses the DSSE envelope of a bundle, which must have exactly one signature. Throws Error for anything else. */
function parseEnvelope(bundle: JsonObject): SignedEnvelope {
  if (!BUNDLE_TYPES.has(readString(bundle, "mediaType")))
    throw new Error("it is a bundle of another version");
  const envelope = objectOf(bundle["dsseEnvelope"]);
  const signatures = objectsIn(envelope["signatures"]);
  const [first] = signatures;
  if (first === undefined || signatures.length !== 1)
    throw new Error(`it has ${signatures.length} signatures`);
  if (envelope["payloadType"] !== IN_TOTO_TYPE) throw new Error("its payload has another type");
  const payload = decodeBase64(readString(envelope, "payload"));
  if (payload.length > MAX_PAYLOAD_BYTES) throw new Error("its payload is too long");
  return { payload, signature: decodeBase64(readString(first, "sig")) };
}

function readString(value: JsonObject, key: string): string {
  return asString(value[key]) ?? "";
}

/** Reads the hint that names the key of a bundle, for messages; undefined if there is none. */
export function readKeyHint(bytes: Buffer): string | undefined {
  const material = objectOf(parseJsonObject(bytes)["verificationMaterial"]);
  return asString(objectOf(material["publicKey"])["hint"]);
}

/** Encodes the bytes that a DSSE signature signs: the payload with its type and both lengths ("PAE" of the DSSE specification). */
function preAuthEncoding(payload: Buffer): Buffer {
  return Buffer.concat([
    Buffer.from(`DSSEv1 ${IN_TOTO_TYPE.length} ${IN_TOTO_TYPE} ${payload.length} `),
    payload,
  ]);
}

function sha256HexOf(digest: string): string {
  return digest.slice("sha256:".length);
}

function decodeBase64(text: string): Buffer {
  return Buffer.from(text, "base64");
}
