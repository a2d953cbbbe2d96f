/** Writes objects anew in the version that a new definition stores them in. */

import { inParallel } from "../../lib/index.ts";
import {
  CUSTOM_RESOURCE_DEFINITIONS,
  ignoreNotFound,
  listObjects,
  mergePatch,
  type WatchedObject,
} from "../../kube/index.ts";
import { ProblemError } from "../../model/index.ts";
import { resourceIn, storageVersion, type CrdFile, type CrdTools, type StoredCrd } from "./crd.ts";

/** Objects written at the same time. */
const AT_ONCE = 8;

/**
 * Leaves no object in a version that `next` drops: the definition in force stores the version that `next` stores, each
 * object is written unchanged, and the CRD's record of stored versions says so. May be repeated after any failure. Throws
 * ProblemError where the definition in force does not know that version, ApiError, ConnectionError.
 */
export async function migrate({ file, crd }: CrdFile, live: StoredCrd, tools: CrdTools): Promise<void> {
  const { client, clock, signal } = tools;
  const version = storageVersion(crd);
  const { spec, metadata } = live;
  if (version === undefined || !spec.versions.some(({ name }) => name === version)) {
    const message = `stores version ${version}, which the definition in force does not have: objects cannot be converted`;
    throw new ProblemError([{ file, message, remedy: "take a definition that has both versions first" }]);
  }
  const definition = { resource: CUSTOM_RESOURCE_DEFINITIONS, name: metadata.name };
  const versions = spec.versions.map((each) => ({
    ...each,
    storage: each.name === version,
    served: each.served || each.name === version,
  }));
  await mergePatch(client, definition, { body: { spec: { versions } }, signal });
  const resource = resourceIn(spec, version);
  const objects: WatchedObject["metadata"][] = [];
  const options = { client, clock, signal: signal ?? new AbortController().signal, unpaged: false };
  await listObjects(
    { resource, metadataOnly: true },
    options,
    ({ metadata: each }) => void objects.push(each),
  );
  await inParallel(AT_ONCE, objects, async ({ namespace, name }) => {
    const target = { resource, namespace, name };
    await mergePatch(client, target, { body: {}, signal }).catch(ignoreNotFound);
  });
  const status = { ...definition, subresource: "status" };
  await mergePatch(client, status, { body: { status: { storedVersions: [version] } }, signal });
}
