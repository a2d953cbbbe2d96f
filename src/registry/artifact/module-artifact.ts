/** Modules as artifacts: an OCI image with the module's directory as its one layer. */

import { mkdtemp, readdir, rename, rm, rmdir } from "node:fs/promises";
import { dirname, join } from "node:path";

import { oneLine, plainLine } from "../../lib/index.ts";
import { NotVerifiedError } from "../cosign/errors.ts";
import { verifySignature, type Verified } from "../cosign/verify.ts";
import type { Signer } from "../cosign/identity.ts";
import type { SigningKey } from "../cosign/keys.ts";
import { signArtifact } from "../cosign/sign.ts";
import {
  describeBytes,
  IMAGE_CONFIG,
  IMAGE_MANIFEST,
  LAYER,
  parseManifest,
  type Descriptor,
  type Manifest,
} from "../manifest.ts";
import { RegistryError } from "../http/errors.ts";
import { referenceText, tagOfVersion, type Reference } from "../reference.ts";
import type { Artifacts, Blobs, Repository, StoredManifest } from "../repository.ts";
import { LIMITS, unpackLayer } from "./unpack.ts";
import type { Packed } from "./pack.ts";

const MODULE_TYPE = "application/vnd.addon-operator.module.v1";
const TITLE = "org.opencontainers.image.title";
const VERSION = "org.opencontainers.image.version";

/** The name and the version that a signature covers, since they stand in the signed manifest. */
export interface Identity {
  readonly name: string;
  readonly version: string;
}

/** What was stored. */
export interface Pushed {
  readonly digest: string;
  /** False if the registry had the same artifact, signed by the same key. */
  readonly isNew: boolean;
}

/**
 * Stores a packed module under the tag of its version, and signs it before the tag names it. A version that the registry
 * has with other content is not replaced. Throws RegistryError.
 */
export async function pushModule(
  { repository, reference }: Place,
  {
    identity,
    packed,
    key,
  }: { readonly identity: Identity; readonly packed: Packed; readonly key: SigningKey | undefined },
): Promise<Pushed> {
  const tag = tagOfVersion(identity.version);
  const { config, manifest } = manifestOf(identity, packed);
  const descriptor = describeBytes(manifest, IMAGE_MANIFEST);
  const present = await repository.manifest(tag);
  if (present !== undefined && present.digest !== descriptor.digest)
    throw new RegistryError(
      `${referenceText({ ...reference, tag })} has other content (${present.digest}): versions are not replaced; raise the version of the module`,
    );
  const isSigned =
    present !== undefined && (key === undefined || (await isVerified(repository, descriptor, key)));
  if (isSigned) return { digest: descriptor.digest, isNew: false };
  for (const blob of [config, packed.layer]) await repository.pushBlob(blob);
  await repository.pushManifest(manifest, IMAGE_MANIFEST);
  const place = `${reference.host}/${reference.name}`;
  if (key !== undefined) await signArtifact(repository, descriptor, { key, place });
  await repository.pushManifest(manifest, IMAGE_MANIFEST, tag);
  return { digest: descriptor.digest, isNew: true };
}

/** A repository, and how messages name it. */
export interface Place {
  readonly repository: Repository;
  readonly reference: Reference;
}

/** The same for reading alone. */
export type ReadPlace = Omit<Place, "repository"> & { readonly repository: Artifacts };

/** Makes a tag name what another tag or digest names. Throws RegistryError. Returns the digest. */
export async function moveTag({ repository, reference }: Place, tag: string): Promise<string> {
  const stored = await findManifest({ repository, reference });
  await repository.pushManifest(stored.bytes, IMAGE_MANIFEST, tag);
  return stored.digest;
}

/** A verified artifact. */
export interface Found extends Identity {
  readonly digest: string;
  readonly layer: Descriptor;
  /** Undefined where no signature is required. */
  readonly verified: Verified | undefined;
}

/**
 * Finds an artifact and verifies it: a signature by one of `signers`, one layer, and the name and version that were
 * requested. `signers` is undefined where the user does without a signature. Throws RegistryError, NotVerifiedError,
 * CannotVerifyError.
 */
export async function findModule(place: ReadPlace, signers: readonly Signer[] | undefined): Promise<Found> {
  const { repository, reference } = place;
  const stored = await findManifest(place);
  const verified =
    signers === undefined ? undefined : await verifySignature(repository, stored.digest, signers);
  const manifest = checkedManifest(stored, reference);
  const identity = identityOf(manifest);
  const layer = layerOf(manifest);
  const problem = identityProblem(identity, reference) ?? (typeof layer === "string" ? layer : "");
  if (problem !== "" || typeof layer === "string")
    throw new NotVerifiedError(
      `${referenceText({ ...reference, digest: stored.digest })} is refused: ${plainLine(problem)}`,
    );
  return { ...identity, digest: stored.digest, layer, verified };
}

/** Fetches and unpacks a verified artifact into `dir`, which must not exist or must be empty. Throws Error. */
export async function unpackModule(
  repository: Blobs,
  { layer }: Pick<Found, "layer">,
  dir: string,
): Promise<void> {
  const scratch = await mkdtemp(join(dirname(dir), ".pull-"));
  try {
    const file = join(scratch, "layer.tgz");
    await repository.saveBlob(layer, file);
    const content = join(scratch, "content");
    await unpackLayer(file, content);
    await replaceEmpty(content, dir);
  } finally {
    await rm(scratch, { recursive: true, force: true });
  }
}

/** Moves a directory to a path at which there is nothing or an empty directory. */
async function replaceEmpty(content: string, dir: string): Promise<void> {
  const names = await readdir(dir).catch(() => undefined);
  if (names !== undefined) await rmdir(dir);
  await rename(content, dir);
}

/** Whether the artifact has a valid signature by this key already. */
async function isVerified(repository: Repository, { digest }: Descriptor, key: SigningKey): Promise<boolean> {
  return verifySignature(repository, digest, [key]).then(
    () => true,
    () => false,
  );
}

/** The manifest that a reference names. Throws RegistryError if the registry has none. */
export async function findManifest({ repository, reference }: ReadPlace): Promise<StoredManifest> {
  const { tag, digest } = reference;
  const stored = await repository.manifest(digest ?? tag ?? "latest");
  if (stored === undefined)
    throw new RegistryError("it is not found, or the credentials do not show it", 404);
  return stored;
}

/** The fields of a manifest. Throws NotVerifiedError. */
export function checkedManifest(stored: StoredManifest, reference: Reference): Manifest {
  try {
    return parseManifest(stored.bytes);
  } catch (error) {
    throw new NotVerifiedError(`${referenceText(reference)} is refused: ${oneLine(error)}`);
  }
}

function identityOf({ annotations }: Manifest): Identity {
  return { name: annotations[TITLE] ?? "", version: annotations[VERSION] ?? "" };
}

/** The one layer of a module, or why the artifact is no module. */
function layerOf({ layers, artifactType }: Manifest): Descriptor | string {
  const [layer] = layers;
  if (artifactType !== MODULE_TYPE) return `it is of type ${artifactType ?? "image"}, not a module`;
  if (layer === undefined || layers.length !== 1) return `it has ${layers.length} layers`;
  if (layer.mediaType !== LAYER) return `its layer is of type ${layer.mediaType}`;
  return layer.size > LIMITS.packed ? `it is larger than ${LIMITS.packed >> 20} MiB` : layer;
}

/** What is wrong with the name or the version of an artifact. A tag that is a version must be that of the artifact; other tags are channels. */
function identityProblem(
  { name, version }: Identity,
  { name: repository, tag }: Reference,
): string | undefined {
  const wanted = repository.split("/").at(-1);
  if (name !== wanted) return `it is the module "${name}", not "${wanted}"`;
  const isVersion = tag !== undefined && /^v?\d+\.\d/.test(tag);
  return isVersion && tag !== tagOfVersion(version) ? `its version is "${version}", not "${tag}"` : undefined;
}

/** The image config and the manifest of an artifact, as bytes. */
function manifestOf(
  { name, version }: Identity,
  { layer, diffId }: Packed,
): { readonly config: Buffer; readonly manifest: Buffer } {
  const config = Buffer.from(
    JSON.stringify({
      architecture: "amd64",
      os: "linux",
      config: {},
      rootfs: { type: "layers", diff_ids: [diffId] },
    }),
  );
  const manifest = {
    schemaVersion: 2,
    mediaType: IMAGE_MANIFEST,
    artifactType: MODULE_TYPE,
    config: describeBytes(config, IMAGE_CONFIG),
    // Without a file name, `oras pull` skips the layer.
    layers: [
      { ...describeBytes(layer, LAYER), annotations: { [TITLE]: `${name}-${tagOfVersion(version)}.tar.gz` } },
    ],
    annotations: { [TITLE]: name, [VERSION]: version },
  };
  return { config, manifest: Buffer.from(JSON.stringify(manifest)) };
}
