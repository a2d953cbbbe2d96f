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
    { readonly check: ProjectionInput; readonly projection: ModuleProjection }
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
  project(at: StateSnapshot, now: number): Projection {
    const { view } = at;
    for (const name of this.#cachedProjections.keys()) {
      if (!view.modules.has(name)) this.#forget(name);
    }
    const modules = new Map<string, ModuleProjection>();
    let checkAgainAt: number | undefined;
    for (const [name, module] of view.modules) {
      const hidden = isRunUnannounced(module, now);
      modules.set(
        name,
        this.#projectModule({ ...collectWaits(module, at), view: module, isRunUnannounced: hidden }, now),
      );
      const startedAt = hidden ? (module.lastRun?.startedAt ?? now) : Number.POSITIVE_INFINITY;
      checkAgainAt = earlierTime(checkAgainAt, startedAt + ANNOUNCE_AFTER_MS);
    }
    const operator = this.#secrets.redactDeep(
      projectOperator(view, {
        now,
        previousTimes: this.#operatorTransitions,
        convergeBlocker: findConvergeBlocker(at),
        failingHooks: describeFailingHooks(undefined, at),
      }),
    );
    this.#operatorTransitions = indexConditionTimes(operator.status.conditions);
    return { operator, modules, checkAgainAt };
  }

  /** Projects a module to its AddonModule, or returns the cached projection if its inputs are unchanged. */
  #projectModule(check: ProjectionInput, now: number): ModuleProjection {
    const { view } = check;
    const { name } = view;
    const old = this.#cachedProjections.get(name);
    if (old !== undefined && isSameInput(old.check, check)) return old.projection;
    const raw = projectModule(view, {
      ...check,
      now,
      previousTimes: this.#transitions.get(name) ?? NO_TRANSITIONS,
      previousStatus: old?.projection.status,
      displayedValues: this.#getDisplayedValues(view),
      identity: this.#identityOf(name),
    });
    const { values, ...reported } = raw.status;
    const status = { ...this.#secrets.redactDeep(reported), ...(values === undefined ? {} : { values }) };
    const projection = { ...raw, status };
    this.#transitions.set(name, indexConditionTimes(status.conditions));
    this.#cachedProjections.set(name, { check, projection });
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
 * Whether a cached projection is still valid. `wait` is not compared, because `blocker` contains its text. Of `lost` and
 * `required`, only the messages are visible.
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

/** The earlier of two times; undefined and infinite mean that there is no time. */
function earlierTime(a: number | undefined, b: number): number | undefined {
  if (!Number.isFinite(b)) return a;
  return a === undefined ? b : Math.min(a, b);
}
