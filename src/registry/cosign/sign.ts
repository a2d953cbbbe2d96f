/** Stores signatures beside an artifact, in both forms, so that old and new readers find one. */

import { oneLine } from "../../lib/index.ts";
import { objectsIn } from "../../model/index.ts";
import { RegistryError } from "../http/errors.ts";
import {
  describeBytes,
  EMPTY,
  IMAGE_CONFIG,
  IMAGE_INDEX,
  IMAGE_MANIFEST,
  jsonObject,
  parseManifest,
  type Descriptor,
} from "../manifest.ts";
import type { Repository } from "../repository.ts";
import {
  BUNDLE,
  bundleOf,
  SIGN_PREDICATE,
  SIGNATURE_ANNOTATION,
  SIMPLE_SIGNING,
  simplePayload,
} from "./formats.ts";
import { signBytes, type SigningKey } from "./keys.ts";
import { fallbackTag, simpleTag } from "./verify.ts";

/** Signs an artifact and stores the signatures. Throws RegistryError. */
export async function signArtifact(
  repository: Repository,
  subject: Descriptor,
  { key, place }: { readonly key: SigningKey; readonly place: string },
): Promise<void> {
  await storeBundle(repository, subject, bundleOf(key, subject.digest));
  await storeSimple(repository, subject, { key, place });
}

/** Stores a signature as a bundle that refers to the signed manifest. */
async function storeBundle(repository: Repository, subject: Descriptor, bundle: Buffer): Promise<void> {
  const empty = Buffer.from("{}");
  await repository.pushBlob(empty);
  await repository.pushBlob(bundle);
  const annotations = {
    "dev.sigstore.bundle.content": "dsse-envelope",
    "dev.sigstore.bundle.predicateType": SIGN_PREDICATE,
  };
  const manifest = {
    schemaVersion: 2,
    mediaType: IMAGE_MANIFEST,
    artifactType: BUNDLE,
    config: describeBytes(empty, EMPTY),
    layers: [describeBytes(bundle, BUNDLE)],
    subject: { mediaType: subject.mediaType, digest: subject.digest, size: subject.size },
    annotations,
  };
  const stored = await repository.pushManifest(toBytes(manifest), IMAGE_MANIFEST);
  const listed = await repository.referrers(subject.digest, 1);
  if (listed === undefined)
    await listAtTag(repository, subject, { ...stored, artifactType: BUNDLE, annotations });
}

/** Adds a signature to the index under a tag, which replaces the list of a registry without a referrers API. */
async function listAtTag(repository: Repository, subject: Descriptor, added: Descriptor): Promise<void> {
  const tag = fallbackTag(subject.digest);
  const index = await repository.manifest(tag);
  // As they are: also what this program cannot use.
  const others =
    index === undefined ? [] : readTag(tag, () => objectsIn(jsonObject(index.bytes)["manifests"]));
  const manifests = [...others.filter(({ digest }) => digest !== added.digest), added];
  await repository.pushManifest(
    toBytes({ schemaVersion: 2, mediaType: IMAGE_INDEX, manifests }),
    IMAGE_INDEX,
    tag,
  );
}

/** Adds a signature in the form of simple signing to those that the registry has. */
async function storeSimple(
  repository: Repository,
  subject: Descriptor,
  { key, place }: { readonly key: SigningKey; readonly place: string },
): Promise<void> {
  const payload = simplePayload(place, subject.digest);
  const tag = simpleTag(subject.digest);
  const earlier = await repository.manifest(tag);
  const others = earlier === undefined ? [] : readTag(tag, () => parseManifest(earlier.bytes).layers);
  const added = {
    ...describeBytes(payload, SIMPLE_SIGNING),
    annotations: { [SIGNATURE_ANNOTATION]: signBytes(key, payload).toString("base64") },
  };
  const layers = [...others, added];
  const config = toBytes({
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
  await repository.pushManifest(toBytes(manifest), IMAGE_MANIFEST, tag);
}

/** Reads what a tag of signatures names. Throws RegistryError if that is something else. */
function readTag<T>(tag: string, read: () => T): T {
  try {
    return read();
  } catch (error) {
    const text = `the tag ${tag}, which has the signatures, cannot be read: ${oneLine(error)}`;
    throw new RegistryError(text, undefined, { cause: error });
  }
}

function toBytes(value: object): Buffer {
  return Buffer.from(JSON.stringify(value));
}
