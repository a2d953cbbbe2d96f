/**
 * The live objects of a release: annotated and written as helm does it, and compared with the record of the release, helm's Secret. The
 * annotations of helm name the release that owns an object.
 */

import {
  areListsApplied,
  compareObjects,
  describeDuplicateItems,
  digestFieldManagers,
  findDuplicateItems,
  findReplacedItems,
  HELM,
  mayBeAutoscaled,
  moveFields,
  splitReplacedItems,
  withoutDirectives,
  withoutFields,
  withoutReplacedItems,
  type Comparison,
  type DuplicateItems,
  type FieldManagers,
  type ReplacedItems,
} from "../../drift/index.ts";
import {
  ApiError,
  serverSideApply,
  create,
  get,
  ignoreNotFound,
  apiGroupOf,
  isForbidden,
  isNotFound,
  mergePatch,
  pathOf,
} from "../../kube/index.ts";
import type { KubeClient, Target } from "../../kube/index.ts";
import {
  isJsonObject,
  objectOf,
  type DriftIgnore,
  type JsonObject,
  objectsIn,
  asString,
} from "../../model/index.ts";
import { indexLastingObjects, namespacedKey, parseDocuments, type ObjectRef } from "../manifest/manifest.ts";
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

/**
 * The owner of an object if it is another release than `self`, which must then not change the object. Undefined if it is `self`, or if
 * the object has no owner.
 */
export function readOtherOwner(
  annotations: Readonly<Record<string, string>>,
  self: Owner,
): Owner | undefined {
  const owner = readOwner(annotations, self.namespace);
  return owner?.release === self.release && owner.namespace === self.namespace ? undefined : owner;
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

interface CallOptions {
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

  /** Finds the resource of the object's kind by discovery; undefined if the server does not serve the kind. */
  static async resolve(tools: ReleaseCheckTools, object: ObjectRef): Promise<LiveObjectClient | undefined> {
    const { apiVersion, kind, name, namespace = tools.namespace } = object;
    const resource = await tools.discovery.resolve(kind, apiVersion);
    return resource && new LiveObjectClient(tools.client, { resource, namespace, name });
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
    const { resourceVersion, uid } = objectOf(live["metadata"]);
    const body = { metadata: { uid, resourceVersion, managedFields } };
    return mergePatch(this.#client, this.#target, { ...call, fieldManager: HELM, body });
  }

  /** Creates the object, as helm does without server-side apply; fails where it exists. */
  create(body: JsonObject, call: CallOptions): Promise<JsonObject> {
    const { resource, namespace } = this.#target;
    return create(this.#client, { resource, namespace }, { ...HELM_WRITE_OPTIONS, ...call, body });
  }
}

export interface Inspection extends Comparison {
  /** The field managers at the time of the comparison. */
  readonly fieldManagers: FieldManagers;
  /** Parts of the object that are neither compared nor repaired, with the reason. */
  readonly notCompared: string | undefined;
  /** Writes the object back as recorded, without ignored fields; returns the field managers after that. Throws as `inspect`. */
  readonly repair: () => Promise<FieldManagers>;
}

const REQUEST_TIMEOUT_MS = 10_000;

/** Most lists with duplicate keys that are left out: the server may name only some of them at once. */
const MAX_LEFT_OUT = 10;

interface TriedApply {
  readonly applied: JsonObject;
  /** The recorded object without the lists with duplicate keys. */
  readonly recorded: JsonObject;
  readonly replaced: readonly ReplacedItems[];
  readonly duplicates: readonly DuplicateItems[];
}

/**
 * Tries what an apply of a recorded object makes of the live one. If the server refuses it, because others have changed keys of list items,
 * tries it without these items (`replaced`); because of lists with duplicate keys, without these lists (`duplicates`); because of directives for
 * client-side apply, without these. Throws ApiError, ConnectionError.
 */
async function tryApply(
  served: LiveObjectClient,
  {
    live,
    recorded,
    duplicates = [],
  }: { readonly live: JsonObject } & Pick<TriedApply, "recorded"> & Partial<Pick<TriedApply, "duplicates">>,
  call: CallOptions,
): Promise<TriedApply> {
  const dryRun = { ...call, dryRun: true };
  try {
    return { applied: await served.apply(recorded, dryRun), recorded, replaced: [], duplicates };
  } catch (error) {
    const plain = error instanceof ApiError ? withoutDirectives(recorded) : undefined;
    if (plain !== undefined) return tryApply(served, { live, recorded: plain, duplicates }, call);
    const found = error instanceof ApiError ? findDuplicateItems(error.message) : [];
    if (found.length > 0 && duplicates.length < MAX_LEFT_OUT) {
      const rest = withoutFields(
        recorded,
        found.map(({ path }) => path),
      );
      return tryApply(served, { live, recorded: rest, duplicates: [...duplicates, ...found] }, call);
    }
    const isInvalid = error instanceof ApiError && error.status === 422;
    const replaced = isInvalid ? findReplacedItems(live, recorded) : [];
    if (replaced.length === 0) throw error;
    const applied = await served.apply(withoutReplacedItems(recorded, replaced), dryRun);
    return { applied, recorded, replaced, duplicates };
  }
}

/** The objects in the record of one release (helm's Secret), to compare them with the live objects. Leaves out objects that may delete themselves. */
export class RecordedObjects {
  readonly #tools: ReleaseCheckTools;
  readonly #release: string;
  readonly #recordedByKey: ReturnType<typeof indexLastingObjects>;

  constructor(tools: ReleaseCheckTools, release: string, manifest: string) {
    this.#tools = tools;
    this.#release = release;
    this.#recordedByKey = indexLastingObjects(parseDocuments(manifest), tools.namespace);
  }

  /**
   * Compares a live object with the record, and changes nothing: a dry-run apply of the recorded object shows what the server would make of
   * it, defaults and admission included. The result can repair the object: it writes the recorded object, without the fields that `ignore`
   * excludes. Returns undefined if the object does not exist, is being deleted, belongs to another release, or is not in the record. Throws
   * ApiError, ConnectionError, DepthError.
   */
  async inspect(
    object: ObjectRef,
    { ignore, signal }: { readonly ignore: readonly DriftIgnore[]; readonly signal: AbortSignal },
  ): Promise<Inspection | undefined> {
    const body = this.#recordedByKey.get(namespacedKey(this.#tools.namespace, object))?.body;
    const served = await LiveObjectClient.resolve(this.#tools, object);
    if (served === undefined || body === undefined) return undefined;
    const call = { signal, timeoutMs: REQUEST_TIMEOUT_MS };
    const live = await served.get(call);
    if (live === undefined || !this.#belongsToRelease(live)) return undefined;
    const helmObject = this.#toHelmObject(body, live);
    const encoded = withEncodedData(helmObject);
    const tried = await tryApply(served, { live, recorded: encoded }, call);
    const { duplicates } = tried;
    // A Secret is applied with its `stringData`, as the chart has it.
    const recorded = tried.recorded === encoded ? helmObject : tried.recorded;
    const isAutoscaled = mayBeAutoscaled(live) && (await hasAutoscaler(this.#tools.client, live, call));
    const comparison = compareObjects(live, tried.applied, { ignore, isAutoscaled, ...tried });
    const { ignored, replaced } = comparison;
    const ignoredItems = tried.replaced.filter((each) => !replaced.includes(each));
    const isWhole = ignored.length === 0 && ignoredItems.length === 0;
    const repaired = isWhole
      ? recorded
      : withoutReplacedItems(withoutFields(withEncodedData(recorded), ignored), ignoredItems);
    return {
      ...comparison,
      fieldManagers: digestFieldManagers(live),
      notCompared: duplicates.length === 0 ? undefined : describeDuplicateItems(duplicates),
      repair: async () => {
        if (areListsApplied(live, duplicates))
          throw new Error(`it cannot be repaired without ${describeDuplicateItems(duplicates)}`);
        const { metadata } = await served.takeItems(live, replaced, call);
        const { resourceVersion } = objectOf(metadata);
        // Optimistic concurrency: a slow repair must not overwrite a later write of a run.
        return digestFieldManagers(await served.apply(withMetadata(repaired, { resourceVersion }), call));
      },
    };
  }

  /** Whether a live object belongs to this release and is not being deleted. */
  #belongsToRelease(live: JsonObject): boolean {
    const { deletionTimestamp, annotations } = objectOf(live["metadata"]);
    const self = { release: this.#release, namespace: this.#tools.namespace };
    const otherOwner = readOtherOwner(objectOf(annotations) as Record<string, string>, self);
    return deletionTimestamp === undefined && otherOwner === undefined;
  }

  /**
   * The recorded object as helm writes it, with the uid of the live one: the server refuses a write to an object that was deleted
   * meanwhile instead of creating it again.
   */
  #toHelmObject(body: JsonObject, live: JsonObject): JsonObject {
    const { status: _, ...rest } = withHelmMetadata(body, this.#release, this.#tools.namespace);
    return withMetadata(rest, { uid: objectOf(live["metadata"])["uid"] });
  }
}

function withMetadata(body: JsonObject, more: JsonObject): JsonObject {
  return { ...body, metadata: { ...objectOf(body["metadata"]), ...more } };
}

/** Converts `stringData` of a Secret to `data`, as the server does, because live Secrets have only `data`, with which paths are compared. */
function withEncodedData(body: JsonObject): JsonObject {
  const { stringData, ...rest } = body;
  if (body["kind"] !== "Secret" || !isJsonObject(stringData)) return body;
  const encoded = Object.entries(stringData).map(([key, text]) => [
    key,
    Buffer.from(typeof text === "string" ? text : "").toString("base64"),
  ]);
  return { ...rest, data: { ...objectOf(rest["data"]), ...(Object.fromEntries(encoded) as JsonObject) } };
}

const AUTOSCALERS = {
  group: "autoscaling",
  version: "v2",
  plural: "horizontalpodautoscalers",
  namespaced: true,
} as const;

/**
 * Whether a HorizontalPodAutoscaler targets an object, so that its number of replicas is no drift. True also if the operator
 * may not list autoscalers: then the replicas are left alone. One request. Throws ApiError, ConnectionError.
 */
async function hasAutoscaler(client: KubeClient, object: JsonObject, call: CallOptions): Promise<boolean> {
  const { name, namespace } = objectOf(object["metadata"]);
  const group = apiGroupOf(asString(object["apiVersion"]) ?? "");
  const path = pathOf(AUTOSCALERS, { namespace: asString(namespace) });
  try {
    const list = await client.json<JsonObject>({ ...call, path });
    return objectsIn(list["items"]).some((each) => {
      const target = objectOf(objectOf(each["spec"])["scaleTargetRef"]);
      // Without the version, because an autoscaler may name another one than the chart.
      const isSameKind =
        target["kind"] === object["kind"] && apiGroupOf(asString(target["apiVersion"]) ?? "") === group;
      return isSameKind && target["name"] === name;
    });
  } catch (error) {
    if (isNotFound(error)) return false;
    if (isForbidden(error)) return true;
    throw error;
  }
}
