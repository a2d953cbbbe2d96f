/** Objects as helm writes them: its marks, its field manager, its force. */

import { HELM } from "../drift/index.ts";
import { applyPatch, create, get, ignoreNotFound } from "../kube/index.ts";
import type { Target } from "../kube/index.ts";
import { objectOf, type JsonObject } from "../model/index.ts";
import type { ObjectRef } from "./manifest/manifest.ts";
import { helmMarks, type LookTools } from "./ownership/outliving.ts";

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
