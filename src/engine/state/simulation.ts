/** Tries other content of the ConfigMap on a copy of the state: the admission webhook warns a user of what an edit would change. */

import type { Tree } from "../../base/model/index.ts";
import type { ParsedConfig, ValuesStore, ValuesView } from "../../values/index.ts";
import { applyEvent } from "./module-events.ts";
import type { Enablement, ModuleRecord } from "./module-record.ts";
import { buildModuleView, type ModuleDefaults } from "./module-records.ts";
import { collectRunInputs } from "./run-events.ts";
import type { ModuleView } from "./view.ts";

/** The part of `State` that a simulation reads. */
interface SimulatedState {
  readonly tree: Tree;
  readonly values: ValuesView;
  module(name: string): ModuleRecord | undefined;
}

/** A copy of the state to try an edit of the ConfigMap with: the state itself does not change. */
export class Simulation {
  readonly tree: Tree;
  readonly #state: SimulatedState;
  readonly #moduleDefaults: ModuleDefaults;
  readonly #values: ValuesStore;
  readonly #decidedRecords = new Map<string, ModuleRecord>();

  /** Copies the values, which `setConfig` changes. Records are copied when `decide` changes them. */
  constructor(state: SimulatedState, moduleDefaults: ModuleDefaults) {
    this.tree = state.tree;
    this.#state = state;
    this.#moduleDefaults = moduleDefaults;
    this.#values = state.values.fork();
  }

  get values(): ValuesView {
    return this.#values;
  }

  /** Applies content of the ConfigMap in this copy. */
  setConfig(content: ParsedConfig): void {
    this.#values.setConfig(content, this.#values.overlay);
  }

  /** The record of a module, with the simulated decision if there was one. */
  module(name: string): ModuleRecord | undefined {
    return this.#decidedRecords.get(name) ?? this.#state.module(name);
  }

  /** Records in the copy that discovery has decided whether the module is enabled. Has no effect if there is no such module. */
  decide(name: string, decision: Enablement): void {
    const record = this.#state.module(name);
    if (record === undefined) return;
    const collectInputs = () => collectRunInputs(this.#values, record);
    this.#decidedRecords.set(name, applyEvent(record, collectInputs, ["enablementDecided", decision]));
  }

  /** The view of a module with the simulated content and decision. */
  viewOf(name: string): ModuleView | undefined {
    const record = this.module(name);
    return record && buildModuleView(record, this.#values, this.#moduleDefaults);
  }
}
