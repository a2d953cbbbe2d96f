/** Signs artifacts, in both of cosign's forms, so that old and new versions of cosign find a signature. */

import { oneLine } from "../../../base/index.ts";
import { objectsIn } from "../../../base/model/index.ts";
import { RegistryError } from "../errors.ts";
import {
  describeBytes,
  EMPTY_CONFIG,
  IMAGE_CONFIG,
  IMAGE_INDEX,
  IMAGE_MANIFEST,
  parseJsonObject,
  parseManifest,
  type Descriptor,
} from "../manifest.ts";
import type { Repository, StoredManifest } from "../repository.ts";
import {
  BUNDLE_TYPE,
  buildBundle,
  SIGN_PREDICATE,
  SIGNATURE_ANNOTATION,
  SIMPLE_SIGNING_TYPE,
  buildSimpleSigningPayload,
} from "./formats.ts";
import { signBytes, type SigningKey } from "./keys.ts";
import { referrersTag, simpleSigningTag } from "./verify.ts";

/**
 * Signs an artifact and stores the signatures beside it, in both forms. `repositoryAddress` (`HOST/NAME`) is part of
 * the signed payload. Throws RegistryError.
 */
export async function signArtifact(
  repository: Repository,
  subject: Descriptor,
  { key, repositoryAddress }: { readonly key: SigningKey; readonly repositoryAddress: string },
): Promise<void> {
  await storeBundle(repository, subject, buildBundle(key, subject.digest));
  await storeSimpleSigning(repository, subject, { key, repositoryAddress });
}

/**
 * Stores a bundle in a manifest that refers to the signed manifest. In a registry without a referrers API, also adds
 * the new manifest to the list under the referrers tag.
 */
async function storeBundle(repository: Repository, subject: Descriptor, bundle: Buffer): Promise<void> {
  const emptyConfig = Buffer.from("{}");
  await repository.pushBlob(emptyConfig);
  await repository.pushBlob(bundle);
  const annotations = {
    "dev.sigstore.bundle.content": "dsse-envelope",
    "dev.sigstore.bundle.predicateType": SIGN_PREDICATE,
  };
  const manifest = {
    schemaVersion: 2,
    mediaType: IMAGE_MANIFEST,
    artifactType: BUNDLE_TYPE,
    config: describeBytes(emptyConfig, EMPTY_CONFIG),
    layers: [describeBytes(bundle, BUNDLE_TYPE)],
    subject: { mediaType: subject.mediaType, digest: subject.digest, size: subject.size },
    annotations,
  };
  const stored = await repository.pushManifest(toJsonBytes(manifest), IMAGE_MANIFEST);
  const referrers = await repository.listReferrers(subject.digest, 1);
  if (referrers === undefined)
    await addToReferrersTag(repository, subject, { ...stored, artifactType: BUNDLE_TYPE, annotations });
}

/** Adds a signature to the list of referrers under its tag, which replaces the referrers API in older registries. */
async function addToReferrersTag(
  repository: Repository,
  subject: Descriptor,
  signature: Descriptor,
): Promise<void> {
  const tag = referrersTag(subject.digest);
  const index = await repository.readManifest(tag);
  // Entries are copied unparsed: other tools may have added ones that this program does not support.
  const otherEntries = parseTagContent(tag, index, (bytes) => objectsIn(parseJsonObject(bytes)["manifests"]));
  const manifests = [...otherEntries.filter(({ digest }) => digest !== signature.digest), signature];
  const newIndex = toJsonBytes({ schemaVersion: 2, mediaType: IMAGE_INDEX, manifests });
  await repository.pushManifest(newIndex, IMAGE_INDEX, tag);
}

/** Adds a simple-signing signature to the manifest, found by its tag, that has the artifact's signatures as layers. */
async function storeSimpleSigning(
  repository: Repository,
  subject: Descriptor,
  { key, repositoryAddress }: { readonly key: SigningKey; readonly repositoryAddress: string },
): Promise<void> {
  const payload = buildSimpleSigningPayload(repositoryAddress, subject.digest);
  const tag = simpleSigningTag(subject.digest);
  const existing = await repository.readManifest(tag);
  const existingLayers = parseTagContent(tag, existing, (bytes) => parseManifest(bytes).layers);
  const signatureLayer = {
    ...describeBytes(payload, SIMPLE_SIGNING_TYPE),
    annotations: { [SIGNATURE_ANNOTATION]: signBytes(key, payload).toString("base64") },
  };
  const layers = [...existingLayers, signatureLayer];
  const config = toJsonBytes({
    architecture: "",
    os: "",
    config: {},
    rootfs: { type: "layers", diff_ids: layers.map(({ digest }) => digest) },
  });
  for (const blob of [payload, config]) await repository.pushBlob(blob);
  const manifest = {
    schemaVersion: 2,
    mediaType: IMAGE_MANIFEST,
    config: describeBytes(config, IMAGE_CONFIG),
    layers,
  };
  await repository.pushManifest(toJsonBytes(manifest), IMAGE_MANIFEST, tag);
}

/** Parses the list under a tag of signatures; empty without the tag. Turns an error into a RegistryError that names the tag. */
function parseTagContent<T>(
  tag: string,
  stored: StoredManifest | undefined,
  parse: (bytes: Buffer) => readonly T[],
): readonly T[] {
  try {
    return stored === undefined ? [] : parse(stored.bytes);
  } catch (error) {
    const text = `the tag ${tag}, which has the signatures, cannot be read: ${oneLine(error)}`;
    throw new RegistryError(text, undefined, { cause: error });
  }
}

function toJsonBytes(value: object): Buffer {
  return Buffer.from(JSON.stringify(value));
}
