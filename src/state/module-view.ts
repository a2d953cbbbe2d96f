/** The read-only views of modules that the rest of the program uses. */

import { digest } from "../lib/index.ts";
import { GLOBAL } from "../model/index.ts";
import type { Tree } from "../model/index.ts";
import { problemOf, releaseMoved } from "./module-record.ts";
import type { ModuleRecord } from "./module-record.ts";
import type { ValuesView } from "./values/values-store.ts";
import type { ModuleView } from "./view.ts";

/** Explains why a module does not run. */
export type Hold = (module: string) => string | undefined;

/** What the rest of the program sees of a module; expensive parts are computed on demand. */
export function moduleView(record: ModuleRecord, values: ValuesView, hold: Hold): ModuleView {
  const { module, run, decided, enabled, enabledBy, enabledReason } = record;
  const { release, absent, unread, troubles, requestedToken } = record;
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
    unread,
    troubles,
    requestedToken,
    ...values.settings(module),
    problem: problemOf(record),
    releaseMoved: releaseMoved(record),
    sectionDigest: values.moduleConfigDigest(module),
    configDigest: values.configDigest(module),
    get valuesDigest() {
      return values.merged(module.valuesKey).digest;
    },
    get wholeDigest() {
      return digest(values.merged(GLOBAL).digest, values.merged(module.valuesKey).digest);
    },
    values: () => ({
      [GLOBAL]: values.merged(GLOBAL).values,
      [module.valuesKey]: values.merged(module.valuesKey).values,
    }),
    get secretPaths() {
      return values.secretPaths(module.valuesKey);
    },
    get hold() {
      return hold(module.name);
    },
  };
}

/**
 * The views of all modules in the order of the tree, updated in place: they are read several times in each run of
 * each module, and a copy each time would take most of the memory of a start with many modules.
 */
export class ModuleViews {
  #shown: Map<string, ModuleView> | undefined;
  readonly #changed = new Set<string>();

  changed(name: string): void {
    this.#changed.add(name);
  }

  allChanged(): void {
    this.#shown = undefined;
  }

  /** Rebuilds the views that have changed since the last call. */
  show(tree: Tree, make: (name: string) => ModuleView | undefined): ReadonlyMap<string, ModuleView> {
    const names = this.#shown === undefined ? tree.modules.map(({ name }) => name) : this.#changed;
    this.#shown ??= new Map();
    for (const name of names) {
      const view = make(name);
      if (view !== undefined) this.#shown.set(name, view);
    }
    this.#changed.clear();
    return this.#shown;
  }
}

export function namesOfEnabled(modules: ReadonlyMap<string, ModuleView>): string[] {
  return [...modules.values()].filter(({ enabled }) => enabled).map(({ name }) => name);
}
