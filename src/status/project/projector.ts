/** Projects a view (what the operator knows in memory) to the wanted content of the AddonOperator and of all AddonModules. */

import type { KnownSecrets } from "../../lib/index.ts";
import { type Requirement } from "../../plan/index.ts";
import type { ModuleView } from "../../state/index.ts";
import { displayValues, type DisplayedValues, type StatusValues } from "./displayed-values.ts";
import { projectModule, type ModuleProjection } from "./module-status.ts";
import type { ModuleStatus, OperatorStatus } from "../models/kinds.ts";
import { collectOperatorBlockers } from "../explain/operator-state.ts";
import { projectOperator } from "./operator-status.ts";
import { ANNOUNCE_AFTER_MS, isRunUnannounced } from "../explain/module-state.ts";
import { type StateSnapshot, type Waits, collectWaits } from "../explain/blockers.ts";

/** The wanted content of all resources at one moment. The operator does not write the spec of the AddonOperator. */
export interface Projection {
  readonly operatorStatus: OperatorStatus;
  readonly modules: ReadonlyMap<string, ModuleProjection>;
  /** When to project again even without a change, because a run is old enough then to be displayed; in ms since the epoch. */
  readonly checkAgainAt: number | undefined;
}

/** The inputs of a module's projection, which is reused while all of them are unchanged. */
interface ProjectionInput extends Waits {
  readonly view: ModuleView;
  readonly isRunUnannounced: boolean;
}

/** The last projection of a module with its inputs, and the displayed values. */
interface CachedProjection {
  readonly input: ProjectionInput;
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
  readonly #identityOf: IdentityOf;
  #cache: ReadonlyMap<string, CachedProjection> = new Map();
  #operatorStatus: OperatorStatus | undefined;

  /** `mode`: how values are displayed. `secrets` are removed from all texts. `identityOf` gives the account with which helm and hooks of a module act. */
  constructor(mode: StatusValues, secrets: KnownSecrets, identityOf: IdentityOf = () => undefined) {
    this.#mode = mode;
    this.#secrets = secrets;
    this.#identityOf = identityOf;
  }

  /** Projects the view and the queues at the time `now` (ms since the epoch). Redacts secrets in all texts. */
  project(snapshot: StateSnapshot, now: number): Projection {
    const { view } = snapshot;
    const projected = new Map<string, CachedProjection>();
    let checkAgainAt = Infinity;
    for (const [name, module] of view.modules) {
      const isUnannounced = isRunUnannounced(module, now);
      const input = { ...collectWaits(module, snapshot), view: module, isRunUnannounced: isUnannounced };
      projected.set(name, this.#projectModule(input, now));
      const startedAt = module.lastRun?.startedAt ?? now;
      // A run this young is not displayed: the caller projects again when it is old enough.
      if (isUnannounced) checkAgainAt = Math.min(checkAgainAt, startedAt + ANNOUNCE_AFTER_MS);
    }
    this.#cache = projected;
    const operatorStatus = projectOperator(view, {
      now,
      previousStatus: this.#operatorStatus,
      ...collectOperatorBlockers(snapshot),
    });
    this.#operatorStatus = this.#secrets.redactDeep(operatorStatus);
    return {
      operatorStatus: this.#operatorStatus,
      modules: new Map(projected.entries().map(([name, { projection }]) => [name, projection])),
      checkAgainAt: checkAgainAt === Infinity ? undefined : checkAgainAt,
    };
  }

  /** Projects a module to its AddonModule. Returns the same object again while its inputs are unchanged, so that the writer need not compare the content. */
  #projectModule(input: ProjectionInput, now: number): CachedProjection {
    const { view } = input;
    const cached = this.#cache.get(view.name);
    if (cached !== undefined && isSameInput(cached.input, input)) return cached;
    const displayedValues = this.#getDisplayedValues(view, cached);
    const { spec, status } = projectModule(view, {
      ...input,
      now,
      previousStatus: cached?.projection.status,
      identity: this.#identityOf(view.name),
    });
    // The values are redacted already, and by other rules.
    const redacted = { ...this.#secrets.redactDeep(status), ...displayedValues };
    return { input, projection: { spec, status: redacted }, displayedValues };
  }

  /** The displayed values, from the cache if the digest of the values is unchanged. */
  #getDisplayedValues(view: ModuleView, cached: CachedProjection | undefined): DisplayedValues {
    if (this.#mode === "none") return {};
    if (cached?.input.view.wholeDigest === view.wholeDigest) return cached.displayedValues;
    const { secretPaths } = view;
    return displayValues(view.values(), this.#mode, { secretPaths, secrets: this.#secrets });
  }
}

/**
 * Whether a cached projection is still valid. `runBlocker` is not compared, because `blockerText` contains its text. Of
 * `lostRequirement` and `requirements`, which are new objects each time, only the messages are visible.
 */
function isSameInput(cached: ProjectionInput, input: ProjectionInput): boolean {
  const { runBlocker: _blocker, lostRequirement, requirements, ...comparable } = input;
  const keys = Object.keys(comparable) as (keyof typeof comparable)[];
  if (!keys.every((key) => cached[key] === comparable[key])) return false;
  if (cached.lostRequirement?.message !== lostRequirement?.message) return false;
  const hasSameMessage = ({ unmet }: Requirement, index: number): boolean =>
    unmet?.message === cached.requirements[index]?.unmet?.message;
  return cached.requirements.length === requirements.length && requirements.every(hasSameMessage);
}
