/** Computes from a view what the resources should say. */

import type { KnownSecrets } from "../../lib/index.ts";
import {
  failingOf,
  type Moment,
  reloadHold,
  type Requirement,
  type Waits,
  waitsOf,
} from "../../plan/index.ts";
import type { ModuleView } from "../../state/index.ts";
import { projectModule, showValues } from "./module-status.ts";
import type { ModuleProjection, ShownValues, StatusValues } from "./module-status.ts";
import { type OperatorProjection, projectOperator } from "./operator-status.ts";
import { ANNOUNCE_AFTER_MS, type Transitions, isHidden, transitionsOf } from "./verdict.ts";

/** Everything that is to be shown at one moment. */
export interface Projection {
  readonly operator: OperatorProjection;
  readonly modules: ReadonlyMap<string, ModuleProjection>;
  /** When to look again although nothing may have changed: a run becomes old enough to be announced. */
  readonly lookAgainAt: number | undefined;
}

/** What a projection is made from; while all of it is the same, so is the projection. */
interface Look extends Waits {
  readonly view: ModuleView;
  readonly hidden: boolean;
}

const NO_TRANSITIONS: Transitions = new Map();

/** Projects views one after the other and keeps the last projection, for transition times and to save work. */
export class Projector {
  readonly #mode: StatusValues;
  readonly #secrets: KnownSecrets;
  readonly #cached = new Map<string, { readonly look: Look; readonly projection: ModuleProjection }>();
  readonly #shown = new Map<string, { readonly digest: string; readonly values: ShownValues }>();
  readonly #transitions = new Map<string, Transitions>();
  #operatorTransitions = NO_TRANSITIONS;

  /** `secrets` are removed from all texts. */
  constructor(mode: StatusValues, secrets: KnownSecrets) {
    this.#mode = mode;
    this.#secrets = secrets;
  }

  /** What is to be shown of a view and the queues at `now` (ms since the epoch). */
  project(at: Moment, now: number): Projection {
    const { view } = at;
    for (const name of this.#cached.keys()) {
      if (!view.modules.has(name)) this.#forget(name);
    }
    const modules = new Map<string, ModuleProjection>();
    let lookAgainAt: number | undefined;
    for (const [name, module] of view.modules) {
      const hidden = isHidden(module, now);
      modules.set(name, this.#module({ ...waitsOf(module, at), view: module, hidden }, now));
      const startedAt = hidden ? (module.lastRun?.startedAt ?? now) : Number.POSITIVE_INFINITY;
      lookAgainAt = earlier(lookAgainAt, startedAt + ANNOUNCE_AFTER_MS);
    }
    const operator = this.#secrets.redactDeep(
      projectOperator(view, {
        now,
        before: this.#operatorTransitions,
        hold: reloadHold(at),
        failing: failingOf(undefined, at),
      }),
    );
    this.#operatorTransitions = transitionsOf(operator.status.conditions);
    return { operator, modules, lookAgainAt };
  }

  #module(look: Look, now: number): ModuleProjection {
    const { view } = look;
    const { name } = view;
    const old = this.#cached.get(name);
    if (old !== undefined && isSame(old.look, look)) return old.projection;
    const raw = projectModule(view, {
      ...look,
      now,
      before: this.#transitions.get(name) ?? NO_TRANSITIONS,
      shownBefore: old?.projection.status,
      shown: this.#values(view),
    });
    const { values, ...told } = raw.status;
    const status = { ...this.#secrets.redactDeep(told), ...(values === undefined ? {} : { values }) };
    const projection = { ...raw, status };
    this.#transitions.set(name, transitionsOf(status.conditions));
    this.#cached.set(name, { look, projection });
    return projection;
  }

  #values(view: ModuleView): ShownValues {
    if (this.#mode === "none") return {};
    const old = this.#shown.get(view.name);
    if (old?.digest === view.wholeDigest) return old.values;
    const values = showValues(view.values(), this.#mode, {
      secretPaths: view.secretPaths,
      secrets: this.#secrets,
    });
    this.#shown.set(view.name, { digest: view.wholeDigest, values });
    return values;
  }

  #forget(name: string): void {
    this.#cached.delete(name);
    this.#shown.delete(name);
    this.#transitions.delete(name);
  }
}

/** What it waits for is said in `hold` as well, what it has lost in `required`. */
function isSame(
  { wait: _a, lost: a, required: before, ...known }: Look,
  { wait: _b, lost: b, required, ...now }: Look,
): boolean {
  const keys = Object.keys(now) as (keyof typeof now)[];
  if (a?.message !== b?.message || !keys.every((key) => known[key] === now[key])) return false;
  const isLike = (each: Requirement, place: number): boolean =>
    each.unmet?.message === before[place]?.unmet?.message;
  return before.length === required.length && required.every(isLike);
}

function earlier(a: number | undefined, b: number): number | undefined {
  if (!Number.isFinite(b)) return a;
  return a === undefined ? b : Math.min(a, b);
}
