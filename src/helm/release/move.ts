/** Moves a release to another namespace without touching its objects (docs/guides/tenancy.md, "Move a release"). */

import { create, get, ignoreNotFound, isAlreadyExists, replace, type Secret } from "../../kube/index.ts";
import { mapInParallel } from "../../lib/index.ts";
import type { JsonObject } from "../../model/index.ts";
import { withNamespaces } from "../manifest/edit-manifest.ts";
import { parseDocuments, listObjectRefs } from "../manifest/manifest.ts";
import { loadNamespacedTest } from "../objects/namespaced-kinds.ts";
import { MAX_PARALLEL_REQUESTS, claimObject, readLiveObjects } from "../objects/ownership.ts";
import type { Reconciler } from "../types.ts";
import { changeEncodedRecord, readEncodedRecord, secretRef, withSecretInError } from "./record.ts";
import { findComparedRevisions, isPendingStatus, LABELS, type ReleaseMeta } from "./revisions.ts";

/** A release, and the namespaces between which it moves. */
interface Move {
  readonly release: string;
  readonly from: string;
  readonly to: string;
  readonly signal: AbortSignal;
}

/**
 * Moves a release: copies its records, annotates its objects with the new owner, then deletes the old records, each oldest first.
 * The newest old record shows until the end that the move is not complete, and each step can be repeated. Throws
 * BrokenRecordError, ApiError, ConnectionError.
 */
export async function moveRelease(tools: Reconciler, move: Move): Promise<void> {
  const { store, helm, logger } = tools;
  const { release, from, to, signal } = move;
  await Promise.all([store.waitUntilListed(from), store.waitUntilListed(to)]);
  const refresh = () => Promise.all([from, to].map((each) => store.refreshIn(each, release, signal)));
  await refresh();
  const isPending = isPendingStatus(store.revisionsIn(from, release)[0]?.status ?? "");
  // A helm that still works would write to the old records.
  if (isPending) await helm.endOrphanedProcesses(signal, release).then(refresh);
  const revisions = store.revisionsIn(from, release);
  const [newest] = revisions;
  const [copied] = store.revisionsIn(to, release);
  logger.warn("Moving a release to another namespace", { release, from, to });
  if (newest !== undefined && newest.revision > (copied?.revision ?? 0))
    for (const meta of revisions.toReversed()) await copyRecord(tools, meta, move);
  await claimObjects(tools, findComparedRevisions(revisions), move);
  await store.deleteRecords(release, signal, from);
  await store.refreshIn(to, release, signal);
}

/**
 * Copies the record of a revision. Objects that inherit the namespace of the release get it explicitly, so that they stay where
 * they are until an upgrade replaces them.
 */
async function copyRecord(
  { store, operator, discovery }: Reconciler,
  meta: ReleaseMeta,
  { to, signal }: Move,
): Promise<void> {
  const manifests = await store.readManifests(meta, signal);
  const isNamespaced = await loadNamespacedTest(discovery, manifests);
  const mapManifests = (manifest: string): string => withNamespaces(manifest, meta.namespace, isNamespaced);
  const { client } = operator;
  const secret = await get<Secret>(client, secretRef(meta), { signal });
  const encoded = readEncodedRecord(meta, secret as unknown as JsonObject);
  const release = await withSecretInError(
    meta,
    changeEncodedRecord(encoded, { namespace: to, mapManifests }),
  );
  // They describe the old inputs and the old manifest.
  const { [LABELS.inputs]: _, [LABELS.manifest]: __, ...labels } = secret.metadata.labels ?? {};
  const metadata = { name: meta.secret, namespace: to, labels };
  const body = { apiVersion: "v1", kind: "Secret", type: secret.type, metadata, data: { release } };
  const target = { ...secretRef(meta), namespace: to };
  await create(client, { ...target, name: undefined }, { body, signal }).catch((error: unknown) => {
    if (!isAlreadyExists(error)) throw error;
    return replace(client, target, { body, signal });
  });
}

/** Annotates the objects of the moving release with its new namespace, so that helm accepts them there. */
async function claimObjects(
  tools: Reconciler,
  revisions: readonly ReleaseMeta[],
  { release, from, to, signal }: Move,
): Promise<void> {
  for (const meta of revisions) {
    const [manifest = ""] = await tools.store.readManifests(meta, signal);
    const live = await readLiveObjects(
      { ...tools, namespace: from },
      listObjectRefs(parseDocuments(manifest)),
      signal,
    );
    const own = live.filter(({ owner }) => owner?.release === release && owner.namespace === from);
    await mapInParallel(MAX_PARALLEL_REQUESTS, own, (object) =>
      claimObject({ ...tools, namespace: to }, object, { release, signal }).catch(ignoreNotFound),
    );
  }
}
