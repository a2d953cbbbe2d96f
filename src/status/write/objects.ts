/** Reads, writes and watches AddonModules and the AddonOperator on the server. */

import { helmMarks, LABELS } from "../../helm/index.ts";
import {
  MADE_HERE,
  type KubeClient,
  type NamedMeta,
  type OwnerReference,
  type Target,
  type WatchConsumer,
  type WatchHub,
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
import { pointerOf } from "../../lib/index.ts";
import { liveFrom, statusPatch, wantedStatus } from "./mirrored.ts";
import type { Identity, LiveObject, MirroredObject, Need, OwnerMarks, PatchStep } from "./mirrored.ts";
import type { StatusMirror } from "./status-mirror.ts";
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

const RESOURCES = { AddonModule: ADDON_MODULES, AddonOperator: ADDON_OPERATORS };
const CALL_TIMEOUT_MS = 10_000;

const callOf = ({ signal }: StatusClient) => ({ signal, timeoutMs: CALL_TIMEOUT_MS });

/** Reads all objects of one kind; a missing CRD is an ApiError with status 404. */
export async function listObjects(
  api: StatusClient,
  kind: Identity["kind"],
): Promise<readonly AddonObject[]> {
  const path = pathOf(RESOURCES[kind], { namespace: api.namespace });
  const { client, signal } = api;
  const list = await client.json<{ items: AddonObject[] }>({ path, signal, timeoutMs: 30_000 });
  return list.items.map((item) => ({ ...item, kind }) as AddonObject);
}

/** Takes one step and returns what is known of the object afterwards; undefined = it is gone. Throws API errors. */
export async function takeStep(
  api: StatusClient,
  mirrored: MirroredObject,
  step: { need: Exclude<Need, "none">; marks: OwnerMarks },
): Promise<LiveObject | undefined> {
  const target = targetOf(api, mirrored.id);
  const options = callOf(api);
  if (step.need === "create" || mirrored.live === undefined) return createObject(api, mirrored, step.marks);
  if (step.need === "status") return writeStatus(api, mirrored, step.marks);
  // Only in the known version: it may be another operator's by now, or have other owners.
  const { uid, resourceVersion, otherOwners } = mirrored.live;
  if (step.need === "remove") {
    const preconditions = { uid, resourceVersion };
    await remove(api.client, target, { ...options, preconditions }).catch(ignoreNotFound);
    return undefined;
  }
  const metadata = { resourceVersion, ...ownedMeta(api, step.marks, otherOwners) };
  const body = { metadata, spec: mirrored.spec };
  return liveFrom(await mergePatch<IAddonModule>(api.client, target, { ...options, body }));
}

/** The object as it is on the server now; undefined = none. */
export async function readObject(api: StatusClient, id: Identity): Promise<LiveObject | undefined> {
  const object = await get<AddonObject>(api.client, targetOf(api, id), callOf(api)).catch(ignoreNotFound);
  return object === undefined ? undefined : liveFrom(object);
}

async function writeStatus(
  api: StatusClient,
  mirrored: MirroredObject,
  marks: OwnerMarks,
): Promise<LiveObject> {
  const { live, id } = mirrored;
  if (live === undefined) throw new Error("a status needs its object");
  const wanted = wantedStatus(mirrored, live);
  const steps = statusPatch(live.status, wanted);
  const body = id.kind === "AddonModule" ? [stillOurs(marks), ...steps] : steps;
  const target: Target = { ...targetOf(api, id), subresource: "status" };
  const answer = await jsonPatch<AddonObject>(api.client, target, { ...callOf(api), body });
  const after = liveFrom(answer);
  const dropped = new Set(statusPatch(after.status, wanted).map((step) => step.path));
  // What the server dropped of what it was sent (an older CRD) is left, or it would be written again and again;
  // anything else that differs is a stranger's edit that came in between.
  const refused = new Set([...steps.map((step) => step.path), ...(live.dropped ?? [])]);
  const isTaken = refused.has("/status") || [...dropped].every((path) => refused.has(path));
  return isTaken ? { ...after, status: wanted, dropped } : after;
}

/** An object that has another operator's label by now is not written. */
function stillOurs({ labels }: OwnerMarks): PatchStep {
  const path = pointerOf(["metadata", "labels", LABELS.managedBy]);
  return { op: "test", path, value: labels[LABELS.managedBy] ?? "" };
}

async function createObject(
  api: StatusClient,
  mirrored: MirroredObject,
  marks: OwnerMarks,
): Promise<LiveObject | undefined> {
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

function newOperator(api: StatusClient): unknown {
  const release = api.helmRelease;
  const marks: Pick<NamedMeta, "labels" | "annotations"> =
    release === undefined ? { labels: MADE_HERE } : helmMarks(release.name, release.namespace);
  const object: Omit<IAddonOperator, "apiVersion" | "kind"> = {
    metadata: { name: api.operatorName, namespace: api.namespace, ...marks },
    spec: {},
  };
  return new AddonOperator(object).toJSON();
}

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

function targetOf(api: StatusClient, { kind, name }: Identity): Target {
  return { resource: RESOURCES[kind], namespace: api.namespace, name };
}

/**
 * Watches the operator's own objects, so that edits by hand are undone and tokens are seen; returns a function that
 * stops it.
 */
export function watchOwnObjects(hub: WatchHub, mirror: StatusMirror, namespace: string): () => void {
  const subscriptions = (["AddonOperator", "AddonModule"] as const).map((kind) => {
    const resource = kind === "AddonModule" ? ADDON_MODULES : ADDON_OPERATORS;
    return hub.subscribe({ resource, namespace }, consumerFor(mirror, kind));
  });
  return () => {
    for (const subscription of subscriptions) subscription.close();
  };
}

function consumerFor(mirror: StatusMirror, kind: Identity["kind"]): WatchConsumer {
  const see = (object: WatchedObject): void => mirror.onObserved(object as unknown as AddonObject);
  let names = new Set<string>();
  return {
    begin: () => void (names = new Set()),
    object: (object) => {
      names.add(object.metadata.name);
      see(object);
    },
    synced: (version) => mirror.onListed(kind, { names, version }),
    applied: see,
    deleted: (object) => mirror.onDeleted(object as unknown as AddonObject),
    putBack: () => mirror.onPutBack(kind),
    relisted: (keys, version) => mirror.onListed(kind, { names: namesOf(keys), version }),
  };
}

function namesOf(keys: ReadonlySet<string>): ReadonlySet<string> {
  return new Set([...keys].map((key) => key.slice(key.indexOf("/") + 1)));
}
