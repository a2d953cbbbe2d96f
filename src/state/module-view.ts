/** The read-only views of modules that the rest of the program uses. */

import { digest } from "../lib/index.ts";
import { retriesOf } from "../helm/index.ts";
import { GLOBAL, type OnFailure } from "../model/index.ts";
import { ailingOf, awaitsCrds, knownHealth, problemOf, releaseMoved } from "./module-record.ts";
import type { ModuleRecord } from "./module-record.ts";
import type { ValuesView } from "./values/values-store.ts";
import type { ModuleView } from "./view.ts";

/** What Ready of a module takes: that its release is applied, or that it is healthy, too. */
export type ReadyMeans = "applied" | "healthy";

/** What holds for all modules, unless they say otherwise. */
export interface Terms {
  readonly ready: ReadyMeans;
  readonly onFailure: OnFailure;
}

/** What the rest of the program sees of a module; expensive parts are computed on demand, from what holds now. */
export function moduleView(record: ModuleRecord, values: ValuesView, terms: Terms): ModuleView {
  const { module, run, decided, enabled, enabledBy, enabledReason } = record;
  const { release, absent, drift, unread, troubles, files, requestedToken } = record;
  const [global, own] = [values.merged(GLOBAL), values.merged(module.valuesKey)];
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
    health: knownHealth(record),
    drift,
    unread,
    troubles,
    files,
    requestedToken,
    ...values.settings(module),
    problem: problemOf(record),
    flag: values.flag(module).enabled,
    awaitsCrds: awaitsCrds(record),
    releaseMoved: releaseMoved(record),
    ...ailments(record, terms),
    sectionDigest: values.digests.section(module),
    givenDigest: values.digests.given(module),
    configDigest: values.digests.config(module),
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
  const goesBack = rollsBack && ailing?.status === "False" && run.foundUnhealthy !== release?.revision;
  return { ailing, goesBack };
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

/** The views of all modules, each kept until its module changes. */
export class KeptViews {
  #views: ModuleViews | undefined;
  readonly #changed = new Set<string>();

  changed(name: string): void {
    this.#changed.add(name);
  }

  /** All have changed. */
  drop(): void {
    this.#views = undefined;
  }

  /** The views of before, with new ones for the modules that changed; `names` are those of all modules. */
  of(
    names: readonly string[],
    make: (name: string) => ModuleView | undefined,
  ): ReadonlyMap<string, ModuleView> {
    const views = [...(this.#views === undefined ? names : this.#changed)].flatMap(
      (name) => make(name) ?? [],
    );
    this.#changed.clear();
    this.#views = this.#views?.with(views) ?? new ModuleViews(views);
    return this.#views;
  }
}
