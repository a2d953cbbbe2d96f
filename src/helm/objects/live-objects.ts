/**
 * The live objects of a release: which release owns them by the annotations of helm, their metadata, and how helm writes them. Helm refuses
 * to change an object that is not annotated with its release.
 */

import { HELM, moveFields, splitReplacedItems, type ReplacedItems } from "../../kube/drift/index.ts";
import { create, get, getMetadata, ignoreNotFound, isNotFound, mergePatch } from "../../kube/index.ts";
import { remove, serverSideApply } from "../../kube/index.ts";
import type { KubeClient, Resource, Target, WatchedObject } from "../../kube/index.ts";
import { mapInParallel, oneLine } from "../../base/index.ts";
import { asString, objectOf, type JsonObject } from "../../base/model/index.ts";
import { resourceName, type ObjectRef } from "../manifest/manifest.ts";
import type { ReleaseCheckTools } from "../types.ts";

/** Annotations that helm puts on each object of a release. */
const OWNER_ANNOTATIONS = {
  name: "meta.helm.sh/release-name",
  namespace: "meta.helm.sh/release-namespace",
} as const;

/** The labels and annotations that helm adds to an object of a release. */
export function helmMetadata(release: string, namespace: string) {
  return {
    labels: { "app.kubernetes.io/managed-by": "Helm" },
    annotations: { [OWNER_ANNOTATIONS.name]: release, [OWNER_ANNOTATIONS.namespace]: namespace },
  };
}

/** A release, and the namespace of its record. */
export interface Owner {
  readonly release: string;
  readonly namespace: string;
}

/** The release that the annotations of an object name as its owner; undefined if helm did not create the object. */
export function readOwner(
  annotations: Readonly<Record<string, string>>,
  namespace: string,
): Owner | undefined {
  const release = annotations[OWNER_ANNOTATIONS.name];
  return release === undefined
    ? undefined
    : { release, namespace: annotations[OWNER_ANNOTATIONS.namespace] ?? namespace };
}

/** Whether an object with this owner belongs to the release `self`. */
export function isSameOwner(owner: Owner | undefined, self: Owner): boolean {
  return owner?.release === self.release && owner.namespace === self.namespace;
}

/** The owner of an object if it is another release than `self`, which must then not change the object; otherwise undefined. */
export function findOtherOwner(owner: Owner | undefined, self: Owner): Owner | undefined {
  return isSameOwner(owner, self) ? undefined : owner;
}

/** Annotation with which helm does not delete an object. helm looks for it in manifests and, in upgrades, on live objects. */
export const RESOURCE_POLICY = "helm.sh/resource-policy";
export const KEEP = "keep";

export const MAX_PARALLEL_REQUESTS = 8;

/** Where the API server has an object. */
interface ObjectTarget extends Target {
  readonly resource: Resource;
  readonly namespace: string;
  readonly name: string;
}

/** Finds where the API server has an object, by discovery; undefined if it does not serve the kind. */
export async function locateObject(
  { discovery, namespace }: Pick<ReleaseCheckTools, "discovery" | "namespace">,
  ref: ObjectRef,
): Promise<ObjectTarget | undefined> {
  const resource = await discovery.resolve(ref.kind, ref.apiVersion);
  return resource && { resource, namespace: ref.namespace ?? namespace, name: ref.name };
}

export interface LiveObject {
  readonly ref: ObjectRef;
  readonly target: ObjectTarget;
  readonly uid: string;
  readonly resourceVersion: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly annotations: Readonly<Record<string, string>>;
  readonly owner: Owner | undefined;
  readonly finalizers: readonly string[];
  readonly isTerminating: boolean;
}

/** Reads the metadata of an object, to find out which release owns it; undefined where it does not exist. Throws an Error that names the object. */
export async function readLiveObject(
  tools: ReleaseCheckTools,
  ref: ObjectRef,
  signal: AbortSignal | undefined,
): Promise<LiveObject | undefined> {
  try {
    const target = await locateObject(tools, ref);
    // Objects of a kind without `get`, such as SubjectAccessReview, are not stored.
    if (target?.resource.verbs.includes("get") !== true) return undefined;
    const { metadata } = await getMetadata<WatchedObject>(tools.client, target, { signal });
    const labels = objectOf(metadata["labels"]) as Record<string, string>;
    const annotations = objectOf(metadata["annotations"]) as Record<string, string>;
    const owner = readOwner(annotations, tools.namespace);
    const { uid = "", resourceVersion = "" } = metadata;
    const finalizers = metadata["finalizers"];
    return {
      ref,
      target,
      uid,
      resourceVersion,
      labels,
      annotations,
      owner,
      finalizers: Array.isArray(finalizers) ? finalizers.map(String) : [],
      isTerminating: metadata["deletionTimestamp"] !== undefined,
    };
  } catch (error) {
    signal?.throwIfAborted();
    if (isNotFound(error)) return undefined;
    throw new Error(`cannot determine the owner of ${resourceName(ref)}: ${oneLine(error)}`, {
      cause: error,
    });
  }
}

/** Reads the metadata of several objects with a few parallel requests; missing objects are left out. */
export async function readLiveObjects(
  tools: ReleaseCheckTools,
  refs: readonly ObjectRef[],
  signal: AbortSignal | undefined,
): Promise<LiveObject[]> {
  const found = await mapInParallel(MAX_PARALLEL_REQUESTS, refs, (ref) => readLiveObject(tools, ref, signal));
  return found.filter((each) => each !== undefined);
}

interface ClaimOptions {
  readonly release: string;
  /** Annotates the object with the resource policy `keep`, so that it outlives the release. */
  readonly keep?: boolean;
  readonly signal: AbortSignal | undefined;
}

/**
 * Marks an object as owned by a release, with the labels and annotations that helm requires before it changes an existing
 * object. With `keep`, helm does not delete it with the release. Throws ApiError if an object with another uid has replaced it.
 */
export async function claimObject(
  tools: ReleaseCheckTools,
  object: LiveObject,
  how: ClaimOptions,
): Promise<void> {
  const { labels, annotations } = helmMetadata(how.release, tools.namespace);
  const keep = how.keep === true ? { [RESOURCE_POLICY]: KEEP } : {};
  const metadata = { uid: object.uid, labels, annotations: { ...annotations, ...keep } };
  await mergePatch(tools.client, object.target, { body: { metadata }, signal: how.signal });
}

/** Deletes exactly this object: one of its name that has replaced it stays. Does nothing if it is missing. Throws ApiError. */
export async function deleteObject(
  { client }: Pick<ReleaseCheckTools, "client">,
  { target, uid }: LiveObject,
  call: { readonly propagationPolicy?: "Background"; readonly signal: AbortSignal | undefined },
): Promise<void> {
  await remove(client, target, { ...call, preconditions: { uid } });
}

/** Whether an object has the policy `keep`, with which helm does not delete it. */
export function hasKeepPolicy({ annotations }: Pick<LiveObject, "annotations">): boolean {
  return annotations[RESOURCE_POLICY]?.trim().toLowerCase() === KEEP;
}

/** Whether an object has the label and the annotations by which helm recognizes an object of a release. */
export function isMarked({ labels, annotations }: LiveObject, { release, namespace }: Owner): boolean {
  const marks = helmMetadata(release, namespace);
  const has = (found: Readonly<Record<string, string>>, wanted: Readonly<Record<string, string>>): boolean =>
    Object.entries(wanted).every(([key, value]) => found[key] === value);
  return has(labels, marks.labels) && has(annotations, marks.annotations);
}

/** Changes nothing but the `managedFields` of the object `live`. Throws ApiError if the object has changed since it was read. */
export function writeManagedFields(
  client: KubeClient,
  target: Target,
  { live, managedFields }: { readonly live: JsonObject; readonly managedFields: readonly JsonObject[] },
  options: { readonly signal?: AbortSignal | undefined; readonly fieldManager?: string },
): Promise<JsonObject> {
  const { uid, resourceVersion } = objectOf(live["metadata"]);
  return mergePatch(client, target, {
    ...options,
    body: { metadata: { uid, resourceVersion, managedFields } },
  });
}

/** Options to write objects as helm does; no validation, because the server has accepted the chart before. */
const HELM_WRITE_OPTIONS = { fieldManager: HELM, fieldValidation: "Ignore" } as const;

/** Adds helm's labels and annotations to a recorded object. The record lacks them, because helm adds them when it applies. */
export function withHelmMetadata(body: JsonObject, release: string, namespace: string): JsonObject {
  const metadata = objectOf(body["metadata"]);
  const marks = helmMetadata(release, namespace);
  return {
    ...body,
    metadata: {
      ...metadata,
      labels: { ...objectOf(metadata["labels"]), ...marks.labels },
      annotations: { ...objectOf(metadata["annotations"]), ...marks.annotations },
    },
  };
}

export interface CallOptions {
  readonly signal: AbortSignal;
  readonly timeoutMs?: number;
}

/** Reads and writes one object of the cluster, as helm does. Its methods throw ApiError, ConnectionError. */
export class LiveObjectClient {
  readonly #client: ReleaseCheckTools["client"];
  readonly #target: Target;

  private constructor(client: ReleaseCheckTools["client"], target: Target) {
    this.#client = client;
    this.#target = target;
  }

  /** Finds the object as `locateObject`. */
  static async resolve(tools: ReleaseCheckTools, object: ObjectRef): Promise<LiveObjectClient | undefined> {
    const target = await locateObject(tools, object);
    return target && new LiveObjectClient(tools.client, target);
  }

  /** Reads the live object; undefined where it does not exist. */
  get(call: CallOptions): Promise<JsonObject | undefined> {
    return get(this.#client, this.#target, call).catch(ignoreNotFound);
  }

  /** Applies the object as helm does and returns the result; with `dryRun` nothing is stored. */
  apply(body: JsonObject, call: CallOptions & { readonly dryRun?: boolean }): Promise<JsonObject> {
    return serverSideApply(this.#client, this.#target, { ...HELM_WRITE_OPTIONS, ...call, force: true, body });
  }

  /**
   * Makes helm the owner of list items that are in place of recorded ones, so that its next apply removes them. Changes nothing but
   * `managedFields`. Returns the object after that.
   */
  async takeItems(live: JsonObject, items: readonly ReplacedItems[], call: CallOptions): Promise<JsonObject> {
    const target = { manager: HELM, apiVersion: asString(live["apiVersion"]) ?? "" };
    const managedFields = moveFields(live, target, ({ fieldsV1 }) =>
      splitReplacedItems(objectOf(fieldsV1), items),
    );
    if (managedFields === undefined) return live;
    const options = { ...call, fieldManager: HELM };
    return writeManagedFields(this.#client, this.#target, { live, managedFields }, options);
  }

  /** Creates the object, as helm does without server-side apply; fails where it exists. */
  create(body: JsonObject, call: CallOptions): Promise<JsonObject> {
    const { resource, namespace } = this.#target;
    return create(this.#client, { resource, namespace }, { ...HELM_WRITE_OPTIONS, ...call, body });
  }
}
