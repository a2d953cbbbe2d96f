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
import { projectModule, displayValues } from "./module-status.ts";
import type { ModuleProjection, DisplayedValues, StatusValues } from "./module-status.ts";
import type { ModuleStatus } from "../models/kinds.ts";
import { type OperatorProjection, projectOperator } from "./operator-status.ts";
import { ANNOUNCE_AFTER_MS, type Transitions, isHidden, transitionsOf } from "./evaluation.ts";

/** The wanted content of all resources at one moment. */
export interface Projection {
  readonly operator: OperatorProjection;
  readonly modules: ReadonlyMap<string, ModuleProjection>;
  /** When to project again even without a change: then a run is old enough to be announced. */
  readonly checkAgainAt: number | undefined;
}

/** Cache key: a projection is reused while all of this is unchanged. */
interface ProjectionInput extends Waits {
  readonly view: ModuleView;
  readonly hidden: boolean;
}

/** As whom a module acts; undefined = as the operator. */
export type IdentityOf = (module: string) => ModuleStatus["identity"];

const NO_TRANSITIONS: Transitions = new Map();

/** Projects views, and keeps the last projection for transition times and as a cache. */
export class Projector {
  readonly #mode: StatusValues;
  readonly #secrets: KnownSecrets;
  readonly #identityOf: IdentityOf;
  readonly #cached = new Map<
    string,
    { readonly check: ProjectionInput; readonly projection: ModuleProjection }
  >();
  readonly #displayed = new Map<string, { readonly digest: string; readonly values: DisplayedValues }>();
  readonly #transitions = new Map<string, Transitions>();
  #operatorTransitions = NO_TRANSITIONS;

  /** Removes `secrets` from all texts. `identityOf` gives the account with which helm and hooks of a module act. */
  constructor(mode: StatusValues, secrets: KnownSecrets, identityOf: IdentityOf = () => undefined) {
    this.#mode = mode;
    this.#secrets = secrets;
    this.#identityOf = identityOf;
  }

  /** Projects view and queues at `now` (ms since the epoch). */
  project(at: StateSnapshot, now: number): Projection {
    const { view } = at;
    for (const name of this.#cached.keys()) {
      if (!view.modules.has(name)) this.#forget(name);
    }
    const modules = new Map<string, ModuleProjection>();
    let checkAgainAt: number | undefined;
    for (const [name, module] of view.modules) {
      const hidden = isHidden(module, now);
      modules.set(name, this.#module({ ...collectWaits(module, at), view: module, hidden }, now));
      const startedAt = hidden ? (module.lastRun?.startedAt ?? now) : Number.POSITIVE_INFINITY;
      checkAgainAt = earlier(checkAgainAt, startedAt + ANNOUNCE_AFTER_MS);
    }
    const operator = this.#secrets.redactDeep(
      projectOperator(view, {
        now,
        before: this.#operatorTransitions,
        hold: findConvergeBlocker(at),
        failing: describeFailingHooks(undefined, at),
      }),
    );
    this.#operatorTransitions = transitionsOf(operator.status.conditions);
    return { operator, modules, checkAgainAt };
  }

  /** The AddonModule of a module, from the cache if nothing about it has changed. */
  #module(check: ProjectionInput, now: number): ModuleProjection {
    const { view } = check;
    const { name } = view;
    const old = this.#cached.get(name);
    if (old !== undefined && isSameInput(old.check, check)) return old.projection;
    const raw = projectModule(view, {
      ...check,
      now,
      before: this.#transitions.get(name) ?? NO_TRANSITIONS,
      displayedBefore: old?.projection.status,
      displayed: this.#values(view),
      identity: this.#identityOf(name),
    });
    const { values, ...reported } = raw.status;
    const status = { ...this.#secrets.redactDeep(reported), ...(values === undefined ? {} : { values }) };
    const projection = { ...raw, status };
    this.#transitions.set(name, transitionsOf(status.conditions));
    this.#cached.set(name, { check, projection });
    return projection;
  }

  /** The displayed values, from the cache if the digest of the values is unchanged. */
  #values(view: ModuleView): DisplayedValues {
    if (this.#mode === "none") return {};
    const old = this.#displayed.get(view.name);
    if (old?.digest === view.wholeDigest) return old.values;
    const values = displayValues(view.values(), this.#mode, {
      secretPaths: view.secretPaths,
      secrets: this.#secrets,
    });
    this.#displayed.set(view.name, { digest: view.wholeDigest, values });
    return values;
  }

  #forget(name: string): void {
    this.#cached.delete(name);
    this.#displayed.delete(name);
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

/** The earlier of two times. An infinite `b` does not count. */
function earlier(a: number | undefined, b: number): number | undefined {
  if (!Number.isFinite(b)) return a;
  return a === undefined ? b : Math.min(a, b);
}
