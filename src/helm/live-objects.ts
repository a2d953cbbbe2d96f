/** The live objects of a release: marked and written as helm does, compared with its record, put back. */

import {
  compare,
  handsOf,
  HELM,
  maybeAutoscaled,
  without,
  type Comparison,
  type Hands,
} from "../drift/index.ts";
import { applyPatch, create, get, ignoreNotFound, isAlreadyExists } from "../kube/index.ts";
import type { Discovery, KubeClient, Target } from "../kube/index.ts";
import { inParallel, oneLine } from "../lib/index.ts";
import { isJsonObject, objectOf, type DriftIgnore, type JsonObject } from "../model/index.ts";
import { isAutoscaled } from "./autoscaled.ts";
import { RestoreError } from "./binary/helm-errors.ts";
import type { Reconciler } from "./decide.ts";
import { documentsOf, keyIn, lastingBodies, lastingByKey, nameOf, refOf } from "./manifest/manifest.ts";
import type { ObjectRef } from "./manifest/manifest.ts";
import type { ReleaseMeta } from "./release/revisions.ts";

/** What is needed to look at the objects of a release. */
export interface LookTools {
  readonly client: KubeClient;
  readonly discovery: Pick<Discovery, "resolve">;
  /** Namespace of the releases, and of objects that name none. */
  readonly namespace: string;
}

/** Annotations that helm puts on each object of a release. */
const OWNER = { name: "meta.helm.sh/release-name", namespace: "meta.helm.sh/release-namespace" } as const;

/** What helm marks an object of a release with when it applies it. */
export function helmMarks(release: string, namespace: string) {
  return {
    labels: { "app.kubernetes.io/managed-by": "Helm" },
    annotations: { [OWNER.name]: release, [OWNER.namespace]: namespace },
  };
}

/** A release, and where its record is. */
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

/** The same where it is another one. */
export function otherOwner(annotations: Readonly<Record<string, string>>, own: Owner): Owner | undefined {
  const owner = ownerOf(annotations, own.namespace);
  return owner?.release === own.release && owner.namespace === own.namespace ? undefined : owner;
}

/** How objects are written as helm does it; the server has accepted the content of the chart before. */
const AS_HELM = { fieldManager: HELM, fieldValidation: "Ignore" } as const;

/** helm marks objects when it applies them: its record does not have the marks. */
export function marked(body: JsonObject, release: string, namespace: string): JsonObject {
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
  readonly #client: LookTools["client"];
  readonly #target: Target;

  private constructor(client: LookTools["client"], target: Target) {
    this.#client = client;
    this.#target = target;
  }

  /** Undefined where the server does not know its kind. */
  static async of(
    { client, discovery, namespace: own }: LookTools,
    { apiVersion, kind, name, namespace = own }: ObjectRef,
  ): Promise<ServedObject | undefined> {
    const resource = await discovery.resolve(kind, apiVersion);
    return resource && new ServedObject(client, { resource, namespace, name });
  }

  /** As it is; undefined where it is not there. */
  live(call: Call): Promise<JsonObject | undefined> {
    return get(this.#client, this.#target, call).catch(ignoreNotFound);
  }

  /** What the server makes of it where helm applies this; with `dryRun` it stays as it is. */
  apply(body: JsonObject, call: Call & { readonly dryRun?: boolean }): Promise<JsonObject> {
    return applyPatch(this.#client, this.#target, { ...AS_HELM, ...call, force: true, body });
  }

  /** Makes it; it must not be there. */
  create(body: JsonObject, call: Call): Promise<JsonObject> {
    const { resource, namespace } = this.#target;
    return create(this.#client, { resource, namespace }, { ...AS_HELM, ...call, body });
  }
}

/** What was found of an object. */
export interface Inspection extends Comparison {
  /** Whose its fields were then. */
  readonly hands: Hands;
  /** Writes the object back as it is recorded, without what is ignored; whose its fields are after that. Throws as `inspect`. */
  readonly repair: () => Promise<Hands>;
}

/** How long the server may take for one answer. */
const ANSWER_MS = 10_000;

/** The objects of one release as its record has them. */
export class RecordedObjects {
  readonly #tools: LookTools;
  readonly #release: string;
  readonly #recorded: ReturnType<typeof lastingByKey>;

  constructor(tools: LookTools, release: string, manifest: string) {
    this.#tools = tools;
    this.#release = release;
    this.#recorded = lastingByKey(documentsOf(manifest), tools.namespace);
  }

  /**
   * What differs: two requests, three for what a program has scaled, which change nothing. Undefined for an object that is gone or going, that is not the
   * release's any more, or that the record does not have. Throws ApiError, ConnectionError, DepthError.
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
    const kept = ignored.length === 0 ? recorded : without(withData(recorded), ignored);
    // A repair that is slow must not overwrite what a run has written meanwhile.
    const repaired = withMeta(kept, { resourceVersion: objectOf(live["metadata"])["resourceVersion"] });
    return {
      ...comparison,
      hands: handsOf(live),
      repair: async () => handsOf(await served.apply(repaired, call)),
    };
  }

  #isOurs(live: JsonObject): boolean {
    const { deletionTimestamp, annotations } = objectOf(live["metadata"]);
    const own = { release: this.#release, namespace: this.#tools.namespace };
    const owner = otherOwner(objectOf(annotations) as Record<string, string>, own);
    return deletionTimestamp === undefined && owner === undefined;
  }

  /** With the uid a write never makes an object that went meanwhile. */
  #prepared(body: JsonObject, live: JsonObject): JsonObject {
    const { status: _, ...rest } = marked(body, this.#release, this.#tools.namespace);
    return withMeta(rest, { uid: objectOf(live["metadata"])["uid"] });
  }
}

function withMeta(body: JsonObject, more: JsonObject): JsonObject {
  return { ...body, metadata: { ...objectOf(body["metadata"]), ...more } };
}

/** The texts of a Secret as the server keeps them. */
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
  /** Objects as `nameOf` names them, with their namespaces. */
  readonly absent: readonly string[];
  readonly signal: AbortSignal;
}

const AT_ONCE = 4;
/** After this many refusals of one kind (by a webhook, a quota) the others would be refused too. */
const MOST_REFUSED = 3;

interface Absent {
  readonly ref: ObjectRef;
  readonly name: string;
  readonly body: JsonObject;
}

/**
 * Puts objects of a release back as its record has them, in helm's order and with helm's marks: nothing is
 * rendered, so passwords made by templates stay, and there is no new revision. Puts back all it can, then throws
 * RestoreError for the rest.
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
        await putBack(tools, { ref, body: marked(body, release.name, tools.namespace), applyMethod, signal });
        left.delete(name);
      } catch (error) {
        signal.throwIfAborted();
        refusals.push(`${name}: ${oneLine(error)}`);
      }
    });
  }
  if (refusals.length > 0) throw new RestoreError(refusals, [...left]);
}

function absentOf(manifest: string, own: string, absent: ReadonlySet<string>): Absent[] {
  return lastingBodies(documentsOf(manifest)).flatMap((body) => {
    const [ref] = refOf(body);
    if (ref === undefined) return [];
    const names = [ref.namespace ?? own, undefined].map((namespace) => nameOf({ ...ref, namespace }));
    const name = names.find((each) => absent.has(each));
    return name === undefined ? [] : [{ ref, body, name }];
  });
}

/** Groups of one kind: helm keeps its manifests in the order of installation. */
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

async function putBack(tools: Reconciler, { ref, body, applyMethod, signal }: Putting): Promise<void> {
  const served = await ServedObject.of(tools, ref);
  if (served === undefined) throw new Error(`the server knows no ${ref.kind} of ${ref.apiVersion}`);
  try {
    await (applyMethod === "ssa" ? served.apply(body, { signal }) : served.create(body, { signal }));
  } catch (error) {
    if (applyMethod === "ssa" || !isAlreadyExists(error)) throw error;
  }
}
