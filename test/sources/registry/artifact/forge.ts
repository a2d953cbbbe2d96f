/** Signatures as an attacker or a careless tool stores them: valid ones, of which each part can be changed. */

import { sign } from "node:crypto";

import { referrersTag, simpleSigningTag } from "../../../../src/sources/registry/cosign/verify.ts";
import { digestOf } from "../../../../src/sources/registry/manifest.ts";
import { putManifest, type FakeRegistry } from "../../../support/registry.ts";
import type { Ask, OwnSigstore } from "../cosign/own-sigstore.ts";

export const REPOSITORY = "modules/web";
export const BUNDLE = "application/vnd.dev.sigstore.bundle.v0.3+json";
export const SIMPLE = "application/vnd.dev.cosign.simplesigning.v1+json";
const IN_TOTO = "application/vnd.in-toto+json";
const MANIFEST = "application/vnd.oci.image.manifest.v1+json";
const INDEX = "application/vnd.oci.image.index.v1+json";

type Members = Record<string, unknown>;
/** What is stored in place of a value. */
type Change = (value: Members) => unknown;
const unchanged: Change = (value) => value;

/** A private key in PEM, or an identity that gets a certificate. */
export type By = string | { readonly sigstore: OwnSigstore; readonly ask?: Ask };

/** Who signs what. */
interface Signing {
  readonly key: By;
  readonly digest: string;
}

const json = (value: unknown): Buffer =>
  Buffer.isBuffer(value) ? value : Buffer.from(typeof value === "string" ? value : JSON.stringify(value));

function putBlob(registry: FakeRegistry, bytes: Buffer, mediaType: string): Members {
  const digest = digestOf(bytes);
  registry.blobs.set(digest, bytes);
  return { mediaType, digest, size: bytes.length };
}

/** The bytes that a DSSE signature signs. */
export function encoded(payload: Buffer, type = IN_TOTO): Buffer {
  return Buffer.concat([Buffer.from(`DSSEv1 ${type.length} ${type} ${payload.length} `), payload]);
}

export interface BundleChanges {
  readonly statement?: Change;
  /** What is signed in place of the encoded payload. */
  readonly signed?: (payload: Buffer) => Buffer;
  readonly envelope?: Change;
  readonly bundle?: Change;
  readonly manifest?: Change;
}

/** Stores a bundle where the registry lists it, with and without referrers API. */
export function putBundle(
  registry: FakeRegistry,
  { key, digest }: Signing,
  {
    statement = unchanged,
    signed = encoded,
    envelope = unchanged,
    bundle = unchanged,
    manifest = unchanged,
  }: BundleChanges = {},
): void {
  const payload = json(
    statement({
      _type: "https://in-toto.io/Statement/v1",
      subject: [{ digest: { sha256: digest.slice("sha256:".length) } }],
      predicateType: "https://sigstore.dev/cosign/sign/v1",
      predicate: {},
    }),
  );
  const certified =
    typeof key === "string" ? undefined : key.sigstore.bundle(payload, signed(payload), key.ask);
  const sig = (certified?.signature ?? sign("sha256", signed(payload), key as string)).toString("base64");
  const dsseEnvelope = envelope({
    payload: payload.toString("base64"),
    payloadType: IN_TOTO,
    signatures: [{ sig }],
  });
  const blob = json(
    bundle({ mediaType: BUNDLE, verificationMaterial: certified?.material ?? {}, dsseEnvelope }),
  );
  const bytes = json(
    manifest({
      schemaVersion: 2,
      mediaType: MANIFEST,
      artifactType: BUNDLE,
      config: putBlob(registry, Buffer.from("{}"), "application/vnd.oci.empty.v1+json"),
      layers: [putBlob(registry, blob, BUNDLE)],
      subject: { mediaType: MANIFEST, digest, size: 1 },
    }),
  );
  const stored = putManifest(registry, `${REPOSITORY}@${digestOf(bytes)}`, { bytes, mediaType: MANIFEST });
  const listed = { mediaType: MANIFEST, digest: stored, size: bytes.length };
  const index = json({ schemaVersion: 2, mediaType: INDEX, manifests: [listed] });
  putManifest(registry, `${REPOSITORY}@${referrersTag(digest)}`, { bytes: index, mediaType: INDEX });
}

export interface SimpleChanges {
  readonly payload?: Change;
  readonly layer?: Change;
  readonly manifest?: Change;
}

/** Stores a signature in the form of simple signing. */
export function putSimple(
  registry: FakeRegistry,
  { key, digest }: Signing,
  { payload: change = unchanged, layer = unchanged, manifest = unchanged }: SimpleChanges = {},
): void {
  const critical = {
    identity: { "docker-reference": REPOSITORY },
    image: { "docker-manifest-digest": digest },
    type: "cosign container image signature",
  };
  const payload = json(change({ critical, optional: null }));
  const annotations =
    typeof key === "string"
      ? { "dev.cosignproject.cosign/signature": sign("sha256", payload, key).toString("base64") }
      : key.sigstore.annotations(payload, key.ask);
  const bytes = json(
    manifest({
      schemaVersion: 2,
      mediaType: MANIFEST,
      config: putBlob(registry, Buffer.from("{}"), "application/vnd.oci.image.config.v1+json"),
      layers: [layer({ ...putBlob(registry, payload, SIMPLE), annotations })],
    }),
  );
  putManifest(registry, `${REPOSITORY}@${simpleSigningTag(digest)}`, { bytes, mediaType: MANIFEST });
}
