/**
 * Objects that helm creates as hooks: helm deletes or overwrites existing objects of their names and never annotates its own,
 * so the records of the release decide which of them are its own (docs/guides/running.md, "Taking over").
 */

import { BrokenRecordError } from "../binary/helm-errors.ts";
import type { Reconciler } from "../types.ts";
import type { Owner } from "./live-objects.ts";
import { documentsOf, hookObjects, keyIn, type HookObject, type ObjectRef } from "../manifest/manifest.ts";
import type { HookRecord, ReleaseRecord } from "../release/record.ts";
import type { ReleaseMeta } from "../release/revisions.ts";
import { claim, describeWithOwner, liveObjects, MOST_LOGGED, refuseUnlessAllowed } from "./ownership.ts";
import type { LiveObject, TakeoverRequest } from "./ownership.ts";

type Tools = Pick<
  Reconciler,
  | "client"
  | "discovery"
  | "namespace"
  | "operator"
  | "store"
  | "isOurs"
  | "hasModule"
  | "keepsObjects"
  | "logger"
  | "recorder"
>;

/** The operation of helm, and the hooks of the chart, rendered or stored. */
export interface HookRun {
  readonly verb: "install" | "upgrade" | "rollback" | "delete";
  readonly hooks: readonly HookObject[];
}

/**
 * Before helm runs hooks: refuses to replace existing objects that no hook of this release, or of a release without a
 * module, has created. Throws ExistingObjectsError with nothing changed; ApiError.
 */
export async function guardHookObjects(
  tools: Tools,
  request: TakeoverRequest & { readonly signal?: AbortSignal | undefined },
  { verb, hooks }: HookRun,
): Promise<void> {
  const { module, signal } = request;
  const due = hooks.filter(({ events }) => events.includes(`pre-${verb}`) || events.includes(`post-${verb}`));
  const existing = await liveObjects(
    tools,
    due.map(({ ref }) => ref),
    signal,
  );
  const objects = await notCreatedBy(tools, module.name, { existing, signal });
  refuseUnlessAllowed(tools, request, { what: "hooks of the chart (helm.sh/hook) would replace", objects });
  if (objects.length === 0) return;
  const named = objects.map(describeWithOwner).slice(0, MOST_LOGGED);
  tools.logger.warn("Existing objects are replaced by hooks of the chart", {
    module: module.name,
    objects: named,
  });
  tools.recorder?.tookOver(module.name, named);
  for (const object of objects) await claim(tools, object, { release: module.name, signal });
}

/**
 * Before the records of a release are deleted: annotates the remaining objects of its hooks with the release, so that a
 * later release of this name may replace them. Throws ApiError.
 */
export async function claimHookLeftovers(tools: Tools, release: string): Promise<void> {
  const newest = tools.store.get(release);
  if (newest === undefined) return;
  const hooks = await hooksOf(tools, newest);
  const existing = await liveObjects(
    tools,
    hooks.map(({ ref }) => ref),
    undefined,
  );
  const unmarked = existing.filter(({ owner }) => owner === undefined);
  const created = await createdBy(tools, release, { existing: unmarked });
  for (const object of created) await claim(tools, object, { release, signal: undefined });
}

/** The hook objects of a revision; none where its record is unreadable. */
async function hooksOf({ store }: Tools, meta: ReleaseMeta): Promise<readonly HookObject[]> {
  try {
    return (await store.summary(meta)).hooks;
  } catch (error) {
    if (error instanceof BrokenRecordError) return [];
    throw error;
  }
}

interface Existing {
  readonly existing: readonly LiveObject[];
  readonly signal?: AbortSignal | undefined;
}

/** Objects that are neither annotated with the release nor created by its hooks. Objects of a renamed module's old release count as its own. */
async function notCreatedBy(
  tools: Tools,
  release: string,
  { existing, signal }: Existing,
): Promise<LiveObject[]> {
  const isFormer = (name: string): boolean =>
    tools.isOurs(name) && !tools.hasModule(name) && !tools.keepsObjects(name);
  const isOwn = (owner: Owner): boolean =>
    owner.release === release
      ? owner.namespace === tools.namespace
      : owner.namespace === tools.store.namespaceOf(owner.release) && isFormer(owner.release);
  let unmarked = existing.filter(({ owner }) => owner === undefined);
  const former = tools.store.all().map(({ name }) => name);
  for (const name of [release, ...former.filter((each) => each !== release && isFormer(each))]) {
    const created = await createdBy(tools, name, { existing: unmarked, signal });
    unmarked = unmarked.filter((each) => !created.includes(each));
  }
  return existing.filter((each) => (each.owner === undefined ? unmarked.includes(each) : !isOwn(each.owner)));
}

/** Objects that hooks of the release created and did not delete, by the newest revision in which each hook ran. */
async function createdBy(
  tools: Tools,
  release: string,
  { existing, signal }: Existing,
): Promise<LiveObject[]> {
  const created: LiveObject[] = [];
  let unknown = existing;
  for (const meta of tools.store.revisions(release)) {
    if (unknown.length === 0) break;
    const ran = ranIn(await tools.store.record(meta, signal), meta);
    created.push(...unknown.filter(({ ref }) => ran.get(keyOf(ref, tools.namespace)) === "left"));
    unknown = unknown.filter(({ ref }) => !ran.has(keyOf(ref, tools.namespace)));
  }
  return created;
}

/** For each hook that ran in a revision, whether its object still exists. */
function ranIn({ hooks }: ReleaseRecord, meta: ReleaseMeta): Map<string, "left" | "deleted"> {
  const ran = hooks.filter(({ startedAt }) => startedAt !== undefined);
  return new Map(
    ran.flatMap((hook) =>
      hookObjects(documentsOf(hook.manifest)).map(
        ({ ref }) => [keyOf(ref, meta.namespace), isDeleted(hook, meta) ? "deleted" : "left"] as const,
      ),
    ),
  );
}

/** Whether helm deleted a hook's object. In a failed revision, not every version of helm deletes objects of hooks that succeeded. */
function isDeleted({ phase = "", deletePolicies }: HookRecord, { status }: ReleaseMeta): boolean {
  const policy = `hook-${phase.toLowerCase()}`;
  return status !== "failed" && deletePolicies.includes(policy);
}

/** A key that is the same for all versions of a kind. */
function keyOf(ref: ObjectRef, namespace: string): string {
  const [group = "", version] = ref.apiVersion.split("/");
  return keyIn(namespace, { ...ref, apiVersion: version === undefined ? "" : group });
}
