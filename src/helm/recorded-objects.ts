/** Compares objects with what the record of their release says of them, and puts back what others changed. */

import { compare, handsOf, without } from "../drift/index.ts";
import type { Comparison, Hands } from "../drift/index.ts";
import { isJsonObject, objectOf, type DriftIgnore, type JsonObject } from "../model/index.ts";
import { ServedObject, marked } from "./as-helm.ts";
import { documentsOf, keyIn, lastingByKey, type ObjectRef } from "./manifest/manifest.ts";
import { ownerOf, type LookTools } from "./ownership/outliving.ts";

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
   * What differs: two requests, which change nothing. Undefined for an object that is gone or going, that is not the
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
    const comparison = compare(live, applied, ignore);
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
    const owner = ownerOf(objectOf(annotations) as Record<string, string>, this.#tools.namespace);
    const isOthers =
      owner !== undefined && (owner.release !== this.#release || owner.namespace !== this.#tools.namespace);
    return deletionTimestamp === undefined && !isOthers;
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
