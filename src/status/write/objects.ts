/** Reads, writes and watches AddonModules and the AddonOperator on the server. */

import { helmMetadata, LABELS } from "../../helm/index.ts";
import {
  MANAGED_BY_OPERATOR,
  type KubeClient,
  type NamedMeta,
  type OwnerReference,
  type Target,
  type WatchedObject,
  create,
  get,
  ignoreNotFound,
  isAlreadyExists,
  jsonPatch,
  mergePatch,
  pathOf,
  remove,
} from "../../kube/index.ts";
import { toPointer } from "../../lib/index.ts";
import { findAnnotationsToRemove, toStoredObject, buildStatusPatch, buildWantedStatus } from "./mirrored.ts";
import type { ObjectId, StoredObject, MirroredObject, NextStep, OwnerMarks, PatchStep } from "./mirrored.ts";
import { AddonModule, type IAddonModule } from "../models/addon-module.ts";
import { AddonOperator, type IAddonOperator } from "../models/addon-operator.ts";
import { ADDON_MODULES, ADDON_OPERATORS, API_VERSION, type AddonObject } from "../models/kinds.ts";

/** The helm release of the operator's own chart, which can then take over an AddonOperator that was created here. */
export interface HelmRelease {
  readonly name: string;
  readonly namespace: string;
}

/** Where the objects are and which operator they belong to. */
export interface StatusClient {
  readonly client: KubeClient;
  readonly namespace: string;
  /** Name of the AddonOperator: the ConfigMap's. */
  readonly operatorName: string;
  readonly helmRelease?: HelmRelease | undefined;
  readonly signal: AbortSignal;
}

export const RESOURCES = { AddonModule: ADDON_MODULES, AddonOperator: ADDON_OPERATORS };
/** Limit of one read or write of one object. */
const CALL_TIMEOUT_MS = 10_000;
const LIST_TIMEOUT_MS = 30_000;

/** Options of each call: it ends with the operator, and after a limited time. */
const callOptions = ({ signal }: StatusClient) => ({ signal, timeoutMs: CALL_TIMEOUT_MS });

/** Lists all objects of one kind in the namespace. Throws an ApiError with status 404 if the CRD is missing. */
export async function listStatusObjects(
  api: StatusClient,
  kind: ObjectId["kind"],
): Promise<{ items: WatchedObject[]; resourceVersion: string }> {
  const { client, namespace, signal } = api;
  const request = { path: pathOf(RESOURCES[kind], { namespace }), signal, timeoutMs: LIST_TIMEOUT_MS };
  const list = await client.json<{ items: WatchedObject[]; metadata?: { resourceVersion?: string } }>(
    request,
  );
  return {
    // The server leaves out the kind of the items of a list.
    items: list.items.map((item) => ({ ...item, kind })),
    resourceVersion: list.metadata?.resourceVersion ?? "",
  };
}

/**
 * Executes one step for an object: creates it, removes it, or writes its status or its metadata and spec. Returns the object
 * as it is afterwards; undefined = it is deleted. Throws API errors.
 */
export async function executeStep(
  api: StatusClient,
  mirrored: MirroredObject,
  step: { need: Exclude<NextStep, "none">; marks: OwnerMarks },
): Promise<StoredObject | undefined> {
  if (step.need === "create" || mirrored.liveObject === undefined)
    return createObject(api, mirrored, step.marks);
  if (step.need === "status") return writeStatus(api, mirrored, step.marks);
  const target = buildTarget(api, mirrored.id);
  const options = callOptions(api);
  // Optimistic concurrency by resourceVersion: another operator may own the object by now, or it may have other owners.
  const { uid, resourceVersion, otherOwners } = mirrored.liveObject;
  if (step.need === "remove") {
    const preconditions = { uid, resourceVersion };
    await remove(api.client, target, { ...options, preconditions }).catch(ignoreNotFound);
    return undefined;
  }
  const metadata = { resourceVersion, ...buildOwnerMetadata(api, step.marks, otherOwners) };
  const namesToRemove = findAnnotationsToRemove(mirrored.liveObject, mirrored);
  // In a merge patch, null removes a member.
  const annotations = Object.fromEntries(namesToRemove.map((name) => [name, null]));
  const body = {
    metadata: namesToRemove.length === 0 ? metadata : { ...metadata, annotations },
    spec: mirrored.wantedSpec,
  };
  return toStoredObject(await mergePatch<IAddonModule>(api.client, target, { ...options, body }));
}

/** Reads the object from the server; undefined if it does not exist. */
export async function readObject(api: StatusClient, id: ObjectId): Promise<StoredObject | undefined> {
  const answer = get<AddonObject>(api.client, buildTarget(api, id), callOptions(api));
  const object = await answer.catch(ignoreNotFound);
  return object === undefined ? undefined : toStoredObject(object);
}

/**
 * Writes the status by a JSON patch. An older CRD drops fields that it does not know: the result remembers the wanted status
 * and the dropped paths, so that the fields are not written again and again.
 */
async function writeStatus(
  api: StatusClient,
  mirrored: MirroredObject,
  marks: OwnerMarks,
): Promise<StoredObject> {
  const { liveObject, id } = mirrored;
  if (liveObject === undefined) throw new Error("a status needs its object");
  const wanted = buildWantedStatus(mirrored, liveObject);
  const steps = buildStatusPatch(liveObject.status, wanted);
  const body = id.kind === "AddonModule" ? [buildOwnershipTest(marks), ...steps] : steps;
  const target: Target = { ...buildTarget(api, id), subresource: "status" };
  const answer = await jsonPatch<AddonObject>(api.client, target, { ...callOptions(api), body });
  const after = toStoredObject(answer);
  const dropped = new Set(buildStatusPatch(after.status, wanted).map((step) => step.path));
  // Only paths that were just written or were dropped before may differ. Any other difference is a concurrent edit.
  const mayDiffer = new Set([...steps.map((step) => step.path), ...(liveObject.dropped ?? [])]);
  const isStored = mayDiffer.has("/status") || [...dropped].every((path) => mayDiffer.has(path));
  return isStored ? { ...after, status: wanted, dropped } : after;
}

/** A test operation that makes the patch fail if the object has the label of another operator by now. */
function buildOwnershipTest({ labels }: OwnerMarks): PatchStep {
  const path = toPointer(["metadata", "labels", LABELS.managedBy]);
  return { op: "test", path, value: labels[LABELS.managedBy] ?? "" };
}

/** Creates the object; if it exists already, reads it instead. */
async function createObject(
  api: StatusClient,
  mirrored: MirroredObject,
  marks: OwnerMarks,
): Promise<StoredObject | undefined> {
  const body =
    mirrored.id.kind === "AddonModule" ? buildNewModule(api, mirrored, marks) : buildNewOperator(api);
  const { name: _, ...collection } = buildTarget(api, mirrored.id);
  try {
    return toStoredObject(await create<AddonObject>(api.client, collection, { ...callOptions(api), body }));
  } catch (error) {
    if (isAlreadyExists(error)) return readObject(api, mirrored.id);
    throw error;
  }
}

/** The AddonModule to create. It has no status, because a create ignores the status. */
function buildNewModule(api: StatusClient, mirrored: MirroredObject, marks: OwnerMarks): unknown {
  const metadata = { name: mirrored.id.name, namespace: api.namespace, ...buildOwnerMetadata(api, marks) };
  return new AddonModule({
    metadata,
    ...(mirrored.wantedSpec === undefined ? {} : { spec: mirrored.wantedSpec }),
  }).toJSON();
}

/** The AddonOperator to create, with the labels and annotations of the operator's helm release, so that helm can adopt it. */
function buildNewOperator(api: StatusClient): unknown {
  const release = api.helmRelease;
  const marks: Pick<NamedMeta, "labels" | "annotations"> =
    release === undefined ? { labels: MANAGED_BY_OPERATOR } : helmMetadata(release.name, release.namespace);
  const object: Omit<IAddonOperator, "apiVersion" | "kind"> = {
    metadata: { name: api.operatorName, namespace: api.namespace, ...marks },
    spec: {},
  };
  return new AddonOperator(object).toJSON();
}

/**
 * Labels and owner references of an AddonModule; the AddonOperator becomes an owner once its uid is known. `others` are the
 * owner references that others have set, which stay.
 */
function buildOwnerMetadata(
  api: StatusClient,
  marks: OwnerMarks,
  others: readonly OwnerReference[] = [],
): Pick<NamedMeta, "labels" | "ownerReferences"> {
  if (marks.ownerUid === undefined) return { labels: marks.labels };
  const owner: OwnerReference = {
    apiVersion: API_VERSION,
    kind: "AddonOperator",
    name: api.operatorName,
    uid: marks.ownerUid,
    // An object can have one controller only.
    controller: !others.some(({ controller }) => controller === true),
    blockOwnerDeletion: false,
  };
  return { labels: marks.labels, ownerReferences: [...others, owner] };
}

function buildTarget(api: StatusClient, { kind, name }: ObjectId): Target {
  return { resource: RESOURCES[kind], namespace: api.namespace, name };
}
