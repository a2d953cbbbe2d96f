/** The records of all modules, and their read-only views, which add what follows from a record, its values and the settings. */

import { GLOBAL, retriesOf, type OnFailure, type Module } from "../../base/model/index.ts";
import type { ValuesView } from "../../values/index.ts";
import { newModuleRecord, type ModuleRecord, problemOf, type RevisionHealth } from "./module-record.ts";
import type { ModuleView } from "./view.ts";
import { provesBroken, type HealthCondition } from "../../kube/health/index.ts";
import { digest } from "../../base/index.ts";

/** The records of the modules of a tree (the modules that were read from the directories), by name, with a cached view of each. */
export class ModuleRecords {
  readonly #records = new Map<string, ModuleRecord>();
  readonly #values: ValuesView;
  readonly #defaults: ModuleDefaults;
  #namesInOrder: readonly string[] = [];
  #views: ModuleViews | undefined;
  readonly #outdatedViews = new Set<string>();

  constructor(values: ValuesView, defaults: ModuleDefaults) {
    this.#values = values;
    this.#defaults = defaults;
  }

  /** Adds records of new modules, updates the others, and removes records of modules that are not in the list. */
  setModules(modules: readonly Module[]): void {
    this.#namesInOrder = modules.map(({ name }) => name);
    const names = new Set(this.#namesInOrder);
    for (const name of this.#records.keys()) if (!names.has(name)) this.#records.delete(name);
    for (const module of modules) {
      const record = this.#records.get(module.name) ?? newModuleRecord(module);
      this.#records.set(module.name, { ...record, module });
    }
    this.discardAllViews();
  }

  get(name: string): ModuleRecord | undefined {
    return this.#records.get(name);
  }

  listRecords(): MapIterator<ModuleRecord> {
    return this.#records.values();
  }

  /** Stores a new record of the module, and discards its cached view. */
  set(record: ModuleRecord): void {
    this.#records.set(record.module.name, record);
    this.discardView(record.module.name);
  }

  /** Marks the cached view of a module as outdated: the next `listViews` computes it again. */
  discardView(name: string): void {
    this.#outdatedViews.add(name);
  }

  /** Discards all cached views: the next `listViews` computes them again, in the order of the tree. */
  discardAllViews(): void {
    this.#views = undefined;
  }

  /** The views of all modules by name, in the order of the tree. Computes only outdated views again, or all after `discardAllViews`. */
  listViews(): ReadonlyMap<string, ModuleView> {
    const names = this.#views === undefined ? this.#namesInOrder : [...this.#outdatedViews];
    const newViews = names.flatMap((name) => {
      const record = this.#records.get(name);
      return record === undefined ? [] : [buildModuleView(record, this.#values, this.#defaults)];
    });
    this.#outdatedViews.clear();
    this.#views = this.#views?.withReplaced(newViews) ?? new ModuleViews(newViews);
    return this.#views;
  }
}

/**
 * Immutable map of module views by name, in the order of the tree. A changed copy shares the index of positions: views are
 * read several times in each run of each module, and copying a `Map` each time would cost more than the run.
 */
export class ModuleViews implements ReadonlyMap<string, ModuleView> {
  readonly #positions: ReadonlyMap<string, number>;
  readonly #views: readonly ModuleView[];
  /** Results of `derive`, by the function that computed them. */
  readonly #derived = new Map<(view: ModuleView) => unknown, readonly unknown[]>();

  constructor(views: readonly ModuleView[], positions?: ReadonlyMap<string, number>) {
    this.#views = views;
    this.#positions = positions ?? new Map(views.map(({ name }, position) => [name, position]));
  }

  /** A copy in which the changed views replace the views of the same modules. Results of `derive` are computed again only for them. */
  withReplaced(changed: readonly ModuleView[]): ModuleViews {
    const replacements = changed.flatMap((view) => {
      const position = this.#positions.get(view.name);
      return position === undefined ? [] : [[position, view] as const];
    });
    const views = [...this.#views];
    for (const [position, view] of replacements) views[position] = view;
    const copy = new ModuleViews(views, this.#positions);
    for (const [compute, results] of this.#derived) {
      const newResults = [...results];
      for (const [position, view] of replacements) newResults[position] = compute(view);
      copy.#derived.set(compute, newResults);
    }
    return copy;
  }

  /** The results of `compute` for all views, in the order of the tree. A changed copy computes only those of changed views. */
  derive<T>(compute: (view: ModuleView) => T): readonly T[] {
    const known = this.#derived.get(compute) as readonly T[] | undefined;
    const results = known ?? this.#views.map(compute);
    this.#derived.set(compute, results);
    return results;
  }

  get size(): number {
    return this.#views.length;
  }

  has(name: string): boolean {
    return this.#positions.has(name);
  }

  get(name: string): ModuleView | undefined {
    return this.#views[this.#positions.get(name) ?? -1];
  }

  keys(): MapIterator<string> {
    return this.#positions.keys();
  }

  values(): MapIterator<ModuleView> {
    return this.#views.values();
  }

  entries(): MapIterator<[string, ModuleView]> {
    return this.#views.values().map((view): [string, ModuleView] => [view.name, view]);
  }

  [Symbol.iterator](): MapIterator<[string, ModuleView]> {
    return this.entries();
  }

  forEach(callback: (view: ModuleView, name: string, map: ReadonlyMap<string, ModuleView>) => void): void {
    for (const view of this.#views) callback(view, view.name, this);
  }
}

/** The results of `compute` for all modules, in the order of the map. After a change of one of hundreds of modules, only that one is computed again. */
export function deriveFromModules<T>(
  modules: ReadonlyMap<string, ModuleView>,
  compute: (view: ModuleView) => T,
): readonly T[] {
  return modules instanceof ModuleViews ? modules.derive(compute) : [...modules.values()].map(compute);
}

/** Whether a user has changed the release with helm since the last run: it has a newer revision than the run left, is not deployed, or is missing. */
export function isReleaseChangedByHand({ run, release }: ModuleRecord): boolean {
  const { phase, leftRevision } = run;
  const hasRun = leftRevision !== undefined && phase === "ready";
  if (!hasRun) return false;
  if (release === undefined) return true;
  return release.revision > leftRevision || release.status !== "deployed";
}

/**
 * The version of the installed chart; undefined without a release. After a run it is the version that the run left (`leftVersion`):
 * helm's record can have an older one, because a chart that renders the same objects creates no revision. The record counts before
 * the first run, after a rollback, and after a change with helm.
 */
export function getReleaseVersion({
  release,
  leftVersion,
  isReleaseChangedByHand,
}: Pick<ModuleView, "release" | "leftVersion" | "isReleaseChangedByHand">): string | undefined {
  // Helm's record is not read yet: the version must not appear before the other fields of the record do.
  if (release?.chartVersion === undefined) return undefined;
  return isReleaseChangedByHand ? release.chartVersion : (leftVersion ?? release.chartVersion);
}

/** The health of a release whose objects were not checked since it was applied. */
const NOT_CHECKED: HealthCondition = {
  status: "Unknown",
  reason: "Progressing",
  message: "Its objects were not checked yet",
};

/** The health of the current revision of the release. It is Unknown while only an earlier revision was checked. */
function getCurrentHealth({ release, health }: ModuleRecord): RevisionHealth | undefined {
  const isCurrent = health === undefined || health.revision === release?.revision;
  return isCurrent ? health : { ...health, ...NOT_CHECKED };
}

/** The condition that says why the release is not known to be healthy; undefined if it is healthy or there is no release. */
function findUnhealthyCondition(record: ModuleRecord): HealthCondition | undefined {
  if (record.release === undefined) return undefined;
  const health = getCurrentHealth(record) ?? NOT_CHECKED;
  return health.status === "True" ? undefined : health;
}

const HOW_TO_DISABLE_PROBE =
  "where it cannot work in this cluster, set health.readinessProbe: false in addon.yaml";

/** Why the readiness probe prevents Ready: it failed, or has not run yet. Undefined if it succeeded or the module has none. */
function findProbeProblem({ hooks, probe }: ModuleRecord): ModuleView["unready"] {
  const hook = hooks.find(({ item }) => item === "ready");
  if (hook === undefined) return undefined;
  if (probe === undefined)
    return { status: "Unknown", message: `Waits for the first readiness probe by ${hook.name}` };
  if (probe.failure === undefined) return undefined;
  const message = `The readiness probe by ${hook.name} fails: ${probe.failure}; ${HOW_TO_DISABLE_PROBE}`;
  return { status: "False", message };
}

/** When a module is Ready: once its release is applied, or once it is also healthy. */
type ReadyMeans = "applied" | "healthy";

/** What counts for modules that do not set it themselves: what Ready means, and what follows a failed upgrade. */
export interface ModuleDefaults {
  readonly ready: ReadyMeans;
  readonly onFailure: OnFailure;
}

/** Builds the read-only view of a module. Digests and values are computed when they are read, because few readers need them. */
export function buildModuleView(
  record: ModuleRecord,
  values: ValuesView,
  defaults: ModuleDefaults,
): ModuleView {
  const { run, ...facts } = record;
  const { module } = facts;
  const globalSection = values.mergedSection(GLOBAL);
  const ownSection = values.mergedSection(module.valuesKey);
  const flag = values.flag(module);
  const configDigests = values.digests.configInputs(module);
  // Secrets and ConfigMaps with values.
  const sources = [values.sources.currentFor(module.valuesKey), values.sources.currentFor(GLOBAL)];
  return {
    ...run,
    ...facts,
    name: module.name,
    health: getCurrentHealth(record),
    ...values.settings(module),
    problem: problemOf(record),
    flag: flag.enabled,
    isFlagUnknown: flag.isUnknown === true,
    awaitsCrds: module.crdFiles.length > 0 && module !== record.crdsAppliedFor,
    missingValues: sources.flatMap(({ missingSources }) => missingSources),
    staleValues: sources.flatMap(({ issues }) => issues),
    isReleaseChangedByHand: isReleaseChangedByHand(record),
    unready: findProbeProblem(record),
    ...deriveHealthFields(record, defaults),
    sectionDigest: configDigests.section,
    givenDigest: configDigests.given,
    configDigest: configDigests.config,
    get valuesDigest() {
      return ownSection.digest;
    },
    get wholeDigest() {
      return digest(globalSection.digest, ownSection.digest);
    },
    values: () => ({ [GLOBAL]: globalSection.values, [module.valuesKey]: ownSection.values }),
    get secretPaths() {
      return new Set([...globalSection.secretPaths, ...ownSection.secretPaths]);
    },
  };
}

/**
 * The fields that follow from the health of the release: why it prevents Ready (only if Ready requires health), and whether
 * the next run rolls back. It rolls back from a revision that proves to be broken, unless a run has tried that already.
 */
function deriveHealthFields(
  record: ModuleRecord,
  { ready, onFailure }: ModuleDefaults,
): Pick<ModuleView, "unhealthy" | "nextRunRollsBack"> {
  const unhealthy = ready === "healthy" ? findUnhealthyCondition(record) : undefined;
  if (unhealthy?.status !== "False") return { unhealthy, nextRunRollsBack: false };
  const { module, run } = record;
  // Not undefined: `findUnhealthyCondition` has found a release.
  const revision = record.release?.revision;
  const isRollbackEnabled = retriesOf(module, onFailure) !== undefined;
  const hasRunTried = run.foundUnhealthy === revision;
  const nextRunRollsBack = isRollbackEnabled && provesBroken(unhealthy) && !hasRunTried;
  const hasRollbackTarget = run.revisionWithoutRollbackTarget !== revision;
  if (hasRollbackTarget) return { unhealthy, nextRunRollsBack };
  const message = `${unhealthy.message}; there is no good revision to go back to`;
  return { unhealthy: { ...unhealthy, message }, nextRunRollsBack };
}
