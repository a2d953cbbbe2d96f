/** The two forms in which cosign stores signatures, as bytes: simple signing, and the Sigstore bundle v0.3. */

import { asString, objectOf, objectsIn, type JsonObject } from "../../model/index.ts";
import { jsonObject } from "../manifest.ts";
import { signBytes, signerOf, type PublicKey, type SigningKey } from "./keys.ts";

export const SIMPLE_SIGNING = "application/vnd.dev.cosign.simplesigning.v1+json";
export const SIGNATURE_ANNOTATION = "dev.cosignproject.cosign/signature";
export const BUNDLE = "application/vnd.dev.sigstore.bundle.v0.3+json";
export const BUNDLE_PREFIX = "application/vnd.dev.sigstore.bundle";
export const SIGN_PREDICATE = "https://sigstore.dev/cosign/sign/v1";

const BUNDLES: ReadonlySet<string> = new Set([BUNDLE, `${BUNDLE_PREFIX}+json;version=0.3`]);
const IN_TOTO = "application/vnd.in-toto+json";
const STATEMENT = "https://in-toto.io/Statement/";
const SIMPLE_TYPE = "cosign container image signature";
const LARGEST_PAYLOAD = 64 * 1024;

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

/** The key that signed `digest` with this payload and signature. Throws Error that says what is wrong. */
export function simpleSigner(
  keys: readonly PublicKey[],
  digest: string,
  { payload, signature }: { readonly payload: Buffer; readonly signature: string | undefined },
): PublicKey {
  if (signature === undefined) throw new Error("it has no signature");
  const signer = signerOf(keys, payload, fromBase64(signature));
  if (signer === undefined) throw new Error("it is not by one of the keys");
  const critical = objectOf(jsonObject(payload)["critical"]);
  if (critical["type"] !== SIMPLE_TYPE) throw new Error("it is a signature of another type");
  if (objectOf(critical["image"])["docker-manifest-digest"] !== digest)
    throw new Error("it signs another digest");
  return signer;
}

/** The key that signed `digest` with this bundle. Throws Error that says what is wrong. */
export function bundleSigner(keys: readonly PublicKey[], digest: string, bytes: Buffer): PublicKey {
  const { payload, signature } = envelopeIn(jsonObject(bytes));
  const signer = signerOf(keys, preAuthEncoding(payload), signature);
  if (signer === undefined) throw new Error("it is not by one of the keys");
  const statement = jsonObject(payload);
  if (!textIn(statement, "_type").startsWith(STATEMENT)) throw new Error("it is no in-toto statement");
  // An SBOM or a test report of the same subject by the same key is an attestation, and no signature.
  if (statement["predicateType"] !== SIGN_PREDICATE) throw new Error("it is an attestation, not a signature");
  const subjects = objectsIn(statement["subject"]).map((each) => objectOf(each["digest"])["sha256"]);
  if (!subjects.includes(hexOf(digest))) throw new Error("it signs another digest");
  return signer;
}

/** The payload of a bundle and its one signature. Throws Error. */
function envelopeIn(bundle: JsonObject): { readonly payload: Buffer; readonly signature: Buffer } {
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
