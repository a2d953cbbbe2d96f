/** Computes the wanted content of the resources from a view, with a cache. */

import type { KnownSecrets } from "../../lib/index.ts";
import {
  describeFailingHooks,
  type StateSnapshot,
  findConvergeBlocker,
  type Requirement,
  type Waits,
  collectWaits,
} from "../../plan/index.ts";
import type { ModuleView } from "../../state/index.ts";
import { displayValues, type DisplayedValues, type StatusValues } from "./displayed-values.ts";
import { projectModule, type ModuleProjection } from "./module-status.ts";
import type { ModuleStatus } from "../models/kinds.ts";
import { type OperatorProjection, projectOperator } from "./operator-status.ts";
import { indexConditionTimes, type Transitions } from "./conditions.ts";
import { ANNOUNCE_AFTER_MS, isRunUnannounced } from "./evaluation.ts";

/** The wanted content of all resources at one moment. */
export interface Projection {
  readonly operator: OperatorProjection;
  readonly modules: ReadonlyMap<string, ModuleProjection>;
  /** When to project again even without a change, because a run is old enough then to be displayed; in ms since the epoch. */
  readonly checkAgainAt: number | undefined;
}

/** The inputs of a module's projection, which is reused while all of them are unchanged. */
interface ProjectionInput extends Waits {
  readonly view: ModuleView;
  readonly isRunUnannounced: boolean;
}

/** As whom a module acts; undefined = as the operator. */
export type IdentityOf = (module: string) => ModuleStatus["identity"];

const NO_TRANSITIONS: Transitions = new Map();

/** Projects views to the wanted content of resources. Caches the last projection, and keeps its transition times. */
export class Projector {
  readonly #mode: StatusValues;
  readonly #secrets: KnownSecrets;
  readonly #identityOf: IdentityOf;
  readonly #cachedProjections = new Map<
    string,
    { readonly input: ProjectionInput; readonly projection: ModuleProjection }
  >();
  readonly #cachedValues = new Map<string, { readonly digest: string; readonly values: DisplayedValues }>();
  readonly #transitions = new Map<string, Transitions>();
  #operatorTransitions = NO_TRANSITIONS;

  /** Removes `secrets` from all texts. `identityOf` gives the account with which helm and hooks of a module act. */
  constructor(mode: StatusValues, secrets: KnownSecrets, identityOf: IdentityOf = () => undefined) {
    this.#mode = mode;
    this.#secrets = secrets;
    this.#identityOf = identityOf;
  }

  /** Projects the view and the queues at the time `now` (ms since the epoch). Redacts secrets in all texts. */
  project(snapshot: StateSnapshot, now: number): Projection {
    const { view } = snapshot;
    for (const name of this.#cachedProjections.keys()) {
      if (!view.modules.has(name)) this.#forget(name);
    }
    const modules = new Map<string, ModuleProjection>();
    let checkAgainAt = Infinity;
    for (const [name, module] of view.modules) {
      const isHidden = isRunUnannounced(module, now);
      const input = { ...collectWaits(module, snapshot), view: module, isRunUnannounced: isHidden };
      modules.set(name, this.#projectModule(input, now));
      const startedAt = module.lastRun?.startedAt ?? now;
      if (isHidden) checkAgainAt = Math.min(checkAgainAt, startedAt + ANNOUNCE_AFTER_MS);
    }
    const operator = this.#secrets.redactDeep(
      projectOperator(view, {
        now,
        previousTimes: this.#operatorTransitions,
        convergeBlocker: findConvergeBlocker(snapshot),
        failingHooks: describeFailingHooks(undefined, snapshot),
      }),
    );
    this.#operatorTransitions = indexConditionTimes(operator.status.conditions);
    return { operator, modules, checkAgainAt: checkAgainAt === Infinity ? undefined : checkAgainAt };
  }

  /** Projects a module to its AddonModule, or returns the cached projection if its inputs are unchanged: then the writer need not even compare it. */
  #projectModule(input: ProjectionInput, now: number): ModuleProjection {
    const { view } = input;
    const { name } = view;
    const old = this.#cachedProjections.get(name);
    if (old !== undefined && isSameInput(old.input, input)) return old.projection;
    const raw = projectModule(view, {
      ...input,
      now,
      previousTimes: this.#transitions.get(name) ?? NO_TRANSITIONS,
      previousStatus: old?.projection.status,
      displayedValues: this.#getDisplayedValues(view),
      identity: this.#identityOf(name),
    });
    // `#getDisplayedValues` has redacted the values already.
    const { values, ...reported } = raw.status;
    const status = { ...this.#secrets.redactDeep(reported), ...(values === undefined ? {} : { values }) };
    const projection = { ...raw, status };
    this.#transitions.set(name, indexConditionTimes(status.conditions));
    this.#cachedProjections.set(name, { input, projection });
    return projection;
  }

  /** The displayed values, from the cache if the digest of the values is unchanged. */
  #getDisplayedValues(view: ModuleView): DisplayedValues {
    if (this.#mode === "none") return {};
    const old = this.#cachedValues.get(view.name);
    if (old?.digest === view.wholeDigest) return old.values;
    const values = displayValues(view.values(), this.#mode, {
      secretPaths: view.secretPaths,
      secrets: this.#secrets,
    });
    this.#cachedValues.set(view.name, { digest: view.wholeDigest, values });
    return values;
  }

  /** Removes all that is cached of a module that was deleted. */
  #forget(name: string): void {
    this.#cachedProjections.delete(name);
    this.#cachedValues.delete(name);
    this.#transitions.delete(name);
  }
}

/**
 * Whether a cached projection is still valid. `runBlocker` is not compared, because `blockerText` contains its text. Of
 * `lostRequirement` and `requirements`, which are new objects each time, only the messages are visible.
 */
function isSameInput(
  { runBlocker: _oldBlocker, lostRequirement: oldLost, requirements: before, ...known }: ProjectionInput,
  { runBlocker: _newBlocker, lostRequirement, requirements, ...now }: ProjectionInput,
): boolean {
  const keys = Object.keys(now) as (keyof typeof now)[];
  if (oldLost?.message !== lostRequirement?.message || !keys.every((key) => known[key] === now[key]))
    return false;
  const hasSameMessage = (each: Requirement, index: number): boolean =>
    each.unmet?.message === before[index]?.unmet?.message;
  return before.length === requirements.length && requirements.every(hasSameMessage);
}
