/** Decides whether a digest is signed by one of the keys or identities, by what the registry stores beside it. */

import { oneLine, systemClock } from "../../lib/index.ts";
import { parseIndex, parseManifest, type Descriptor } from "../manifest.ts";
import { CannotVerifyError, NotVerifiedError } from "./errors.ts";
import type { Artifacts, StoredManifest } from "../repository.ts";
import { BUNDLE_PREFIX, bundleSigner, hintOf, SIMPLE_SIGNING, simpleSigner } from "./formats.ts";
import type { Signer } from "./identity.ts";

/** Who signed, and in which form. */
export interface Verified {
  readonly signer: Signer;
  readonly form: "bundle" | "simple signing";
}

const LONGEST_SEARCH_MS = 120_000;
const MOST_REFERRERS = 50;
const MOST_LAYERS = 100;
const LARGEST_MANIFEST = 64 * 1024;
/** JSON can take forty times its bytes. */
const LARGEST_INDEX = 2 * 1024 * 1024;
const LARGEST_BUNDLE = 1024 * 1024;
const LARGEST_PAYLOAD = 64 * 1024;

/** The tag of the index that replaces a missing referrers API. */
export function fallbackTag(digest: string): string {
  return digest.replace(":", "-");
}

/** The tag of the manifest of simple signing. */
export function simpleTag(digest: string): string {
  return `${fallbackTag(digest)}.sig`;
}

/** What was found on the way, for the error. */
interface Search {
  readonly repository: Artifacts;
  readonly digest: string;
  readonly signers: readonly Signer[];
  /** A line for each place and each signature that does not count. */
  readonly notes: string[];
  /** A place could not be read. */
  isIncomplete: boolean;
  /** When the search is given up: a slow registry with many signatures could block it for an hour. */
  readonly endsAt: number;
}

/**
 * Finds a valid signature of `digest` in both of cosign's forms. One by any of the signers is enough, and an error in one
 * form does not keep the other from counting. Throws NotVerifiedError or CannotVerifyError.
 */
export async function verifySignature(
  repository: Artifacts,
  digest: string,
  signers: readonly Signer[],
): Promise<Verified> {
  const endsAt = systemClock.monotonic() + LONGEST_SEARCH_MS;
  const search: Search = { repository, digest, signers, notes: [], isIncomplete: false, endsAt };
  const verified =
    (await attempt(search, "referrers", () => searchBundles(search))) ??
    (await attempt(search, `tag ${simpleTag(digest)}`, () => searchSimple(search)));
  if (verified !== undefined) return verified;
  const notes = search.notes.join("; ");
  if (search.isIncomplete) throw new CannotVerifyError(`${digest} cannot be verified now: ${notes}`);
  throw new NotVerifiedError(
    `${digest} has no valid signature by ${signers.map(({ source }) => source).join(", ")}: ${notes}`,
  );
}

/** Runs one step of the search. An error becomes a note, so that the search continues elsewhere. */
async function attempt(
  search: Search,
  place: string,
  work: () => Promise<Verified | undefined>,
): Promise<Verified | undefined> {
  try {
    if (systemClock.monotonic() > search.endsAt) throw new Error("not read, since the search takes too long");
    return await work();
  } catch (error) {
    search.isIncomplete = true;
    search.notes.push(`${place}: ${oneLine(error)}`);
    return undefined;
  }
}

/** Searches the referrers of the digest for a valid bundle; undefined if there is none. */
async function searchBundles(search: Search): Promise<Verified | undefined> {
  const { repository, digest, notes } = search;
  const listed = (await repository.referrers(digest, MOST_REFERRERS)) ?? (await fallbackReferrers(search));
  if (listed.length === 0) notes.push("referrers: none");
  for (const each of listed) {
    const verified = await attempt(search, `referrer ${each.digest}`, () => bundleAt(search, each));
    if (verified !== undefined) return verified;
  }
  return undefined;
}

/** The referrers in the index that a registry without a referrers API has under a tag. */
async function fallbackReferrers({ repository, digest }: Search): Promise<readonly Descriptor[]> {
  const index = await repository.manifest(fallbackTag(digest), LARGEST_INDEX);
  return index === undefined ? [] : parseIndex(index.bytes).slice(0, MOST_REFERRERS);
}

/** Verifies the bundle of one referrer. Adds a note and returns undefined if it does not count. */
async function bundleAt(search: Search, { digest: place, size }: Descriptor): Promise<Verified | undefined> {
  const { repository, digest, signers, notes } = search;
  if (size > LARGEST_MANIFEST) return void notes.push(`referrer ${place}: its manifest is too large`);
  const stored = await repository.manifest(place, LARGEST_MANIFEST);
  if (stored === undefined) return void notes.push(`referrer ${place}: missing`);
  const layer = bundleLayer(stored, digest);
  if (typeof layer === "string") return void notes.push(`referrer ${place}: ${layer}`);
  if (layer.size > LARGEST_BUNDLE) return void notes.push(`referrer ${place}: its bundle is too large`);
  const bytes = await repository.blob(layer, LARGEST_BUNDLE);
  return verifyOrNote(notes, `referrer ${place}${keyNote(bytes)}`, async () => ({
    signer: await bundleSigner(signers, digest, bytes),
    form: "bundle",
  }));
}

/** The layer of a bundle, or why this manifest has none. */
function bundleLayer(stored: StoredManifest, digest: string): Descriptor | string {
  try {
    const { subject, layers, artifactType } = parseManifest(stored.bytes);
    const [layer] = layers;
    if (layer === undefined || layers.length !== 1) return `it has ${layers.length} layers`;
    if (![artifactType, layer.mediaType].some((type) => type?.startsWith(BUNDLE_PREFIX)))
      return "it is no signature";
    return subject?.digest === digest ? layer : "it is for another digest";
  } catch (error) {
    return oneLine(error);
  }
}

/** Searches the manifest of simple signing for a valid signature; undefined if there is none. */
async function searchSimple(search: Search): Promise<Verified | undefined> {
  const { repository, digest, notes } = search;
  const tag = simpleTag(digest);
  const stored = await repository.manifest(tag, LARGEST_MANIFEST);
  if (stored === undefined) return void notes.push(`tag ${tag}: none`);
  const layers = simpleLayers(stored);
  if (typeof layers === "string") return void notes.push(`tag ${tag}: ${layers}`);
  for (const layer of layers.slice(0, MOST_LAYERS)) {
    const verified = await attempt(search, `tag ${tag}`, () => simpleAt(search, layer));
    if (verified !== undefined) return verified;
  }
  return undefined;
}

/** Verifies one signature of simple signing. Adds a note and returns undefined if it does not count. */
async function simpleAt(
  { repository, digest, signers, notes }: Search,
  layer: Descriptor,
): Promise<Verified | undefined> {
  const place = `tag ${simpleTag(digest)}`;
  if (layer.size > LARGEST_PAYLOAD) return void notes.push(`${place}: its payload is too large`);
  const payload = await repository.blob(layer, LARGEST_PAYLOAD);
  const { annotations } = layer;
  return verifyOrNote(notes, place, async () => ({
    signer: await simpleSigner(signers, digest, { payload, annotations }),
    form: "simple signing",
  }));
}

/** The layers with signatures, or why this manifest has none. */
function simpleLayers({ bytes }: StoredManifest): readonly Descriptor[] | string {
  try {
    const layers = parseManifest(bytes).layers.filter(({ mediaType }) => mediaType === SIMPLE_SIGNING);
    return layers.length === 0 ? "it has no signature" : layers;
  } catch (error) {
    return oneLine(error);
  }
}

/** The result of a verification. An error becomes a note, and the result is undefined. Throws CannotVerifyError. */
async function verifyOrNote(
  notes: string[],
  place: string,
  verify: () => Promise<Verified>,
): Promise<Verified | undefined> {
  try {
    return await verify();
  } catch (error) {
    if (error instanceof CannotVerifyError) throw error;
    notes.push(`${place}: ${oneLine(error)}`);
    return undefined;
  }
}

/** Names the key of a bundle, which helps to find the right one. */
function keyNote(bundle: Buffer): string {
  try {
    const hint = hintOf(bundle);
    return hint === undefined ? "" : ` (key ${oneLine(hint, 60)})`;
  } catch {
    return "";
  }
}
