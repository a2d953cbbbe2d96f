/** Reads, writes and watches AddonModules and the AddonOperator on the server. */

import { helmMarks, LABELS } from "../../helm/index.ts";
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
import { endedAnnotations, liveFrom, statusPatch, wantedStatus } from "./mirrored.ts";
import type { ObjectId, StoredObject, MirroredObject, Need, OwnerMarks, PatchStep } from "./mirrored.ts";
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
const CALL_TIMEOUT_MS = 10_000;

const callOf = ({ signal }: StatusClient) => ({ signal, timeoutMs: CALL_TIMEOUT_MS });

/** Reads all objects of one kind; a missing CRD is an ApiError with status 404. */
export async function listStatusObjects(
  api: StatusClient,
  kind: ObjectId["kind"],
): Promise<{ items: WatchedObject[]; resourceVersion: string }> {
  const path = pathOf(RESOURCES[kind], { namespace: api.namespace });
  const { client, signal } = api;
  const list = await client.json<{ items: WatchedObject[]; metadata?: { resourceVersion?: string } }>({
    path,
    signal,
    timeoutMs: 30_000,
  });
  return {
    items: list.items.map((item) => ({ ...item, kind })),
    resourceVersion: list.metadata?.resourceVersion ?? "",
  };
}

/** Sends the one write that an object needs, and returns the object afterwards; undefined = it is deleted. Throws API errors. */
export async function takeStep(
  api: StatusClient,
  mirrored: MirroredObject,
  step: { need: Exclude<Need, "none">; marks: OwnerMarks },
): Promise<StoredObject | undefined> {
  const target = targetOf(api, mirrored.id);
  const options = callOf(api);
  if (step.need === "create" || mirrored.live === undefined) return createObject(api, mirrored, step.marks);
  if (step.need === "status") return writeStatus(api, mirrored, step.marks);
  // With optimistic concurrency: another operator may own the object by now, or it may have other owners.
  const { uid, resourceVersion, otherOwners } = mirrored.live;
  if (step.need === "remove") {
    const preconditions = { uid, resourceVersion };
    await remove(api.client, target, { ...options, preconditions }).catch(ignoreNotFound);
    return undefined;
  }
  const ended = endedAnnotations(mirrored.live, mirrored).map((name) => [name, null]);
  const annotations = ended.length === 0 ? {} : { annotations: Object.fromEntries(ended) as object };
  const metadata = { resourceVersion, ...annotations, ...ownedMeta(api, step.marks, otherOwners) };
  const body = { metadata, spec: mirrored.spec };
  return liveFrom(await mergePatch<IAddonModule>(api.client, target, { ...options, body }));
}

/** The object as it is on the server now; undefined = none. */
export async function readObject(api: StatusClient, id: ObjectId): Promise<StoredObject | undefined> {
  const object = await get<AddonObject>(api.client, targetOf(api, id), callOf(api)).catch(ignoreNotFound);
  return object === undefined ? undefined : liveFrom(object);
}

/** Writes the status by a JSON patch. The result contains which fields the server dropped. */
async function writeStatus(
  api: StatusClient,
  mirrored: MirroredObject,
  marks: OwnerMarks,
): Promise<StoredObject> {
  const { live, id } = mirrored;
  if (live === undefined) throw new Error("a status needs its object");
  const wanted = wantedStatus(mirrored, live);
  const steps = statusPatch(live.status, wanted);
  const body = id.kind === "AddonModule" ? [testStillOurs(marks), ...steps] : steps;
  const target: Target = { ...targetOf(api, id), subresource: "status" };
  const answer = await jsonPatch<AddonObject>(api.client, target, { ...callOf(api), body });
  const after = liveFrom(answer);
  const dropped = new Set(statusPatch(after.status, wanted).map((step) => step.path));
  // An older CRD drops unknown fields: these are not written again. Any other difference is a concurrent edit.
  const mayDiffer = new Set([...steps.map((step) => step.path), ...(live.dropped ?? [])]);
  const isStored = mayDiffer.has("/status") || [...dropped].every((path) => mayDiffer.has(path));
  return isStored ? { ...after, status: wanted, dropped } : after;
}

/** A patch step that fails if the object has meanwhile got the label of another operator. */
function testStillOurs({ labels }: OwnerMarks): PatchStep {
  const path = toPointer(["metadata", "labels", LABELS.managedBy]);
  return { op: "test", path, value: labels[LABELS.managedBy] ?? "" };
}

/** Creates the object; if it exists already, reads it instead. */
async function createObject(
  api: StatusClient,
  mirrored: MirroredObject,
  marks: OwnerMarks,
): Promise<StoredObject | undefined> {
  const body = mirrored.id.kind === "AddonModule" ? newModule(api, mirrored, marks) : newOperator(api);
  const { name: _, ...collection } = targetOf(api, mirrored.id);
  try {
    return liveFrom(await create<AddonObject>(api.client, collection, { ...callOf(api), body }));
  } catch (error) {
    if (isAlreadyExists(error)) return readObject(api, mirrored.id);
    throw error;
  }
}

function newModule(api: StatusClient, mirrored: MirroredObject, marks: OwnerMarks): unknown {
  const metadata = { name: mirrored.id.name, namespace: api.namespace, ...ownedMeta(api, marks) };
  return new AddonModule({
    metadata,
    ...(mirrored.spec === undefined ? {} : { spec: mirrored.spec }),
  }).toJSON();
}

/** The AddonOperator with the marks of the operator's helm release, so that helm can adopt it. */
function newOperator(api: StatusClient): unknown {
  const release = api.helmRelease;
  const marks: Pick<NamedMeta, "labels" | "annotations"> =
    release === undefined ? { labels: MANAGED_BY_OPERATOR } : helmMarks(release.name, release.namespace);
  const object: Omit<IAddonOperator, "apiVersion" | "kind"> = {
    metadata: { name: api.operatorName, namespace: api.namespace, ...marks },
    spec: {},
  };
  return new AddonOperator(object).toJSON();
}

/** Labels and owner references of an AddonModule. `others` are references that other owners have set. */
function ownedMeta(
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

function targetOf(api: StatusClient, { kind, name }: ObjectId): Target {
  return { resource: RESOURCES[kind], namespace: api.namespace, name };
}
