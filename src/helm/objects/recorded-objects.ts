/** Compares the live objects of a release with its record, helm's Secret, and repairs them. */

import {
  areListsApplied,
  compareObjects,
  describeDuplicateItems,
  digestFieldManagers,
  findDuplicateItems,
  findReplacedItems,
  mayBeAutoscaled,
  withoutDirectives,
  withoutFields,
  withoutReplacedItems,
  type Comparison,
  type DuplicateItems,
  type FieldManagers,
  type ReplacedItems,
} from "../../kube/drift/index.ts";
import { ApiError, apiGroupOf, isForbidden, isNotFound, pathOf, type KubeClient } from "../../kube/index.ts";
import { asString, isJsonObject, objectOf, objectsIn } from "../../base/model/index.ts";
import type { DriftIgnore, JsonObject } from "../../base/model/index.ts";
import { indexLastingObjects, namespacedKey, parseDocuments } from "../manifest/manifest.ts";
import type { ManifestObject, ObjectRef } from "../manifest/manifest.ts";
import type { ReleaseCheckTools } from "../types.ts";
import {
  findOtherOwner,
  LiveObjectClient,
  readOwner,
  withHelmMetadata,
  type CallOptions,
} from "./live-objects.ts";

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
  readonly #recordedByKey: ReadonlyMap<string, ManifestObject>;

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
    const owner = readOwner(objectOf(annotations) as Record<string, string>, self.namespace);
    return deletionTimestamp === undefined && findOtherOwner(owner, self) === undefined;
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
