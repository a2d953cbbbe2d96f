/** The records of all modules, and the views that are made of them. */

import type { Module } from "../model/index.ts";
import { moduleView, newModuleRecord } from "./module-record.ts";
import type { ModuleRecord, Terms } from "./module-record.ts";
import type { ValuesView } from "../values/index.ts";
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
