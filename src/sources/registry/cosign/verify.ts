/**
 * Verifies that one of the keys or identities signed a digest, by the signatures that the registry stores beside it. The search
 * for a valid one goes on after signatures that are refused, and after errors: with those, it is incomplete, and a retry may
 * find a valid signature.
 */

import { attempt, oneLine, systemClock } from "../../../base/index.ts";
import { parseIndex, parseManifest, type Descriptor } from "../manifest.ts";
import { CannotVerifyError, NotVerifiedError } from "../errors.ts";
import type { ArtifactReader, StoredManifest } from "../repository.ts";
import {
  BUNDLE_TYPE_PREFIX,
  verifyBundle,
  readKeyHint,
  SIGN_PREDICATE,
  SIMPLE_SIGNING_TYPE,
  verifySimpleSigning,
} from "./formats.ts";
import type { Signer } from "./identity.ts";

/** A valid signature: who signed, and in which of cosign's two forms. */
export interface VerifiedSignature {
  readonly signer: Signer;
  readonly form: "bundle" | "simple signing";
}

/** A slow registry with many signatures could block a check for an hour. */
const MAX_SEARCH_MS = 120_000;
/** Most bundles that are read. */
const MAX_BUNDLES = 50;
/** Most referrers that are listed: SBOMs and reports may precede the signatures. */
const MAX_REFERRERS = 2000;
const MAX_LAYERS = 100;
const MAX_MANIFEST_BYTES = 64 * 1024;
/** Parsed JSON can take forty times its bytes in memory. */
const MAX_INDEX_BYTES = 2 * 1024 * 1024;
const MAX_BUNDLE_BYTES = 1024 * 1024;
const MAX_PAYLOAD_BYTES = 64 * 1024;

/** The tag of the list of referrers, in registries without a referrers API ("referrers tag schema" of the OCI specification). */
export function referrersTag(digest: string): string {
  return digest.replace(":", "-");
}

/** The tag under which cosign stores the simple-signing signatures of a digest. */
export function simpleSigningTag(digest: string): string {
  return `${referrersTag(digest)}.sig`;
}

/** Whether a reference is one of these two tags, of any digest. */
export function isSignatureTag(reference: string): boolean {
  return SIGNATURE_TAG.test(reference);
}

const SIGNATURE_TAG = /^sha256-[0-9a-f]{64}(?:\.sig)?$/;

/** One search for a valid signature of `digest`. Collects why signatures are refused, for the error message. */
interface SignatureSearch {
  readonly repository: ArtifactReader;
  readonly digest: string;
  readonly signers: readonly Signer[];
  /** One line for each location without a signature, and for each signature that is refused. */
  readonly refusals: string[];
  /** Whether something could not be read: then a retry may find a valid signature. */
  isIncomplete: boolean;
  /** When the search ends without a result, on the monotonic clock in milliseconds. */
  readonly deadline: number;
}

/**
 * Finds a valid signature of `digest` by any of the signers, first among the bundles, then among the simple-signing
 * signatures. An error while one form is read does not prevent the search of the other. Throws NotVerifiedError if
 * there is no valid signature, and CannotVerifyError if something could not be read.
 */
export async function verifySignature(
  repository: ArtifactReader,
  digest: string,
  signers: readonly Signer[],
): Promise<VerifiedSignature> {
  const deadline = systemClock.monotonic() + MAX_SEARCH_MS;
  const search: SignatureSearch = {
    repository,
    digest,
    signers,
    refusals: [],
    isIncomplete: false,
    deadline,
  };
  const verified =
    (await searchBundles(search)) ??
    (await tryStep(search, `tag ${simpleSigningTag(digest)}`, () => searchSimpleSigning(search)));
  if (verified !== undefined) return verified;
  const reasons = search.refusals.join("; ");
  if (search.isIncomplete) throw new CannotVerifyError(`${digest} cannot be verified now: ${reasons}`);
  throw new NotVerifiedError(
    `${digest} has no valid signature by ${signers.map(({ source }) => source).join(", ")}: ${reasons}`,
  );
}

/** Records why a location or a signature is refused. Returns undefined as the result of the caller. */
function refuse(search: SignatureSearch, location: string, reason: string): undefined {
  search.refusals.push(`${location}: ${reason}`);
  return undefined;
}

/** Runs one step of the search. Records an error as a refusal and marks the search as incomplete, so that it continues. */
async function tryStep(
  search: SignatureSearch,
  location: string,
  work: () => Promise<VerifiedSignature | undefined>,
): Promise<VerifiedSignature | undefined> {
  try {
    if (systemClock.monotonic() > search.deadline)
      throw new Error("not read, since the search takes too long");
    return await work();
  } catch (error) {
    search.isIncomplete = true;
    return refuse(search, location, oneLine(error));
  }
}

/**
 * Verifies the bundles among the referrers of the digest, and returns the first valid one; undefined if there is none. Reads
 * the list of the referrers API, and that under the tag if the API is missing, fails, or lists no bundle: some registries
 * answer with an empty list, although clients store the list under the tag.
 */
async function searchBundles(search: SignatureSearch): Promise<VerifiedSignature | undefined> {
  const { repository, digest } = search;
  const lists = [
    ["referrers", () => repository.listReferrers(digest, MAX_REFERRERS)],
    [`tag ${referrersTag(digest)}`, () => readReferrersTag(search)],
  ] as const;
  for (const [location, list] of lists) {
    const verified = await tryStep(search, location, async () =>
      searchBundleList(search, location, await list()),
    );
    if (verified !== undefined) return verified;
  }
  return undefined;
}

/** Verifies the bundles in a list of referrers, as `searchBundles`. `list` is undefined if the registry has no such list. */
async function searchBundleList(
  search: SignatureSearch,
  location: string,
  list: readonly Descriptor[] | undefined,
): Promise<VerifiedSignature | undefined> {
  const bundles = list?.filter(mayBeBundle) ?? [];
  if (bundles.length === 0)
    return refuse(search, location, list?.length ? `${list.length}, but no signature` : "none");
  if (bundles.length > MAX_BUNDLES)
    refuse(search, location, `${bundles.length} signatures, of which only ${MAX_BUNDLES} are read`);
  for (const each of bundles.slice(0, MAX_BUNDLES)) {
    const verified = await tryStep(search, `referrer ${each.digest}`, () => verifyReferrer(search, each));
    if (verified !== undefined) return verified;
  }
  return undefined;
}

/** Annotation with which cosign tells signatures from attestations, which are bundles, too. */
const PREDICATE_ANNOTATION = "dev.sigstore.bundle.predicateType";

/** Whether a referrer may be a signature in a bundle. Some registries name neither the type of the artifact nor annotations. */
function mayBeBundle({ artifactType = BUNDLE_TYPE_PREFIX, annotations = {} }: Descriptor): boolean {
  const { [PREDICATE_ANNOTATION]: predicate = SIGN_PREDICATE } = annotations;
  return artifactType.startsWith(BUNDLE_TYPE_PREFIX) && predicate === SIGN_PREDICATE;
}

/** Reads the list of referrers under its tag; undefined if there is none. */
async function readReferrersTag({
  repository,
  digest,
}: SignatureSearch): Promise<readonly Descriptor[] | undefined> {
  const index = await repository.readManifest(referrersTag(digest), MAX_INDEX_BYTES);
  return index && parseIndex(index.bytes).slice(0, MAX_REFERRERS);
}

/**
 * Fetches the bundle of one referrer and verifies its signature. Records a refusal and returns undefined if the
 * signature is not valid. Throws errors of the registry.
 */
async function verifyReferrer(
  search: SignatureSearch,
  referrer: Descriptor,
): Promise<VerifiedSignature | undefined> {
  const { repository, digest, signers } = search;
  const location = `referrer ${referrer.digest}`;
  if (referrer.size > MAX_MANIFEST_BYTES) return refuse(search, location, "its manifest is too large");
  const stored = await repository.readManifest(referrer.digest, MAX_MANIFEST_BYTES);
  if (stored === undefined) return refuse(search, location, "missing");
  const layer = await tryOrReject(search, location, () => findBundleLayer(stored, digest));
  if (layer === undefined) return undefined;
  if (layer.size > MAX_BUNDLE_BYTES) return refuse(search, location, "its bundle is too large");
  const bytes = await repository.readBlob(layer, MAX_BUNDLE_BYTES);
  return tryOrReject(search, `${location}${describeKeyHint(bytes)}`, async () => ({
    signer: await verifyBundle(signers, digest, bytes),
    form: "bundle",
  }));
}

/** Returns the layer that contains the bundle. Throws Error if the manifest is not a signature of `digest`. */
function findBundleLayer({ bytes }: StoredManifest, digest: string): Descriptor {
  const { subject, layers, artifactType } = parseManifest(bytes);
  const [layer] = layers;
  if (layer === undefined || layers.length !== 1) throw new Error(`it has ${layers.length} layers`);
  if (![artifactType, layer.mediaType].some((type) => type?.startsWith(BUNDLE_TYPE_PREFIX)))
    throw new Error("it is no signature");
  if (subject?.digest !== digest) throw new Error("it is for another digest");
  return layer;
}

/** Verifies simple-signing signatures, the layers of one manifest. Returns the first valid one; undefined if there is none. */
async function searchSimpleSigning(search: SignatureSearch): Promise<VerifiedSignature | undefined> {
  const { repository, digest } = search;
  const tag = simpleSigningTag(digest);
  const location = `tag ${tag}`;
  const stored = await repository.readManifest(tag, MAX_MANIFEST_BYTES);
  if (stored === undefined) return refuse(search, location, "none");
  const manifest = await tryOrReject(search, location, () => parseManifest(stored.bytes));
  const layers = manifest?.layers.filter(({ mediaType }) => mediaType === SIMPLE_SIGNING_TYPE) ?? [];
  if (manifest !== undefined && layers.length === 0) return refuse(search, location, "it has no signature");
  for (const layer of layers.slice(0, MAX_LAYERS)) {
    const verified = await tryStep(search, location, () => verifySimpleSigningLayer(search, layer));
    if (verified !== undefined) return verified;
  }
  return undefined;
}

/**
 * Fetches the payload of one simple-signing signature and verifies it. Records a refusal and returns undefined if
 * the signature is not valid. Throws errors of the registry.
 */
async function verifySimpleSigningLayer(
  search: SignatureSearch,
  layer: Descriptor,
): Promise<VerifiedSignature | undefined> {
  const { repository, digest, signers } = search;
  const location = `tag ${simpleSigningTag(digest)}`;
  if (layer.size > MAX_PAYLOAD_BYTES) return refuse(search, location, "its payload is too large");
  const payload = await repository.readBlob(layer, MAX_PAYLOAD_BYTES);
  const { annotations } = layer;
  return tryOrReject(search, location, async () => ({
    signer: await verifySimpleSigning(signers, digest, { payload, annotations }),
    form: "simple signing",
  }));
}

/**
 * Returns the result of parsing or verifying what was read. Records an error as a refusal and returns undefined, except
 * for CannotVerifyError, which the caller handles as an incomplete search.
 */
async function tryOrReject<T>(
  search: SignatureSearch,
  location: string,
  inspect: () => T | Promise<T>,
): Promise<T | undefined> {
  try {
    return await inspect();
  } catch (error) {
    if (error instanceof CannotVerifyError) throw error;
    return refuse(search, location, oneLine(error));
  }
}

/** Names the key of a bundle in a refusal, so that users find the right key. Empty if the bundle names none or is unreadable. */
function describeKeyHint(bundle: Buffer): string {
  const hint = attempt(() => readKeyHint(bundle));
  return hint === undefined ? "" : ` (key ${oneLine(hint, 60)})`;
}
