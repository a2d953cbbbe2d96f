/** Answers requests for admission of edits of the operator's ConfigMap and of its own resources. */

import { FIELD_MANAGER } from "../kube/index.ts";
import { objectOf, type Json, type JsonObject } from "../model/index.ts";
import type { AdmissionRequest, AdmissionResponse } from "../webhooks/index.ts";
import { checkAnnotations } from "./annotations.ts";
import { allow, type Answer } from "./answer.ts";
import { checkConfigEdit } from "./config-edit.ts";
import type { AdmissionSources } from "./forecast.ts";

export interface AdmissionOptions extends AdmissionSources {
  /** The ConfigMap. */
  readonly name: string;
  readonly namespace: string;
  /** Name of the user as whom the operator acts; undefined = unknown. */
  readonly ownUser: (signal: AbortSignal) => Promise<string | undefined>;
  /** Removes secrets. */
  readonly redactDeep: <T extends Json>(value: T) => T;
}

/** Answers from the state of now, without waiting for anything but the name of the operator's user, once. */
export class Admission {
  readonly #options: AdmissionOptions;

  constructor(options: AdmissionOptions) {
    this.#options = options;
  }

  /** Decides about a request. The operator's own writes pass: they are checked before they are sent. */
  async answer(request: AdmissionRequest, signal: AbortSignal): Promise<AdmissionResponse> {
    if (await this.#isOwn(request, signal)) return allow();
    const { allowed, message, warnings } = this.#check(request);
    const { redactDeep } = this.#options;
    return {
      allowed,
      warnings: redactDeep([...warnings]),
      ...(message !== undefined && { message: redactDeep(message) }),
    };
  }

  #check({ kind: { kind }, name = "", namespace, ...request }: AdmissionRequest): Answer {
    if (namespace !== this.#options.namespace) return allow();
    const [before, after] = [request.oldObject ?? {}, request.object ?? {}];
    if (kind === "ConfigMap" && name === this.#options.name) {
      const texts = { before: textsOf(before["data"]), data: textsOf(after["data"]) };
      const isDryRun = request.dryRun === true;
      return checkConfigEdit({ name, ...texts, annotations: annotationsOf(after), isDryRun }, this.#options);
    }
    if (kind !== "AddonModule" && kind !== "AddonOperator") return allow();
    const annotations = { before: annotationsOf(before), after: annotationsOf(after) };
    return checkAnnotations({ kind, name, ...annotations }, this.#options.state.view);
  }

  /** Anyone may claim our field manager, and hooks may act as our user: both together are the operator itself. */
  async #isOwn({ options, userInfo }: AdmissionRequest, signal: AbortSignal): Promise<boolean> {
    if (options?.["fieldManager"] !== FIELD_MANAGER) return false;
    const own = await this.#options.ownUser(signal);
    return own !== undefined && userInfo["username"] === own;
  }
}

function annotationsOf(object: JsonObject): Record<string, string> {
  return textsOf(objectOf(object["metadata"])["annotations"]);
}

/** The members that are texts: requests may come from anyone who reaches the port. */
function textsOf(map: Json | undefined): Record<string, string> {
  const texts = Object.entries(objectOf(map)).filter(([, text]) => typeof text === "string");
  return Object.fromEntries(texts) as Record<string, string>;
}
