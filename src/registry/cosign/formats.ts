/** The two forms in which cosign stores signatures, as bytes: simple signing, and the Sigstore bundle v0.3. */

import { hash, X509Certificate } from "node:crypto";

import { asString, objectOf, objectsIn, type JsonObject } from "../../model/index.ts";
import { jsonObject, type Descriptor } from "../manifest.ts";
import { isIdentity, type Signer } from "./identity.ts";
import { signBytes, signerOf, type PublicKey, type SigningKey } from "./keys.ts";
import type { Evidence } from "./keyless.ts";

export const SIMPLE_SIGNING = "application/vnd.dev.cosign.simplesigning.v1+json";
export const SIGNATURE_ANNOTATION = "dev.cosignproject.cosign/signature";
/** Prefix of the annotations with certificate, log entry and timestamp. */
const ANNOTATIONS = "dev.sigstore.cosign";
export const BUNDLE = "application/vnd.dev.sigstore.bundle.v0.3+json";
export const BUNDLE_PREFIX = "application/vnd.dev.sigstore.bundle";
export const SIGN_PREDICATE = "https://sigstore.dev/cosign/sign/v1";

const BUNDLES: ReadonlySet<string> = new Set([BUNDLE, `${BUNDLE_PREFIX}+json;version=0.3`]);
const IN_TOTO = "application/vnd.in-toto+json";
const STATEMENT = "https://in-toto.io/Statement/";
const SIMPLE_TYPE = "cosign container image signature";
const LARGEST_PAYLOAD = 64 * 1024;
/** Of a bundle with a certificate: to verify it takes time in proportion. Attestations are longer, and no signatures. */
const LARGEST_CERTIFIED = 64 * 1024;

/** The payload of simple signing for a digest. The name of the repository is information only, as in cosign. */
export function simplePayload(repository: string, digest: string): Buffer {
  const critical = {
    identity: { "docker-reference": repository },
    image: { "docker-manifest-digest": digest },
    type: SIMPLE_TYPE,
  };
  return Buffer.from(JSON.stringify({ critical, optional: null }));
}

/** A bundle that signs a digest. */
export function bundleOf(key: SigningKey, digest: string): Buffer {
  const statement = {
    _type: `${STATEMENT}v1`,
    subject: [{ digest: { sha256: hexOf(digest) }, annotations: {} }],
    predicateType: SIGN_PREDICATE,
    predicate: {},
  };
  const payload = Buffer.from(JSON.stringify(statement));
  const signature = signBytes(key, preAuthEncoding(payload));
  return Buffer.from(
    JSON.stringify({
      mediaType: BUNDLE,
      verificationMaterial: { publicKey: { hint: key.hint } },
      dsseEnvelope: {
        payload: payload.toString("base64"),
        payloadType: IN_TOTO,
        signatures: [{ sig: signature.toString("base64") }],
      },
    }),
  );
}

/** Who signed `digest`, by this payload and the annotations beside it. Throws Error that says what is wrong. */
export async function simpleSigner(
  signers: readonly Signer[],
  digest: string,
  { payload, annotations }: { readonly payload: Buffer; readonly annotations: Descriptor["annotations"] },
): Promise<Signer> {
  const signature = annotations?.[SIGNATURE_ANNOTATION];
  if (signature === undefined) throw new Error("it has no signature");
  const key = signerOf(keysIn(signers), payload, fromBase64(signature));
  const evidence = key === undefined ? simpleEvidence(payload, signature, annotations ?? {}) : undefined;
  const signer = key ?? (await certifiedSigner(signers, evidence));
  const critical = objectOf(jsonObject(payload)["critical"]);
  if (critical["type"] !== SIMPLE_TYPE) throw new Error("it is a signature of another type");
  if (objectOf(critical["image"])["docker-manifest-digest"] !== digest)
    throw new Error("it signs another digest");
  return signer;
}

/** Who signed `digest` with this bundle. Throws Error that says what is wrong. */
export async function bundleSigner(
  signers: readonly Signer[],
  digest: string,
  bytes: Buffer,
): Promise<Signer> {
  const bundle = jsonObject(bytes);
  const { payload, signature } = envelopeIn(bundle);
  const key = signerOf(keysIn(signers), preAuthEncoding(payload), signature);
  const isShort = bytes.length <= LARGEST_CERTIFIED;
  const evidence = isShort && key === undefined ? bundleEvidence(bundle, { payload, signature }) : undefined;
  const signer = key ?? (await certifiedSigner(signers, evidence));
  const statement = jsonObject(payload);
  if (!textIn(statement, "_type").startsWith(STATEMENT)) throw new Error("it is no in-toto statement");
  // An SBOM or a test report of the same subject by the same key is an attestation, and no signature.
  if (statement["predicateType"] !== SIGN_PREDICATE) throw new Error("it is an attestation, not a signature");
  const subjects = objectsIn(statement["subject"]).map((each) => objectOf(each["digest"])["sha256"]);
  if (!subjects.includes(hexOf(digest))) throw new Error("it signs another digest");
  return signer;
}

function keysIn(signers: readonly Signer[]): readonly PublicKey[] {
  return signers.filter((each): each is PublicKey => !isIdentity(each));
}

/** Who signed with a certificate. Throws Error that says what is wrong. */
async function certifiedSigner(signers: readonly Signer[], evidence: Evidence | undefined): Promise<Signer> {
  const identities = signers.filter(isIdentity);
  if (evidence === undefined || identities.length === 0) throw new Error("it is not by one of the keys");
  return (await import("./keyless.ts")).identityOf(identities, evidence);
}

/** The parts of a bundle that prove who signed, if it has a certificate; with the envelope that was read, and no other. */
function bundleEvidence(bundle: JsonObject, { payload, signature }: Envelope): Evidence | undefined {
  const material = objectOf(bundle["verificationMaterial"]);
  const { certificate, tlogEntries, timestampVerificationData } = material;
  if (certificate === undefined) return undefined;
  return {
    bundle: {
      mediaType: BUNDLE,
      verificationMaterial: {
        certificate,
        ...(tlogEntries === undefined ? {} : { tlogEntries }),
        ...(timestampVerificationData === undefined ? {} : { timestampVerificationData }),
      },
      dsseEnvelope: {
        payload: payload.toString("base64"),
        payloadType: IN_TOTO,
        signatures: [{ sig: signature.toString("base64") }],
      },
    },
  };
}

/** The annotations of older versions of cosign beside a signature, as a bundle; undefined without a certificate. Throws Error. */
function simpleEvidence(
  payload: Buffer,
  signature: string,
  annotations: NonNullable<Descriptor["annotations"]>,
): Evidence | undefined {
  const { [`${ANNOTATIONS}/certificate`]: certificate, [`${ANNOTATIONS}/bundle`]: entry } = annotations;
  const stamp = annotations[`${ANNOTATIONS}/rfc3161timestamp`];
  if (certificate === undefined) return undefined;
  const rawBytes = new X509Certificate(certificate).raw.toString("base64");
  const signedTimestamp = stamp && textIn(jsonObject(Buffer.from(stamp)), "SignedRFC3161Timestamp");
  return {
    artifact: payload,
    bundle: {
      mediaType: `${BUNDLE_PREFIX}+json;version=0.1`,
      verificationMaterial: {
        x509CertificateChain: { certificates: [{ rawBytes }] },
        tlogEntries: entry === undefined ? [] : [simpleEntry(jsonObject(Buffer.from(entry)))],
        timestampVerificationData: { rfc3161Timestamps: signedTimestamp ? [{ signedTimestamp }] : [] },
      },
      messageSignature: {
        messageDigest: { algorithm: "SHA2_256", digest: hash("sha256", payload, "base64") },
        signature,
      },
    },
  };
}

/** The entry of a transparency log as bundles have it. Throws Error. */
function simpleEntry({ SignedEntryTimestamp: promise, Payload: entry }: JsonObject): JsonObject {
  const { body = null, integratedTime = null, logIndex = null, logID } = objectOf(entry);
  const { kind = null, apiVersion: version = null } = jsonObject(fromBase64(asString(body) ?? ""));
  return {
    logIndex: JSON.stringify(logIndex),
    integratedTime: JSON.stringify(integratedTime),
    logId: { keyId: Buffer.from(asString(logID) ?? "", "hex").toString("base64") },
    kindVersion: { kind, version },
    inclusionPromise: { signedEntryTimestamp: promise ?? "" },
    canonicalizedBody: body,
  };
}

interface Envelope {
  readonly payload: Buffer;
  readonly signature: Buffer;
}

/** The payload of a bundle and its one signature. Throws Error. */
function envelopeIn(bundle: JsonObject): Envelope {
  if (!BUNDLES.has(textIn(bundle, "mediaType"))) throw new Error("it is a bundle of another version");
  const envelope = objectOf(bundle["dsseEnvelope"]);
  const signatures = objectsIn(envelope["signatures"]);
  const [first] = signatures;
  if (first === undefined || signatures.length !== 1)
    throw new Error(`it has ${signatures.length} signatures`);
  if (envelope["payloadType"] !== IN_TOTO) throw new Error("its payload has another type");
  const payload = fromBase64(textIn(envelope, "payload"));
  if (payload.length > LARGEST_PAYLOAD) throw new Error("its payload is too long");
  return { payload, signature: fromBase64(textIn(first, "sig")) };
}

function textIn(value: JsonObject, key: string): string {
  return asString(value[key]) ?? "";
}

/** The hint of a bundle's key, for messages. */
export function hintOf(bytes: Buffer): string | undefined {
  const material = objectOf(jsonObject(bytes)["verificationMaterial"]);
  return asString(objectOf(material["publicKey"])["hint"]);
}

/** The bytes that a DSSE signature signs: the payload with its type and both lengths. */
function preAuthEncoding(payload: Buffer): Buffer {
  return Buffer.concat([Buffer.from(`DSSEv1 ${IN_TOTO.length} ${IN_TOTO} ${payload.length} `), payload]);
}

function hexOf(digest: string): string {
  return digest.slice("sha256:".length);
}

function fromBase64(text: string): Buffer {
  return Buffer.from(text, "base64");
}
