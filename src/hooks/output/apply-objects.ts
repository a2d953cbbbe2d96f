/** Applies the object operations that a hook leaves (docs/reference/hooks.md, "Objects"). */

import {
  create,
  get,
  ignoreNotFound,
  isAlreadyExists,
  isNotFound,
  jsonPatch,
  mergePatch,
  remove,
} from "../../kube/index.ts";
import { replace, retryConflicts } from "../../kube/index.ts";
import type { Discovery, KubeClient, Propagation, Resource, Target } from "../../kube/index.ts";
import { findRoundedNumber, type FilterEngine } from "../filter/index.ts";
import { canonicalJson, KnownSecrets, oneLine, sleep, type Clock } from "../../base/index.ts";
import { isJsonObject, objectOf, type Json, type JsonObject } from "../../base/model/index.ts";
import type { ObjectOperation } from "./object-operations.ts";

export interface PatcherOptions {
  readonly client: KubeClient;
  readonly discovery: Pick<Discovery, "resolve">;
  readonly filters: Pick<FilterEngine, "compile">;
  readonly clock: Clock;
  /** Its abort ends the application before the next operation, and the wait for a deletion. */
  readonly signal?: AbortSignal;
}

const CONFLICT_TRIES = 5;
const DELETE_CHECK_MS = 200;
const DELETE_TIMEOUT_MS = 20_000;

/**
 * Applies the object operations of a hook run in order. After an error it still tries the later operations; any
 * error fails the run. The next attempt repeats all operations, so they must be idempotent. Throws the reason of an aborted signal.
 */
export async function applyObjects(
  options: PatcherOptions,
  operations: readonly ObjectOperation[],
): Promise<void> {
  const errors: string[] = [];
  for (const operation of operations) {
    options.signal?.throwIfAborted();
    try {
      await applyOperation(options, operation);
    } catch (error) {
      const { kind, name } = operation.target;
      errors.push(
        `${operation.operation} ${kind} ${name}: ${redactOperationValues(oneLine(error), operation)}`,
      );
    }
  }
  if (errors.length > 0) throw new Error(`object patches failed: ${errors.join("; ")}`);
}

/** The message of a refused operation without the values that the API server quotes. */
function redactOperationValues(message: string, operation: ObjectOperation): string {
  const secrets = new KnownSecrets();
  secrets.register(operation as unknown as Json);
  return secrets.redact(message);
}

/** Finds the resource of the object's kind and carries out one operation. */
async function applyOperation(options: PatcherOptions, operation: ObjectOperation): Promise<void> {
  const { kind, apiVersion, namespace, name } = operation.target;
  const resource = await options.discovery.resolve(kind, apiVersion);
  if (resource === undefined) throw new Error(`the cluster knows no ${apiVersion ?? ""} ${kind}`);
  const target: ResolvedTarget = { resource, namespace, name };
  if ("object" in operation) return createObject(options, target, operation);
  if (isDeletion(operation)) return deleteObject(options, target, operation.operation);
  return patchObject(options, target, operation);
}

type Deletion = Extract<ObjectOperation, { operation: keyof typeof PROPAGATION }>;
type ObjectPatch = Exclude<ObjectOperation, Creation | Deletion>;

function isDeletion(operation: ObjectOperation): operation is Deletion {
  return operation.operation in PROPAGATION;
}

interface ResolvedTarget extends Target {
  readonly resource: Resource;
  readonly name: string;
}

type Creation = Extract<ObjectOperation, { object: JsonObject }>;

/** Creates an object. If it exists: `Create` fails, `CreateOrUpdate` replaces it, `CreateIfNotExists` leaves it. */
async function createObject(
  { client }: PatcherOptions,
  target: ResolvedTarget,
  operation: Creation,
): Promise<void> {
  const { resource, namespace } = target;
  try {
    await create(client, { resource, namespace }, { body: operation.object });
  } catch (error) {
    if (!isAlreadyExists(error) || operation.operation === "Create") throw error;
    if (operation.operation === "CreateOrUpdate") await replaceObject(client, target, () => operation.object);
  }
}

/** Replaces an existing object (PUT) by what `change` makes of it; does nothing if that is undefined. Retries after a conflict. */
async function replaceObject(
  client: KubeClient,
  target: ResolvedTarget & { readonly subresource?: string | undefined },
  change: (current: JsonObject) => JsonObject | undefined | Promise<JsonObject | undefined>,
): Promise<void> {
  const { resource, namespace, name } = target;
  await retryConflicts(CONFLICT_TRIES, async () => {
    const current = await get(client, { resource, namespace, name });
    const changed = await change(current);
    if (changed !== undefined) await replace(client, target, { body: withResourceVersion(changed, current) });
  });
}

/** The changed object with the resourceVersion of the current one, so that the API server refuses it after a concurrent change. */
function withResourceVersion(changed: JsonObject, current: JsonObject): JsonObject {
  const { resourceVersion } = objectOf(current["metadata"]);
  return { ...changed, metadata: { ...objectOf(changed["metadata"]), resourceVersion } };
}

const PROPAGATION: Readonly<Record<"Delete" | "DeleteInBackground" | "DeleteNonCascading", Propagation>> = {
  Delete: "Foreground",
  DeleteInBackground: "Background",
  DeleteNonCascading: "Orphan",
};

/** `Delete` waits up to 20 s until the object is deleted; other delete operations do not wait. A missing object counts as deleted. */
async function deleteObject(
  options: PatcherOptions,
  target: ResolvedTarget,
  operation: keyof typeof PROPAGATION,
): Promise<void> {
  const { client, clock, signal } = options;
  const existed = await remove(client, target, { propagationPolicy: PROPAGATION[operation] });
  if (!existed || operation !== "Delete") return;
  const deadline = clock.monotonic() + DELETE_TIMEOUT_MS;
  while (clock.monotonic() < deadline) {
    if ((await get(client, target).catch(ignoreNotFound)) === undefined) return;
    await sleep(clock, DELETE_CHECK_MS, signal);
    signal?.throwIfAborted();
  }
  throw new Error("still exists after 20s");
}

/** Patches an object. A missing object is an error unless the hook ignores that. */
async function patchObject(
  options: PatcherOptions,
  object: ResolvedTarget,
  operation: ObjectPatch,
): Promise<void> {
  const target = { ...object, subresource: operation.target.subresource };
  try {
    if (operation.operation === "MergePatch")
      await mergePatch(options.client, target, { body: operation.mergePatch });
    else if (operation.operation === "JSONPatch")
      await jsonPatch(options.client, target, { body: operation.jsonPatch });
    else await patchWithJq(options, target, operation.jqFilter);
  } catch (error) {
    if (!isNotFound(error) || !operation.target.ignoreMissingObject) throw error;
  }
}

/** Replaces an object by the result of a jq filter; does nothing if the filter changes nothing. */
async function patchWithJq(options: PatcherOptions, target: ResolvedTarget, filter: string): Promise<void> {
  const compiled = await options.filters.compile(filter);
  await replaceObject(options.client, target, async (current) => {
    const changed = await compiled.evaluate(current);
    if (!isJsonObject(changed)) throw new Error("the filter's result is no object");
    const problem = findRoundedNumber(changed, current);
    if (problem !== undefined) throw new Error(problem);
    return canonicalJson(changed) === canonicalJson(current) ? undefined : changed;
  });
}
