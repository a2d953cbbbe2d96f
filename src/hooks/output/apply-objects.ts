/** Applies the object operations that a hook leaves (docs/reference/hooks.md, "Objects"). */

import { create, get, isAlreadyExists, isNotFound, jsonPatch, mergePatch, remove } from "../../kube/index.ts";
import { replace, retryConflicts } from "../../kube/index.ts";
import type { Discovery, KubeClient, Propagation, Resource, Target } from "../../kube/index.ts";
import type { FilterEngine } from "../../filter/index.ts";
import { canonicalJson, KnownSecrets, oneLine, sleep, type Clock } from "../../lib/index.ts";
import { isJsonObject, type Json, type JsonObject } from "../../model/index.ts";
import type { ObjectOperation } from "./object-operations.ts";

export interface PatcherOptions {
  readonly client: KubeClient;
  readonly discovery: Pick<Discovery, "resolve">;
  readonly filters: Pick<FilterEngine, "compile">;
  readonly clock: Clock;
}

const CONFLICT_TRIES = 5;
const DELETE_CHECK_MS = 200;
const DELETE_TIMEOUT_MS = 20_000;

/**
 * Applies the object operations of a hook run in order. After an error it still tries the later operations; any
 * error fails the run. The next attempt repeats all operations, so they must be idempotent.
 */
export async function applyObjects(
  options: PatcherOptions,
  operations: readonly ObjectOperation[],
): Promise<void> {
  const errors: string[] = [];
  for (const operation of operations) {
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
  const at: ResolvedTarget = { resource, namespace, name };
  if ("object" in operation) return createObject(options, at, operation);
  if (isDeletion(operation)) return deleteObject(options, at, operation.operation);
  return patchObject(options, at, operation);
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
  at: ResolvedTarget,
  operation: Creation,
): Promise<void> {
  try {
    await create(client, { resource: at.resource, namespace: at.namespace }, { body: operation.object });
  } catch (error) {
    if (!isAlreadyExists(error) || operation.operation === "Create") throw error;
    if (operation.operation === "CreateOrUpdate") await replaceObject(client, at, () => operation.object);
  }
}

/** Replaces an existing object (PUT); retries after a conflict. */
async function replaceObject(
  client: KubeClient,
  at: ResolvedTarget & { readonly subresource?: string | undefined },
  next: (before: JsonObject) => JsonObject | undefined | Promise<JsonObject | undefined>,
): Promise<void> {
  await retryConflicts(CONFLICT_TRIES, async () => {
    const before = await get(client, { resource: at.resource, namespace: at.namespace, name: at.name });
    const body = await next(before);
    if (body !== undefined) await replace(client, at, { body: withResourceVersion(body, before) });
  });
}

/** The new object with the resourceVersion of the old one, so that the API server refuses it after a concurrent change. */
function withResourceVersion(body: JsonObject, before: JsonObject): JsonObject {
  const metadata = isJsonObject(body["metadata"]) ? body["metadata"] : {};
  const old = isJsonObject(before["metadata"]) ? before["metadata"] : {};
  return { ...body, metadata: { ...metadata, resourceVersion: old["resourceVersion"] } };
}

const PROPAGATION: Readonly<Record<"Delete" | "DeleteInBackground" | "DeleteNonCascading", Propagation>> = {
  Delete: "Foreground",
  DeleteInBackground: "Background",
  DeleteNonCascading: "Orphan",
};

/** `Delete` waits up to 20 s until the object is deleted; other delete operations do not wait. A missing object counts as deleted. */
async function deleteObject(
  options: PatcherOptions,
  at: ResolvedTarget,
  operation: keyof typeof PROPAGATION,
): Promise<void> {
  const { client, clock } = options;
  try {
    await remove(client, at, { propagationPolicy: PROPAGATION[operation] });
    if (operation !== "Delete") return;
    const until = clock.monotonic() + DELETE_TIMEOUT_MS;
    while (clock.monotonic() < until) {
      await get(client, at);
      await sleep(clock, DELETE_CHECK_MS);
    }
  } catch (error) {
    if (isNotFound(error)) return;
    throw error;
  }
  throw new Error("still exists after 20s");
}

/** Patches an object. A missing object is an error unless the hook ignores that. */
async function patchObject(
  options: PatcherOptions,
  at: ResolvedTarget,
  operation: ObjectPatch,
): Promise<void> {
  const target = { ...at, subresource: operation.target.subresource };
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
async function patchWithJq(options: PatcherOptions, at: ResolvedTarget, filter: string): Promise<void> {
  const compiled = await options.filters.compile(filter);
  await replaceObject(options.client, at, async (before) => {
    const after = await compiled.evaluate(before);
    if (!isJsonObject(after)) throw new Error("the filter's result is no object");
    return canonicalJson(after) === canonicalJson(before) ? undefined : after;
  });
}
