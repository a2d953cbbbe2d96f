/** Modules as artifacts, OCI images with the module's directory as their one layer; and charts, as helm pushes them. */

import { mkdtemp, rename, rm, rmdir } from "node:fs/promises";
import { dirname, join } from "node:path";

import { exists, oneLine, plainLine } from "../../../base/index.ts";
import { MAX_ARCHIVE_BYTES } from "../charts/chart-repository.ts";
import { NotVerifiedError, RegistryError } from "../errors.ts";
import { verifySignature, type VerifiedSignature } from "../cosign/verify.ts";
import type { Signer } from "../cosign/identity.ts";
import type { SigningKey } from "../cosign/keys.ts";
import { signArtifact } from "../cosign/sign.ts";
import { describeBytes, IMAGE_CONFIG, IMAGE_MANIFEST, LAYER_TAR_GZIP, parseManifest } from "../manifest.ts";
import type { Descriptor, Manifest } from "../manifest.ts";
import { formatReference, versionToTag, type Reference } from "../reference.ts";
import type { ArtifactReader, BlobReader, Repository, StoredManifest } from "../repository.ts";
import { LAYER_LIMITS, unpackLayer } from "./unpack.ts";
import type { Packed } from "./pack.ts";

const MODULE_TYPE = "application/vnd.addon-operator.module.v1";
const TITLE_ANNOTATION = "org.opencontainers.image.title";
const VERSION_ANNOTATION = "org.opencontainers.image.version";
const CHART_CONFIG_TYPE = "application/vnd.cncf.helm.config.v1+json";
/** Media types of the layer with the archive; helm before 3.7 wrote the second one. */
const CHART_ARCHIVE_TYPES: ReadonlySet<string> = new Set([
  "application/vnd.cncf.helm.chart.content.v1.tar+gzip",
  "application/tar+gzip",
]);

/** Name and version of a module, from the annotations of its manifest; a signature covers them. */
interface ModuleIdentity {
  readonly name: string;
  readonly version: string;
}

/** A packed module to push, signed by `key` if there is one. */
interface PushedModule {
  readonly identity: ModuleIdentity;
  readonly packed: Packed;
  readonly key: SigningKey | undefined;
}

/** The result of a push. */
export interface PushResult {
  readonly digest: string;
  /** False if the registry already had the same artifact with a signature by the same key. */
  readonly isNew: boolean;
}

/**
 * Stores a packed module under the tag of its version, and signs it. The tag is written last, so that it never names
 * an unsigned module. Refuses to replace other content of the same version. Throws RegistryError.
 */
export async function pushModule(
  { repository, reference }: NamedRepository,
  { identity, packed, key }: PushedModule,
): Promise<PushResult> {
  const tag = versionToTag(identity.version);
  const { config, manifest } = buildManifest(identity, packed);
  const descriptor = describeBytes(manifest, IMAGE_MANIFEST);
  const existingManifest = await repository.readManifest(tag);
  if (existingManifest !== undefined && existingManifest.digest !== descriptor.digest)
    throw new RegistryError(
      `${formatReference({ ...reference, tag })} has other content (${existingManifest.digest}): versions are not replaced; raise the version of the module`,
    );
  const isComplete =
    existingManifest !== undefined && (key === undefined || (await isSignedBy(repository, descriptor, key)));
  if (isComplete) return { digest: descriptor.digest, isNew: false };
  for (const blob of [config, packed.layer]) await repository.pushBlob(blob);
  await repository.pushManifest(manifest, IMAGE_MANIFEST);
  const repositoryAddress = `${reference.host}/${reference.name}`;
  if (key !== undefined) await signArtifact(repository, descriptor, { key, repositoryAddress });
  await repository.pushManifest(manifest, IMAGE_MANIFEST, tag);
  return { digest: descriptor.digest, isNew: true };
}

/** A repository, and the reference to the artifact in it, which messages name. */
export interface NamedRepository {
  readonly repository: Repository;
  readonly reference: Reference;
}

/** The same for callers that only read, also from stored copies. */
type ReadableRepository = Omit<NamedRepository, "repository"> & {
  readonly repository: ArtifactReader;
};

/** Makes a tag name the artifact of the reference, and returns its digest. Throws RegistryError. */
export async function moveTag({ repository, reference }: NamedRepository, tag: string): Promise<string> {
  const stored = await fetchManifest({ repository, reference });
  await repository.pushManifest(stored.bytes, IMAGE_MANIFEST, tag);
  return stored.digest;
}

/** An artifact whose manifest and, if required, signature are verified; its layer is not fetched yet. */
interface FoundArtifact {
  readonly digest: string;
  readonly layer: Descriptor;
  /** The valid signature; undefined if no signature is required. */
  readonly verified: VerifiedSignature | undefined;
}

/** A verified module in a registry. */
export type FoundModule = FoundArtifact & ModuleIdentity;

/** A verified chart in a registry. Name and version are in its archive. */
export type FoundChart = FoundArtifact;

/**
 * Reads the manifest of a module and verifies its signature by one of `signers`, its name, version and layer.
 * `signers` is undefined if the user requires no signature. Throws RegistryError, NotVerifiedError,
 * CannotVerifyError.
 */
export async function findModuleArtifact(
  source: ReadableRepository,
  signers: readonly Signer[] | undefined,
): Promise<FoundModule> {
  return findArtifact(source, signers, (manifest) => {
    const { [TITLE_ANNOTATION]: name = "", [VERSION_ANNOTATION]: version = "" } = manifest.annotations;
    const layer = findModuleLayer(manifest);
    const problem = findIdentityProblem({ name, version }, source.reference);
    if (problem !== undefined) return problem;
    return typeof layer === "string" ? layer : { name, version, layer };
  });
}

/** Reads the manifest of a chart, and verifies its signature and the layer with the archive, as `findModuleArtifact` does. */
export async function findChart(
  source: ReadableRepository,
  signers: readonly Signer[] | undefined,
): Promise<FoundChart> {
  return findArtifact(source, signers, (manifest) => {
    const layer = findArchiveLayer(manifest);
    return typeof layer === "string" ? layer : { layer };
  });
}

/** Reads and verifies an artifact. `inspect` returns its properties, or the reason why its manifest is refused. */
async function findArtifact<T extends object>(
  source: ReadableRepository,
  signers: readonly Signer[] | undefined,
  inspect: (manifest: Manifest) => T | string,
): Promise<T & Omit<FoundArtifact, "layer">> {
  const { repository, reference } = source;
  const stored = await fetchManifest(source);
  const { digest } = stored;
  const verified = signers === undefined ? undefined : await verifySignature(repository, digest, signers);
  const found = inspect(parseManifestOrRefuse(stored, reference));
  if (typeof found !== "string") return { ...found, digest, verified };
  throw new NotVerifiedError(`${formatReference({ ...reference, digest })} is refused: ${plainLine(found)}`);
}

/**
 * Downloads the layer of a verified module and unpacks it into `dir`, which must not exist or must be empty. Unpacks
 * beside `dir` first, so that `dir` is never incomplete. Throws Error.
 */
export async function unpackModule(
  repository: BlobReader,
  { layer }: Pick<FoundModule, "layer">,
  dir: string,
): Promise<void> {
  const scratch = await mkdtemp(join(dirname(dir), ".pull-"));
  try {
    const file = join(scratch, "layer.tgz");
    await repository.saveBlob(layer, file);
    const content = join(scratch, "content");
    await unpackLayer(file, content);
    // A directory is replaced only if it is empty.
    if (await exists(dir)) await rmdir(dir);
    await rename(content, dir);
  } finally {
    await rm(scratch, { recursive: true, force: true });
  }
}

/** Whether the artifact already has a valid signature by this key. Counts an error as no, so that the caller signs again. */
async function isSignedBy(repository: Repository, { digest }: Descriptor, key: SigningKey): Promise<boolean> {
  return (await verifySignature(repository, digest, [key]).catch(() => undefined)) !== undefined;
}

/**
 * Reads the manifest that a reference names: by its digest, else by its tag, else by the tag `latest`. Throws
 * RegistryError if the registry has none.
 */
async function fetchManifest({ repository, reference }: ReadableRepository): Promise<StoredManifest> {
  const { tag, digest } = reference;
  const stored = await repository.readManifest(digest ?? tag ?? "latest");
  if (stored === undefined)
    throw new RegistryError("it is not found, or the credentials do not show it", 404);
  return stored;
}

/** Parses a manifest. Throws NotVerifiedError for an invalid one, because the same digest always has the same content. */
function parseManifestOrRefuse(stored: StoredManifest, reference: Reference): Manifest {
  try {
    return parseManifest(stored.bytes);
  } catch (error) {
    throw new NotVerifiedError(`${formatReference(reference)} is refused: ${oneLine(error)}`);
  }
}

/** Returns the one layer of a module, or the reason why the artifact is no module that can be used. */
function findModuleLayer({ layers, artifactType }: Manifest): Descriptor | string {
  const [layer] = layers;
  if (artifactType !== MODULE_TYPE) return `it is of type ${artifactType ?? "image"}, not a module`;
  if (layer === undefined || layers.length !== 1) return `it has ${layers.length} layers`;
  if (layer.mediaType !== LAYER_TAR_GZIP) return `its layer is of type ${layer.mediaType}`;
  return layer.size > LAYER_LIMITS.packed ? `it is larger than ${LAYER_LIMITS.packed >> 20} MiB` : layer;
}

/** Returns the layer with the archive, or the reason why the artifact is no chart that can be used. */
function findArchiveLayer({ config, layers }: Manifest): Descriptor | string {
  const archives = layers.filter(({ mediaType }) => CHART_ARCHIVE_TYPES.has(mediaType));
  const [archive] = archives;
  if (config.mediaType !== CHART_CONFIG_TYPE) return `it is of type ${config.mediaType}, not a chart`;
  if (archive === undefined || archives.length !== 1) return `it has ${archives.length} archives of a chart`;
  return archive.size > MAX_ARCHIVE_BYTES ? `it is larger than ${MAX_ARCHIVE_BYTES >> 20} MiB` : archive;
}

/**
 * Describes why an artifact is another module or version than its reference names; undefined if it is the same. A tag
 * that looks like a version must be the version of the artifact; other tags are channels, which may name any version.
 */
function findIdentityProblem(
  { name, version }: ModuleIdentity,
  { name: repository, tag }: Reference,
): string | undefined {
  const expectedName = repository.split("/").at(-1);
  if (name !== expectedName) return `it is the module "${name}", not "${expectedName}"`;
  const isVersion = tag !== undefined && /^v?\d+\.\d/.test(tag);
  return isVersion && tag !== versionToTag(version) ? `its version is "${version}", not "${tag}"` : undefined;
}

/** Builds image config and manifest of a module's artifact. Equal input gives equal bytes: a repeated push has the same digest. */
function buildManifest(
  { name, version }: ModuleIdentity,
  { layer, diffId }: Packed,
): { readonly config: Buffer; readonly manifest: Buffer } {
  const rootfs = { type: "layers", diff_ids: [diffId] };
  const config = Buffer.from(JSON.stringify({ architecture: "amd64", os: "linux", config: {}, rootfs }));
  // Without a file name, `oras pull` skips the layer.
  const fileName = `${name}-${versionToTag(version)}.tar.gz`;
  const manifest = {
    schemaVersion: 2,
    mediaType: IMAGE_MANIFEST,
    artifactType: MODULE_TYPE,
    config: describeBytes(config, IMAGE_CONFIG),
    layers: [{ ...describeBytes(layer, LAYER_TAR_GZIP), annotations: { [TITLE_ANNOTATION]: fileName } }],
    annotations: { [TITLE_ANNOTATION]: name, [VERSION_ANNOTATION]: version },
  };
  return { config, manifest: Buffer.from(JSON.stringify(manifest)) };
}
