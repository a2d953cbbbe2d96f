/** Moves a release to another namespace without touching its objects (docs/guides/tenancy.md, "Move a release"). */

import { create, get, ignoreNotFound, isAlreadyExists, replace, type Secret } from "../../kube/index.ts";
import { mapInParallel } from "../../lib/index.ts";
import type { JsonObject } from "../../model/index.ts";
import { withNamespaces } from "../manifest/edit-manifest.ts";
import { documentsOf, objectsOf } from "../manifest/manifest.ts";
import { namespacedKinds } from "../objects/namespaced-kinds.ts";
import { AT_ONCE, claim, liveObjects } from "../objects/ownership.ts";
import type { Reconciler } from "../types.ts";
import { encodeChanged } from "./record.ts";
import { encodedIn, orBrokenRecord, secretRef } from "./record-secret.ts";
import { comparedRevisions, isUnfinished, LABELS, type ReleaseMeta } from "./revisions.ts";

/** A release, and the namespaces between which it moves. */
interface Move {
  readonly release: string;
  readonly from: string;
  readonly to: string;
  readonly signal: AbortSignal;
}

/**
 * Copies the records, oldest first, then annotates the objects with the new owner, then deletes the old records, oldest first.
 * So the newest old record shows until the end that the move is not done, and each step can be repeated. Throws
 * BrokenRecordError, ApiError, ConnectionError.
 */
export async function moveRelease(tools: Reconciler, move: Move): Promise<void> {
  const { store, helm, logger } = tools;
  const { release, from, to, signal } = move;
  await Promise.all([store.known(from), store.known(to)]);
  const refresh = () => Promise.all([from, to].map((each) => store.refreshIn(each, release, signal)));
  await refresh();
  const isPending = isUnfinished(store.revisionsIn(from, release)[0]?.status ?? "");
  // A helm that still works would write to the old records.
  if (isPending) await helm.endLeftOver(signal, release).then(refresh);
  const revisions = store.revisionsIn(from, release);
  const [newest] = revisions;
  const [copied] = store.revisionsIn(to, release);
  logger.warn("Moving a release to another namespace", { release, from, to });
  if (newest !== undefined && newest.revision > (copied?.revision ?? 0))
    for (const meta of revisions.toReversed()) await copy(tools, meta, move);
  await claimObjects(tools, comparedRevisions(revisions), move);
  await store.forget(release, signal, from);
  await store.refreshIn(to, release, signal);
}

/**
 * Copies the record of a revision. Objects that inherit the namespace of the release get it explicitly, so that they stay where
 * they are until an upgrade replaces them.
 */
async function copy(
  { store, operator, discovery }: Reconciler,
  meta: ReleaseMeta,
  { to, signal }: Move,
): Promise<void> {
  const manifests = await store.manifests(meta, signal);
  const isNamespaced = await namespacedKinds(discovery, manifests);
  const mapManifests = (manifest: string): string => withNamespaces(manifest, meta.namespace, isNamespaced);
  const { client } = operator;
  const secret = await get<Secret>(client, secretRef(meta), { signal });
  const encoded = encodedIn(meta, secret as unknown as JsonObject);
  const release = await orBrokenRecord(meta, encodeChanged(encoded, { namespace: to, mapManifests }));
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

/** Annotates the objects of the old release with the new one, as the module's account. */
async function claimObjects(
  tools: Reconciler,
  revisions: readonly ReleaseMeta[],
  { release, from, to, signal }: Move,
): Promise<void> {
  for (const meta of revisions) {
    const [manifest = ""] = await tools.store.manifests(meta, signal);
    const live = await liveObjects({ ...tools, namespace: from }, objectsOf(documentsOf(manifest)), signal);
    const own = live.filter(({ owner }) => owner?.release === release && owner.namespace === from);
    await mapInParallel(AT_ONCE, own, (object) =>
      claim({ ...tools, namespace: to }, object, { release, signal }).catch(ignoreNotFound),
    );
  }
}
