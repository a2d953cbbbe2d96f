/** Projects a view (what the operator knows in memory) to the wanted content of the AddonOperator and of all AddonModules. */

import { isDeepStrictEqual } from "node:util";

import type { KnownSecrets } from "../../base/index.ts";
import type { ModuleView } from "../../engine/state/index.ts";
import type { StateSnapshot } from "../explain/snapshot-index.ts";
import { explain, type Explanation, type ModuleExplanation } from "../explain/explain.ts";
import type { ModuleStatus, OperatorStatus } from "../models/kinds.ts";
import { displayValues, type DisplayedValues, type StatusValues } from "./displayed-values.ts";
import { projectModule, type ModuleProjection } from "./module-status.ts";
import { projectOperator } from "./operator-status.ts";

/** The wanted content of all resources at one moment. The operator does not write the spec of the AddonOperator. */
export interface Projection {
  /** What the resources display. */
  readonly explanation: Explanation;
  readonly operatorStatus: OperatorStatus;
  readonly modules: ReadonlyMap<string, ModuleProjection>;
}

/** The last projection of a module with the explanation that it displays, and the displayed values. */
interface CachedProjection {
  readonly explanation: ModuleExplanation;
  readonly projection: ModuleProjection;
  readonly displayedValues: DisplayedValues;
}

/** As whom a module acts; undefined = as the operator. */
export type IdentityOf = (module: string) => ModuleStatus["identity"];

/**
 * Projects views to the wanted content of resources. Keeps the last projection: a module with the same inputs gets the same object
 * again, and conditions that do not change keep their times.
 */
export class Projector {
  readonly #mode: StatusValues;
  readonly #secrets: KnownSecrets;
  readonly #actors: { readonly describeIdentity: IdentityOf } | undefined;
  #cache: ReadonlyMap<string, CachedProjection> = new Map();
  #operatorStatus: OperatorStatus | undefined;

  /** `mode`: how values are displayed. `secrets` are removed from all texts. `actors` describe the account with which helm and hooks of a module act. */
  constructor(mode: StatusValues, secrets: KnownSecrets, actors?: { readonly describeIdentity: IdentityOf }) {
    this.#mode = mode;
    this.#secrets = secrets;
    this.#actors = actors;
  }

  /** Projects the view and the queues at the time `now` (ms since the epoch). Redacts secrets in all texts. */
  project(snapshot: StateSnapshot, now: number): Projection {
    const explanation = explain(snapshot, now);
    this.#cache = new Map(
      explanation.modules.entries().map(([name, module]) => [name, this.#projectModule(module, now)]),
    );
    const previousStatus = this.#operatorStatus;
    this.#operatorStatus = this.#secrets.redactDeep(projectOperator(explanation, { now, previousStatus }));
    return {
      explanation,
      operatorStatus: this.#operatorStatus,
      modules: new Map(this.#cache.entries().map(([name, { projection }]) => [name, projection])),
    };
  }

  /** Projects a module to its AddonModule. Returns the same object again while its explanation is unchanged, so that the writer need not compare the content. */
  #projectModule(explanation: ModuleExplanation, now: number): CachedProjection {
    const { view } = explanation;
    const cached = this.#cache.get(view.name);
    if (cached !== undefined && isSameExplanation(cached.explanation, explanation)) return cached;
    const displayedValues = this.#getDisplayedValues(view, cached);
    const { spec, status } = projectModule(explanation, {
      now,
      previousStatus: cached?.projection.status,
      identity: this.#actors?.describeIdentity(view.name),
    });
    // The values are redacted already, and by other rules.
    const redacted = { ...this.#secrets.redactDeep(status), ...displayedValues };
    return { explanation, projection: { spec, status: redacted }, displayedValues };
  }

  /** The displayed values, from the cache if the digest of the values is unchanged. */
  #getDisplayedValues(view: ModuleView, cached: CachedProjection | undefined): DisplayedValues {
    if (this.#mode === "none") return {};
    if (cached?.explanation.view.wholeDigest === view.wholeDigest) return cached.displayedValues;
    const { secretPaths } = view;
    return displayValues(view.values(), this.#mode, { secretPaths, secrets: this.#secrets });
  }
}

/** Whether two explanations of a module have the same projection, in which momentary reasons and dropped ticks are not visible. */
function isSameExplanation(before: ModuleExplanation, now: ModuleExplanation): boolean {
  if (before === now) return true;
  const { momentaryReasons, droppedTicks } = now;
  return before.view === now.view && isDeepStrictEqual({ ...before, momentaryReasons, droppedTicks }, now);
}
