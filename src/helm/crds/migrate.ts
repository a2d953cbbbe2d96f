/** Writes objects anew in the version that a new definition stores them in. */

import { inParallel, sleep } from "../../lib/index.ts";
import {
  CUSTOM_RESOURCE_DEFINITIONS,
  ignoreNotFound,
  listObjects,
  mergePatch,
  type Resource,
  type WatchedObject,
} from "../../kube/index.ts";
import { ProblemError } from "../../model/index.ts";
import { resourceIn, storageVersion, type CrdFile, type CrdTools, type StoredCrd } from "./crd.ts";

/** Objects written at the same time; the client's other requests have connections left. */
const AT_ONCE = 12;
/** Until then all API servers of a cluster know the version to store; the API server itself waits as long for a new CRD. */
const KNOWN_MS = 5000;
const TELL_MS = 3000;

/**
 * Leaves no object in a version that `next` drops: the definition in force stores the version that `next` stores, each
 * object is written unchanged, and the CRD's record of stored versions says so. May be repeated after any failure. Throws
 * ProblemError where the definition in force does not know that version, ApiError, ConnectionError.
 */
export async function migrate({ file, crd }: CrdFile, live: StoredCrd, tools: CrdTools): Promise<void> {
  const { client, signal } = tools;
  const version = storageVersion(crd);
  const { spec, metadata } = live;
  if (version === undefined || !spec.versions.some(({ name }) => name === version)) {
    const message = `stores version ${version}, which the definition in force does not have: objects cannot be converted`;
    throw new ProblemError([{ file, message, remedy: "take a definition that has both versions first" }]);
  }
  await storeIn(version, live, tools);
  const resource = resourceIn(spec, version);
  const objects = await namesOf(resource, tools);
  const tell = teller(`objects of ${metadata.name} in ${version}`, objects.length, tools);
  await inParallel(AT_ONCE, objects, async ({ namespace, name }) => {
    const target = { resource, namespace, name };
    await mergePatch(client, target, { body: {}, signal }).catch(ignoreNotFound);
    tell();
  });
  const status = { resource: CUSTOM_RESOURCE_DEFINITIONS, name: metadata.name, subresource: "status" };
  await mergePatch(client, status, { body: { status: { storedVersions: [version] } }, signal });
}

/** The definition in force stores objects in that version, and every API server knows it. */
async function storeIn(
  version: string,
  { metadata, spec }: StoredCrd,
  { client, clock, signal }: CrdTools,
): Promise<void> {
  if (spec.versions.some((each) => each.name === version && each.storage && each.served)) return;
  const versions = spec.versions.map((each) => ({
    ...each,
    storage: each.name === version,
    served: each.served || each.name === version,
  }));
  const definition = { resource: CUSTOM_RESOURCE_DEFINITIONS, name: metadata.name };
  await mergePatch(client, definition, { body: { spec: { versions } }, signal });
  await sleep(clock, KNOWN_MS, signal);
}

async function namesOf(
  resource: Resource,
  { client, clock, signal = new AbortController().signal }: CrdTools,
): Promise<WatchedObject["metadata"][]> {
  const objects: WatchedObject["metadata"][] = [];
  const options = { client, clock, signal, unpaged: false };
  await listObjects({ resource, metadataOnly: true }, options, ({ metadata }) => void objects.push(metadata));
  return objects;
}

/** Called with each object that is done; tells how many are, at first and every few seconds. */
function teller(what: string, all: number, { clock, tell }: CrdTools): () => void {
  let done = 0;
  let toldAt = clock.monotonic();
  const progress = (): void => tell?.(`Rewrites ${count(done)} of ${count(all)} ${what}`);
  progress();
  return () => {
    done += 1;
    if (clock.monotonic() - toldAt < TELL_MS) return;
    toldAt = clock.monotonic();
    progress();
  };
}

function count(number: number): string {
  return number.toLocaleString("en-US");
}
