/** The records of all modules, and their views. */

import type { Module } from "../model/index.ts";
import type { ValuesView } from "../values/index.ts";
import { newModuleRecord, type ModuleRecord } from "./module-record.ts";
import { moduleView, type Terms } from "./module-view.ts";
import type { ModuleView } from "./view.ts";

/** The records of the modules of a tree, by name, with a cached view of each. */
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

  /** Adds records of new modules, updates the others, and removes records of modules that are not in the list. */
  setModules(modules: readonly Module[]): void {
    this.#names = modules.map(({ name }) => name);
    const names = new Set(this.#names);
    for (const name of this.#records.keys()) if (!names.has(name)) this.#records.delete(name);
    for (const module of modules) {
      const record = this.#records.get(module.name) ?? newModuleRecord(module);
      this.#records.set(module.name, { ...record, module });
    }
    this.allChanged();
  }

  get(name: string): ModuleRecord | undefined {
    return this.#records.get(name);
  }

  all(): MapIterator<ModuleRecord> {
    return this.#records.values();
  }

  set(record: ModuleRecord): void {
    this.#records.set(record.module.name, record);
    this.changed(record.module.name);
  }

  /** The view of the module is computed again at the next read. */
  changed(name: string): void {
    this.#changed.add(name);
  }

  /** All views are computed again at the next read, in the order of the tree. */
  allChanged(): void {
    this.#views = undefined;
  }

  /** Views of all modules, in the order of the tree. Only views of changed modules are computed again. */
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
 * Views of modules by name, in the order of the tree. A changed copy shares the index: views are read several times in
 * each run of each module, and copying a `Map` each time would cost more than the run.
 */
class ModuleViews implements ReadonlyMap<string, ModuleView> {
  readonly #places: ReadonlyMap<string, number>;
  readonly #views: readonly ModuleView[];

  constructor(views: readonly ModuleView[], places?: ReadonlyMap<string, number>) {
    this.#views = views;
    this.#places = places ?? new Map(views.map(({ name }, place) => [name, place]));
  }

  /** A copy with these views in place of those of the same names. */
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
