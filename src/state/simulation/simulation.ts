/** What the state would be with other content of the ConfigMap. */

import type { Tree } from "../../model/index.ts";
import type { ParsedConfig, ValuesStore, ValuesView } from "../../values/index.ts";
import { afterEvent } from "../module-events.ts";
import { basisOfRun, type Enablement, type ModuleRecord } from "../module-record.ts";
import { moduleView, type Terms } from "../module-view.ts";
import type { ModuleView } from "../view.ts";

interface Original {
  readonly tree: Tree;
  readonly values: ValuesView;
  module(name: string): ModuleRecord | undefined;
}

/** A copy of the state to try an edit with: the state itself does not change. */
export class Simulation {
  readonly tree: Tree;
  readonly #state: Original;
  readonly #terms: Terms;
  readonly #values: ValuesStore;
  readonly #decided = new Map<string, ModuleRecord>();

  constructor(state: Original, terms: Terms) {
    this.tree = state.tree;
    this.#state = state;
    this.#terms = terms;
    this.#values = state.values.fork();
  }

  get values(): ValuesView {
    return this.#values;
  }

  /** Puts content of the ConfigMap into force, in this copy. */
  setConfig(content: ParsedConfig): void {
    this.#values.setConfig(content, this.#values.overlay);
  }

  /** The record of a module, with the decision that was tried. */
  module(name: string): ModuleRecord | undefined {
    return this.#decided.get(name) ?? this.#state.module(name);
  }

  /** A decision of discovery about a module. */
  decide(name: string, decision: Enablement): void {
    const record = this.#state.module(name);
    if (record === undefined) return;
    const basis = () => basisOfRun(this.#values, record);
    this.#decided.set(name, afterEvent(record, basis, ["decided", decision]));
  }

  /** The view of a module. */
  view(name: string): ModuleView | undefined {
    const record = this.module(name);
    return record && moduleView(record, this.#values, this.#terms);
  }
}
