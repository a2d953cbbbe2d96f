/**
 * Requests and confirmations that users write as annotations of AddonModules and the AddonOperator. `state.record` passes an event to the
 * operator's state in memory, whose listeners then decide what runs next.
 */

import { type Logger, Memo, oneLine } from "../base/index.ts";
import { REQUESTED_AT } from "../base/model/index.ts";
import { CONFIRM_DELETE } from "../engine/plan/index.ts";
import { hasConfirmations, type State } from "../engine/state/index.ts";
import type { WatchedConfig } from "./map/watched-config.ts";

/** Bounds the memory: who may create AddonModules could create any number. */
const MAX_REMEMBERED_OBJECTS = 10_000;
/** Up to 256 printable ASCII characters: tokens appear in statuses, and anyone who may annotate can set them. */
const TOKEN_PATTERN = /^[\u0020-\u007e]{1,256}$/;

/** Whether a request annotation with this value is accepted. The value is a token that distinguishes requests. */
export function isRequestToken(token: string): boolean {
  return TOKEN_PATTERN.test(token);
}

export const INVALID_TOKEN_MESSAGE =
  "The token of a request is invalid; use at most 256 printable ASCII characters";

export interface AnnotationsOptions {
  readonly state: State;
  readonly config: Pick<WatchedConfig, "refresh">;
  readonly logger: Logger;
}

/** Records requests and confirmations of annotations in the state, each request token once. */
export class Annotations {
  readonly #options: AnnotationsOptions;
  /** The last request token of each object. */
  readonly #lastTokens = new Memo<{ value: string | undefined }>(MAX_REMEMBERED_OBJECTS);

  constructor(options: AnnotationsOptions) {
    this.#options = options;
  }

  /**
   * Handles the annotations of a module's AddonModule, or (undefined) of the AddonOperator. `answeredToken` is the token in the
   * object's status: a restarted operator does not run again for a request that was answered before.
   */
  handleAnnotations(
    module: string | undefined,
    annotations: Readonly<Record<string, string>> = {},
    answeredToken?: string,
  ): void {
    const { state, logger } = this.#options;
    const isAnswered = answeredToken !== undefined && isRequestToken(answeredToken);
    if (module === undefined) {
      if (isAnswered) state.record("handledRequestRestored", answeredToken);
      state.record("confirmationObserved", annotations[CONFIRM_DELETE]);
    } else {
      if (isAnswered) state.recordModule(module, "handledRequestRestored", answeredToken);
      this.#recordConfirmations(module, annotations);
    }
    // The annotation stays after its request was handled: only another token is a new request.
    const token = annotations[REQUESTED_AT];
    const lastToken = this.#lastTokens.getOrMake(module ?? "", () => ({ value: undefined }));
    if (token === undefined || token === lastToken.value) return;
    lastToken.value = token;
    if (isRequestToken(token)) void this.#handleRequest(module, token);
    else logger.warn(INVALID_TOKEN_MESSAGE, { module });
  }

  /**
   * Records that the user confirmed changes of CRDs, or the takeover of existing objects, unless all of it is recorded: the next converge or
   * run carries them out.
   */
  #recordConfirmations(module: string, annotations: Readonly<Record<string, string>>): void {
    const { state } = this.#options;
    const record = state.module(module);
    if (record !== undefined && !hasConfirmations(record, annotations))
      state.recordModule(module, "annotationsObserved", annotations);
  }

  /**
   * Records a request to run the module or, without one, to reconcile all (a converge). Reads the ConfigMap first, because the watch may be
   * late and the run must include edits that the user made before the request.
   */
  async #handleRequest(module: string | undefined, token: string): Promise<void> {
    const { state, config, logger } = this.#options;
    try {
      await config.refresh();
    } catch (error) {
      logger.warn("The ConfigMap cannot be read", { error: oneLine(error) });
    }
    state.beginEvent("request", { module });
    if (module === undefined) state.record("convergeRequested", token);
    else state.recordModule(module, "runRequested", token);
  }
}
