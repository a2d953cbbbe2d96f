/** The records of all modules, and the views that are made of them. */

import { provesBroken, type HealthVerdict } from "../health/index.ts";
import { digest } from "../lib/index.ts";
import { GLOBAL, retriesOf, type Module, type OnFailure, type Problem } from "../model/index.ts";
import type { ValuesView } from "../values/index.ts";
import { newModuleRecord, type ModuleRecord, type RevisionHealth } from "./module-record.ts";
import type { ModuleView } from "./view.ts";

/** The records of the modules of a tree, by name, with a view of each that is kept until its module changes. */
export class ModuleRecords {
  readonly #records = new Map<string, ModuleRecord>();
  readonly #values: ValuesView;
  readonly #terms: Terms;
  #names: readonly string[] = [];
  #views: ModuleViews | undefined;
  readonly #changed = new Set<string>();

  constructor(values: ValuesView, terms: Terms) {
    this.#values = values;
    this.#terms = terms;
  }

  /** From now on there is a record for each of these modules and for no other. */
  take(modules: readonly Module[]): void {
    this.#names = modules.map(({ name }) => name);
    const names = new Set(this.#names);
    for (const name of this.#records.keys()) if (!names.has(name)) this.#records.delete(name);
    for (const module of modules) {
      const record = this.#records.get(module.name);
      if (record === undefined) this.#records.set(module.name, newModuleRecord(module));
      else record.module = module;
    }
    this.allChanged();
  }

  get(name: string): ModuleRecord | undefined {
    return this.#records.get(name);
  }

  all(): MapIterator<ModuleRecord> {
    return this.#records.values();
  }

  changed(name: string): void {
    this.#changed.add(name);
  }

  allChanged(): void {
    this.#views = undefined;
  }

  /** Views of all modules, in the order of the tree; new ones of those that have changed. */
  views(): ReadonlyMap<string, ModuleView> {
    const names = this.#views === undefined ? this.#names : [...this.#changed];
    const views = names.flatMap((name) => {
      const record = this.#records.get(name);
      return record === undefined ? [] : [moduleView(record, this.#values, this.#terms)];
    });
    this.#changed.clear();
    this.#views = this.#views?.with(views) ?? new ModuleViews(views);
    return this.#views;
  }
}

/**
 * Views of modules by name, in the order of the tree. One with a changed view shares the places of all others: they are
 * read several times in each run of each module, and a copied `Map` each time would cost more than the run itself.
 */
class ModuleViews implements ReadonlyMap<string, ModuleView> {
  readonly #places: ReadonlyMap<string, number>;
  readonly #views: readonly ModuleView[];

  constructor(views: readonly ModuleView[], places?: ReadonlyMap<string, number>) {
    this.#views = views;
    this.#places = places ?? new Map(views.map(({ name }, place) => [name, place]));
  }

  /** The same with these views in place of those of the same names. */
  with(changed: readonly ModuleView[]): ModuleViews {
    const views = [...this.#views];
    for (const view of changed) {
      const place = this.#places.get(view.name);
      if (place !== undefined) views[place] = view;
    }
    return new ModuleViews(views, this.#places);
  }

  get size(): number {
    return this.#views.length;
  }

  has(name: string): boolean {
    return this.#places.has(name);
  }

  get(name: string): ModuleView | undefined {
    return this.#views[this.#places.get(name) ?? -1];
  }

  keys(): MapIterator<string> {
    return this.#places.keys();
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

  forEach(call: (view: ModuleView, name: string, map: ReadonlyMap<string, ModuleView>) => void): void {
    for (const view of this.#views) call(view, view.name, this);
  }
}

/** The problem of files, hooks or schemas that cannot be used. */
export function brokenFiles(record: Readonly<ModuleRecord>): boolean {
  return record.module.problem !== undefined || record.loadProblem !== undefined;
}

/** Whether the CRDs of its files as they were last read are still to be applied: no run of it begins before. */
function awaitsCrds({ module, withCrds }: Readonly<ModuleRecord>): boolean {
  return module.crdFiles.length > 0 && module !== withCrds;
}

/** The problem that a person has to solve: broken files, or a decision that cannot be carried out. */
export function problemOf(record: ModuleRecord): Problem | undefined {
  return record.module.problem ?? record.loadProblem ?? record.decisionProblem;
}

/**
 * The release on the server is newer than what the last run left, not deployed, or gone: somebody changed it by
 * hand, or deleted the record of what was in force.
 */
export function releaseMoved({ run, release }: ModuleRecord): boolean {
  const { phase, leftRevision: left } = run;
  if (left === undefined || phase !== "ready") return false;
  if (release === undefined) return true;
  return release.revision > left || release.status !== "deployed";
}

/** A release that was not looked at since it was applied. */
const UNSEEN: HealthVerdict = {
  status: "Unknown",
  reason: "Progressing",
  message: "Its objects were not looked at yet",
};

/** What is known of the health of its release; of another revision, nothing is. */
function knownHealth({ release, health }: ModuleRecord): RevisionHealth | undefined {
  return health === undefined || health.revision === release?.revision ? health : { ...health, ...UNSEEN };
}

/** Why a release is not known to be healthy; undefined where it is, and where there is none. */
function ailingOf(record: ModuleRecord): HealthVerdict | undefined {
  if (record.release === undefined) return undefined;
  const health = knownHealth(record) ?? UNSEEN;
  return health.status === "True" ? undefined : health;
}

/** For probes that need what the cluster does not have. */
const LEAVE_OUT = "where it cannot work in this cluster, set health.readinessProbe: false in addon.yaml";

function unreadyOf({ hooks, probe }: ModuleRecord): ModuleView["unready"] {
  const hook = hooks.find(({ item }) => item === "ready");
  if (hook === undefined) return undefined;
  if (probe === undefined)
    return { status: "Unknown", message: `Waits for the first readiness probe by ${hook.name}` };
  const { failure } = probe;
  return failure === undefined
    ? undefined
    : { status: "False", message: `The readiness probe by ${hook.name} fails: ${failure}; ${LEAVE_OUT}` };
}

/** What Ready of a module takes: that its release is applied, or that it is healthy, too. */
type ReadyMeans = "applied" | "healthy";

/** What holds for all modules, unless they say otherwise. */
export interface Terms {
  readonly ready: ReadyMeans;
  readonly onFailure: OnFailure;
}

/** What the rest of the program sees of a module; expensive parts are computed on demand, from what holds now. */
function moduleView(record: ModuleRecord, values: ValuesView, terms: Terms): ModuleView {
  const { module, run, decided, enabled, enabledBy, enabledReason } = record;
  const { release, absent, deferred, drift, crdWork, unread, troubles, files, requestedToken, leaves } =
    record;
  const [global, own] = [values.merged(GLOBAL), values.merged(module.valuesKey)];
  const basis = values.basisOf(module);
  return {
    ...run,
    name: module.name,
    module,
    decided,
    enabled,
    enabledBy,
    enabledReason,
    release,
    absent,
    deferred,
    health: knownHealth(record),
    drift,
    crdWork,
    unread,
    troubles,
    files,
    requestedToken,
    leaves,
    ...values.settings(module),
    problem: problemOf(record),
    flag: values.flag(module).enabled,
    awaitsCrds: awaitsCrds(record),
    releaseMoved: releaseMoved(record),
    ...ailments(record, terms),
    unready: unreadyOf(record),
    sectionDigest: basis.section,
    givenDigest: basis.given,
    configDigest: basis.config,
    get valuesDigest() {
      return own.digest;
    },
    get wholeDigest() {
      return digest(global.digest, own.digest);
    },
    values: () => ({ [GLOBAL]: global.values, [module.valuesKey]: own.values }),
    get secretPaths() {
      return new Set([...global.secretPaths, ...own.secretPaths]);
    },
  };
}

function ailments(
  record: ModuleRecord,
  { ready, onFailure }: Terms,
): Pick<ModuleView, "ailing" | "goesBack"> {
  const ailing = ready === "healthy" ? ailingOf(record) : undefined;
  const { module, run, release } = record;
  const rollsBack = retriesOf(module, onFailure) !== undefined;
  if (ailing?.status !== "False") return { ailing, goesBack: false };
  const goesBack = rollsBack && provesBroken(ailing) && run.foundUnhealthy !== release?.revision;
  const isStuck = run.withoutWayBack !== undefined && run.withoutWayBack === release?.revision;
  const message = `${ailing.message}; there is no good revision to go back to`;
  return { ailing: isStuck ? { ...ailing, message } : ailing, goesBack };
}
