/** The records of all modules, and their views. */

import type { Module } from "../model/index.ts";
import type { ValuesView } from "../values/index.ts";
import { newModuleRecord, type ModuleRecord } from "./module-record.ts";
import { buildModuleView, type ModuleDefaults } from "./module-view.ts";
import type { ModuleView } from "./view.ts";

/** The records of the modules of a tree, by name, with a cached view of each. */
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

  /** The views of all modules by name, in the order of the tree. Computes only outdated views again. */
  listViews(): ReadonlyMap<string, ModuleView> {
    const names = this.#views === undefined ? this.#namesInOrder : [...this.#outdatedViews];
    const views = names.flatMap((name) => {
      const record = this.#records.get(name);
      return record === undefined ? [] : [buildModuleView(record, this.#values, this.#defaults)];
    });
    this.#outdatedViews.clear();
    this.#views = this.#views?.withReplaced(views) ?? new ModuleViews(views);
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

  /** A copy in which the changed views replace the views of the same modules. */
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

/**
 * The results of `compute` for all modules, in the order of the map. After a change of one of hundreds of modules, only that
 * one is computed again.
 */
export function deriveFromModules<T>(
  modules: ReadonlyMap<string, ModuleView>,
  compute: (view: ModuleView) => T,
): readonly T[] {
  return modules instanceof ModuleViews ? modules.derive(compute) : [...modules.values()].map(compute);
}
