/** What people ask for by annotations of AddonModules and the AddonOperator: a run now, or a held removal. */

import { CONFIRM_CRDS, CONFIRM_TAKEOVER } from "../helm/index.ts";
import { type Logger, Memo, oneLine } from "../lib/index.ts";
import { CONFIRM_DELETE } from "../plan/index.ts";
import type { State } from "../state/index.ts";
import { happened } from "../trace/index.ts";
import type { FollowedConfig } from "./config/followed-config.ts";

/** Annotation on either kind that asks for a run now; its value is an opaque token. */
export const REQUESTED_AT = "reconcile.addon-operator.io/requestedAt";

const MOST_TOKENS = 10_000;
/** Tokens appear in statuses, and anyone who may annotate can set them. */
const TOKEN = /^[\u0020-\u007e]{1,256}$/;

/** Who is told of a request, and what is read before. */
export interface RequestParts {
  readonly state: State;
  readonly config: Pick<FollowedConfig, "refresh">;
  readonly logger: Logger;
}

/** Takes requests and confirmations over into the state, each token once. */
export class Requests {
  readonly #parts: RequestParts;
  /** The last token of each object. */
  readonly #tokens = new Memo<{ last: string | undefined }>(MOST_TOKENS);

  constructor(parts: RequestParts) {
    this.#parts = parts;
  }

  /**
   * Looks at the annotations of a module's object, or (undefined) of the AddonOperator. `answered` is the token that its
   * status names: the request of an annotation that stays is not answered again by each process.
   */
  look(
    module: string | undefined,
    annotations: Readonly<Record<string, string>> = {},
    answered?: string,
  ): void {
    const { state, logger } = this.#parts;
    if (answered !== undefined && TOKEN.test(answered)) state.recordAnswered(module, answered);
    if (module === undefined) state.record({ confirmation: annotations[CONFIRM_DELETE] });
    else confirm(state, module, annotations);
    const token = annotations[REQUESTED_AT];
    const seen = this.#tokens.get(module ?? "", () => ({ last: undefined }));
    if (token === undefined || token === seen.last) return;
    seen.last = token;
    if (TOKEN.test(token)) return void this.#take(module, token);
    logger.warn("A request's token is no short text; use at most 256 ASCII characters", { module });
  }

  /** Edits made before the request must have been seen, so the ConfigMap is read first. */
  async #take(module: string | undefined, token: string): Promise<void> {
    const { state, config, logger } = this.#parts;
    try {
      await config.refresh();
    } catch (error) {
      logger.warn("The ConfigMap cannot be read", { error: oneLine(error) });
    }
    happened("request", { module }, () => state.recordRequest(module, token));
  }
}

/** Changes of CRDs are applied by the converge that a request causes; objects are taken over by the next run. */
function confirm(state: State, module: string, annotations: Readonly<Record<string, string>>): void {
  const { [CONFIRM_CRDS]: crds, [CONFIRM_TAKEOVER]: takeover } = annotations;
  const known = state.module(module);
  if (known?.confirmedCrds === crds && known?.confirmedTakeover === takeover) return;
  state.update(module, (record) => {
    record.confirmedCrds = crds;
    record.confirmedTakeover = takeover;
  });
}
