/** The live objects of a release: annotated and written as helm does it, compared with the record, restored. */

import {
  compare,
  fieldManagersOf,
  HELM,
  maybeAutoscaled,
  withoutFields,
  type Comparison,
  type FieldManagers,
} from "../../drift/index.ts";
import { serverSideApply, create, get, ignoreNotFound, isAlreadyExists } from "../../kube/index.ts";
import type { Target } from "../../kube/index.ts";
import { inParallel, oneLine } from "../../lib/index.ts";
import { isJsonObject, objectOf, type DriftIgnore, type JsonObject } from "../../model/index.ts";
import { isAutoscaled } from "./autoscaled.ts";
import { RestoreError } from "../binary/helm-errors.ts";
import {
  documentsOf,
  keyIn,
  lastingBodies,
  lastingByKey,
  resourceName,
  refOf,
} from "../manifest/manifest.ts";
import type { ObjectRef } from "../manifest/manifest.ts";
import type { ReleaseMeta } from "../release/revisions.ts";
import type { CheckTools, Reconciler } from "../types.ts";

/** Annotations that helm puts on each object of a release. */
const OWNER = { name: "meta.helm.sh/release-name", namespace: "meta.helm.sh/release-namespace" } as const;

/** The labels and annotations that helm adds to an object of a release. */
export function helmMarks(release: string, namespace: string) {
  return {
    labels: { "app.kubernetes.io/managed-by": "Helm" },
    annotations: { [OWNER.name]: release, [OWNER.namespace]: namespace },
  };
}

/** A release, and the namespace of its record. */
export interface Owner {
  readonly release: string;
  readonly namespace: string;
}

/** The release that an object's annotations name. */
export function ownerOf(annotations: Readonly<Record<string, string>>, namespace: string): Owner | undefined {
  const release = annotations[OWNER.name];
  return release === undefined
    ? undefined
    : { release, namespace: annotations[OWNER.namespace] ?? namespace };
}

/** The owner of an object, if it is another release. */
export function otherOwner(annotations: Readonly<Record<string, string>>, own: Owner): Owner | undefined {
  const owner = ownerOf(annotations, own.namespace);
  return owner?.release === own.release && owner.namespace === own.namespace ? undefined : owner;
}

/** Options to write objects as helm does; no validation, because the server has accepted the chart before. */
const AS_HELM = { fieldManager: HELM, fieldValidation: "Ignore" } as const;

/** Adds helm's labels and annotations, which the record lacks because helm adds them when it applies objects. */
export function withHelmMarks(body: JsonObject, release: string, namespace: string): JsonObject {
  const metadata = objectOf(body["metadata"]);
  const marks = helmMarks(release, namespace);
  return {
    ...body,
    metadata: {
      ...metadata,
      labels: { ...objectOf(metadata["labels"]), ...marks.labels },
      annotations: { ...objectOf(metadata["annotations"]), ...marks.annotations },
    },
  };
}

interface Call {
  readonly signal: AbortSignal;
  readonly timeoutMs?: number;
}

/** One object on the server. Its methods throw ApiError, ConnectionError. */
export class ServedObject {
  readonly #client: CheckTools["client"];
  readonly #target: Target;

  private constructor(client: CheckTools["client"], target: Target) {
    this.#client = client;
    this.#target = target;
  }

  /** Undefined where the server does not know its kind. */
  static async of(
    { client, discovery, namespace: own }: CheckTools,
    { apiVersion, kind, name, namespace = own }: ObjectRef,
  ): Promise<ServedObject | undefined> {
    const resource = await discovery.resolve(kind, apiVersion);
    return resource && new ServedObject(client, { resource, namespace, name });
  }

  /** The object on the server; undefined where it does not exist. */
  live(call: Call): Promise<JsonObject | undefined> {
    return get(this.#client, this.#target, call).catch(ignoreNotFound);
  }

  /** Applies the object as helm does and returns the result; with `dryRun` nothing is stored. */
  apply(body: JsonObject, call: Call & { readonly dryRun?: boolean }): Promise<JsonObject> {
    return serverSideApply(this.#client, this.#target, { ...AS_HELM, ...call, force: true, body });
  }

  /** Creates the object; fails where it exists. */
  create(body: JsonObject, call: Call): Promise<JsonObject> {
    const { resource, namespace } = this.#target;
    return create(this.#client, { resource, namespace }, { ...AS_HELM, ...call, body });
  }
}

/** The comparison of an object, and its repair. */
export interface Inspection extends Comparison {
  /** The field managers at the time of the comparison. */
  readonly fieldManagers: FieldManagers;
  /** Writes the object back as recorded, without ignored fields; returns the field managers after that. Throws as `inspect`. */
  readonly repair: () => Promise<FieldManagers>;
}

/** Time limit of a request. */
const ANSWER_MS = 10_000;

/** The objects of one release as its record has them. */
export class RecordedObjects {
  readonly #tools: CheckTools;
  readonly #release: string;
  readonly #recorded: ReturnType<typeof lastingByKey>;

  constructor(tools: CheckTools, release: string, manifest: string) {
    this.#tools = tools;
    this.#release = release;
    this.#recorded = lastingByKey(documentsOf(manifest), tools.namespace);
  }

  /**
   * Compares a live object with the record, and changes nothing. Returns undefined if the object does not exist, is being
   * deleted, belongs to another release, or is not in the record. Throws ApiError, ConnectionError, DepthError.
   */
  async inspect(
    object: ObjectRef,
    { ignore, signal }: { readonly ignore: readonly DriftIgnore[]; readonly signal: AbortSignal },
  ): Promise<Inspection | undefined> {
    const body = this.#recorded.get(keyIn(this.#tools.namespace, object))?.body;
    const served = await ServedObject.of(this.#tools, object);
    if (served === undefined || body === undefined) return undefined;
    const call = { signal, timeoutMs: ANSWER_MS };
    const live = await served.live(call);
    if (live === undefined || !this.#isOurs(live)) return undefined;
    const recorded = this.#prepared(body, live);
    const applied = await served.apply(withData(recorded), { ...call, dryRun: true });
    const scaled = maybeAutoscaled(live) && (await isAutoscaled(this.#tools.client, live, call));
    const comparison = compare(live, applied, { ignore, isAutoscaled: scaled });
    const { ignored } = comparison;
    const kept = ignored.length === 0 ? recorded : withoutFields(withData(recorded), ignored);
    // Optimistic concurrency: a slow repair must not overwrite a later write of a run.
    const repaired = withMeta(kept, { resourceVersion: objectOf(live["metadata"])["resourceVersion"] });
    return {
      ...comparison,
      fieldManagers: fieldManagersOf(live),
      repair: async () => fieldManagersOf(await served.apply(repaired, call)),
    };
  }

  /** Whether an object belongs to this release and is not being deleted. */
  #isOurs(live: JsonObject): boolean {
    const { deletionTimestamp, annotations } = objectOf(live["metadata"]);
    const own = { release: this.#release, namespace: this.#tools.namespace };
    const owner = otherOwner(objectOf(annotations) as Record<string, string>, own);
    return deletionTimestamp === undefined && owner === undefined;
  }

  /** The recorded object as helm writes it. Its uid prevents that a write recreates an object that was deleted meanwhile. */
  #prepared(body: JsonObject, live: JsonObject): JsonObject {
    const { status: _, ...rest } = withHelmMarks(body, this.#release, this.#tools.namespace);
    return withMeta(rest, { uid: objectOf(live["metadata"])["uid"] });
  }
}

function withMeta(body: JsonObject, more: JsonObject): JsonObject {
  return { ...body, metadata: { ...objectOf(body["metadata"]), ...more } };
}

/** Converts `stringData` of a Secret to `data`, as the server does. */
function withData(body: JsonObject): JsonObject {
  const { stringData, ...rest } = body;
  if (body["kind"] !== "Secret" || !isJsonObject(stringData)) return body;
  const encoded = Object.entries(stringData).map(([key, text]) => [
    key,
    Buffer.from(typeof text === "string" ? text : "").toString("base64"),
  ]);
  return { ...rest, data: { ...objectOf(rest["data"]), ...(Object.fromEntries(encoded) as JsonObject) } };
}

interface RestoreRequest {
  readonly release: ReleaseMeta;
  /** Objects as `resourceName` names them, with their namespaces. */
  readonly absent: readonly string[];
  readonly signal: AbortSignal;
}

const AT_ONCE = 4;
/** After this many refusals of one kind, by a webhook or a quota, the other objects are not tried. */
const MOST_REFUSED = 3;

interface Absent {
  readonly ref: ObjectRef;
  readonly name: string;
  readonly body: JsonObject;
}

/**
 * Restores missing objects of a release from its record, in helm's order and with helm's labels and annotations. It renders
 * nothing, so generated passwords stay the same, and it creates no revision. Restores as many objects as possible, then
 * throws RestoreError for the others.
 */
export async function restoreObjects(tools: Reconciler, request: RestoreRequest): Promise<void> {
  const { release, signal } = request;
  const [manifest = ""] = await tools.store.manifests(release, signal);
  const { applyMethod } = await tools.store.summary(release);
  const left = new Set(request.absent);
  const refusals: string[] = [];
  for (const group of byKind(absentOf(manifest, tools.namespace, left))) {
    const before = refusals.length;
    await inParallel(AT_ONCE, group, async ({ ref, body, name }) => {
      if (refusals.length - before >= MOST_REFUSED) return;
      try {
        await putBack(tools, {
          ref,
          body: withHelmMarks(body, release.name, tools.namespace),
          applyMethod,
          signal,
        });
        left.delete(name);
      } catch (error) {
        signal.throwIfAborted();
        refusals.push(`${name}: ${oneLine(error)}`);
      }
    });
  }
  if (refusals.length > 0) throw new RestoreError(refusals, [...left]);
}

/** The recorded objects that `absent` names, with or without their namespace. */
function absentOf(manifest: string, own: string, absent: ReadonlySet<string>): Absent[] {
  return lastingBodies(documentsOf(manifest)).flatMap((body) => {
    const [ref] = refOf(body);
    if (ref === undefined) return [];
    const names = [ref.namespace ?? own, undefined].map((namespace) => resourceName({ ...ref, namespace }));
    const name = names.find((each) => absent.has(each));
    return name === undefined ? [] : [{ ref, body, name }];
  });
}

/** Groups consecutive objects of one kind; manifests are in helm's order of installation. */
function byKind(objects: readonly Absent[]): Absent[][] {
  const groups: Absent[][] = [];
  for (const object of objects) {
    const last = groups.at(-1);
    if (last?.[0]?.ref.kind === object.ref.kind) last.push(object);
    else groups.push([object]);
  }
  return groups;
}

interface Putting extends Pick<Absent, "ref" | "body"> {
  readonly applyMethod: "csa" | "ssa";
  readonly signal: AbortSignal;
}

/** Writes a missing object again. An object that exists again meanwhile is no error. */
async function putBack(tools: Reconciler, { ref, body, applyMethod, signal }: Putting): Promise<void> {
  const served = await ServedObject.of(tools, ref);
  if (served === undefined) throw new Error(`the server knows no ${ref.kind} of ${ref.apiVersion}`);
  try {
    await (applyMethod === "ssa" ? served.apply(body, { signal }) : served.create(body, { signal }));
  } catch (error) {
    if (applyMethod === "ssa" || !isAlreadyExists(error)) throw error;
  }
}
