/** Requests and confirmations that users write as annotations of AddonModules and the AddonOperator. */

import { type Logger, Memo, oneLine } from "../lib/index.ts";
import { REQUESTED_AT } from "../model/index.ts";
import { CONFIRM_DELETE } from "../plan/index.ts";
import { hasConfirmations, type State } from "../state/index.ts";
import { traceEvent } from "../trace/index.ts";
import type { FollowedConfig } from "./config/followed-config.ts";

const MOST_TOKENS = 10_000;
/** Tokens appear in statuses, and anyone who may annotate can set them. */
const TOKEN = /^[\u0020-\u007e]{1,256}$/;

/** Whether a request with this token is accepted. */
export function isRequestToken(token: string): boolean {
  return TOKEN.test(token);
}

/** The answer to a request with another token. */
export const BAD_TOKEN = "The token of a request is invalid; use at most 256 printable ASCII characters";

export interface AnnotationParts {
  readonly state: State;
  readonly config: Pick<FollowedConfig, "refresh">;
  readonly logger: Logger;
}

/** Records requests and confirmations in the state, each token once. */
export class Annotations {
  readonly #parts: AnnotationParts;
  /** The last token of each object. */
  readonly #tokens = new Memo<{ last: string | undefined }>(MOST_TOKENS);

  constructor(parts: AnnotationParts) {
    this.#parts = parts;
  }

  /**
   * Handles the annotations of a module's object, or (undefined) of the AddonOperator. `answered` is the token in the
   * object's status: a restarted operator does not run again for an annotation that was answered before.
   */
  check(
    module: string | undefined,
    annotations: Readonly<Record<string, string>> = {},
    answered?: string,
  ): void {
    const { state, logger } = this.#parts;
    if (answered !== undefined && isRequestToken(answered)) {
      if (module === undefined) state.record("answered", answered);
      else state.recordModule(module, "answered", answered);
    }
    if (module === undefined) state.record("observed", { confirmation: annotations[CONFIRM_DELETE] });
    else recordConfirmations(state, module, annotations);
    const token = annotations[REQUESTED_AT];
    const seen = this.#tokens.getOrMake(module ?? "", () => ({ last: undefined }));
    if (token === undefined || token === seen.last) return;
    seen.last = token;
    if (isRequestToken(token)) return void this.#handle(module, token);
    logger.warn(BAD_TOKEN, { module });
  }

  /** Reads the ConfigMap first: the run must include edits that the user made before the request. */
  async #handle(module: string | undefined, token: string): Promise<void> {
    const { state, config, logger } = this.#parts;
    try {
      await config.refresh();
    } catch (error) {
      logger.warn("The ConfigMap cannot be read", { error: oneLine(error) });
    }
    traceEvent("request", { module }, () =>
      module === undefined
        ? state.record("requested", token)
        : state.recordModule(module, "requested", token),
    );
  }
}

/** The converge that a request causes applies confirmed CRD changes; the next run takes over confirmed objects. */
function recordConfirmations(
  state: State,
  module: string,
  annotations: Readonly<Record<string, string>>,
): void {
  const known = state.module(module);
  if (known === undefined || hasConfirmations(known, annotations)) return;
  state.recordModule(module, "annotated", annotations);
}
