/** The single record of everything that is known; all other packages read its view. */

import type { Clock, KnownSecrets } from "../lib/index.ts";
import { GLOBAL, type Hook, type Tree } from "../model/index.ts";
import { ValuesStore, type ValuesView } from "../values/index.ts";
import { afterEvent, type ModuleEvents } from "./module-events.ts";
import { basisOfRun, type ModuleRecord } from "./module-record.ts";
import { ModuleRecords } from "./module-records.ts";
import type { Terms } from "./module-view.ts";
import { OPERATOR_EVENTS, type EventContext, type OperatorEvents } from "./operator-events.ts";
import { Simulation } from "./simulation/simulation.ts";
import { ValuesRecorder } from "./values-recorder.ts";
import { BLANK, NO_TREE } from "./view.ts";
import type { OperatorState, View } from "./view.ts";

interface StateOptions
  extends Partial<Terms>, Partial<Pick<OperatorState, "operator" | "moduleQueues" | "invalidConfig">> {
  readonly clock: Clock;
  readonly secrets?: KnownSecrets;
  readonly chartEnabledModules?: boolean;
}

/**
 * The single record of everything that is known. It changes by events (`operator-events.ts`, `module-events.ts`), by a tree
 * that was read, and by new values (`inputs`). `plan/` decides from `view` what to do. Listeners are called once per event
 * loop turn in which something was recorded, in the order of registration.
 */
export class State {
  /** Records what values are made from: the ConfigMap, patches and flags of hooks. */
  readonly inputs: ValuesRecorder;
  readonly #values: ValuesStore;
  readonly #context: EventContext;
  readonly #listeners: ((view: View) => void)[] = [];
  readonly #modules: ModuleRecords;
  readonly #terms: Terms;
  readonly #secrets: KnownSecrets | undefined;
  #tree = NO_TREE;
  #globalHooks: readonly Hook[] = [];
  #operator: OperatorState;
  #isNotifying = false;
  #view: View | undefined;

  constructor(options: StateOptions) {
    const { clock, secrets, ready = "applied", onFailure = "retry", chartEnabledModules = false } = options;
    const { operator = BLANK.operator, moduleQueues = BLANK.moduleQueues } = options;
    const { invalidConfig = BLANK.invalidConfig } = options;
    this.#operator = { ...BLANK, operator, moduleQueues, invalidConfig };
    const modules = chartEnabledModules ? () => this.#enabledModules() : undefined;
    const { namespace } = operator;
    const configMap = `ConfigMap ${namespace}/${operator.name}`;
    this.#values = new ValuesStore(secrets, modules, { configMap, namespace });
    this.#context = {
      now: () => clock.now(),
      monotonic: () => clock.monotonic(),
      convergeDigests: () => this.#values.digests.convergeDigests(),
    };
    this.#secrets = secrets;
    this.#terms = { ready, onFailure };
    this.#modules = new ModuleRecords(this.#values, this.#terms);
    this.inputs = new ValuesRecorder(this, this.#values, (valuesKey) => this.#valuesChanged(valuesKey));
  }

  onChange(listener: (view: View) => void): void {
    this.#listeners.push(listener);
  }

  get values(): ValuesView {
    return this.#values;
  }

  get tree(): Tree {
    return this.#tree;
  }

  get globalHooks(): readonly Hook[] {
    return this.#globalHooks;
  }

  /** The hooks of a module, or (undefined) the global hooks. */
  hooksOf(module: string | undefined): readonly Hook[] {
    return module === undefined ? this.#globalHooks : (this.#modules.get(module)?.hooks ?? []);
  }

  /** The record of a module at this moment, which later events do not change. */
  module(name: string): ModuleRecord | undefined {
    return this.#modules.get(name);
  }

  records(): IterableIterator<ModuleRecord> {
    return this.#modules.all();
  }

  /** A copy to try other content of the ConfigMap with. */
  simulation(): Simulation {
    return new Simulation(this, this.#terms);
  }

  /** An immutable snapshot; cached until something is recorded. */
  get view(): View {
    return (this.#view ??= this.#makeView());
  }

  /** Records what happened to the operator as a whole. */
  record<E extends keyof OperatorEvents>(event: E, ...details: OperatorEvents[E]): void {
    const changeOf = OPERATOR_EVENTS[event] as (
      state: OperatorState,
      context: EventContext,
      ...more: OperatorEvents[E]
    ) => Partial<OperatorState>;
    const change = changeOf(this.#operator, this.#context, ...details);
    const before: Partial<Record<string, unknown>> = this.#operator;
    if (Object.entries(change).every(([key, value]) => before[key] === value)) return;
    this.#operator = { ...this.#operator, ...change };
    this.#changed();
  }

  /** Records what happened to a module, if the module still exists. */
  recordModule<E extends keyof ModuleEvents>(name: string, event: E, ...details: ModuleEvents[E]): void {
    const record = this.#modules.get(name);
    if (record === undefined) return;
    this.#modules.set(afterEvent(record, () => basisOfRun(this.#values, record), [event, ...details]));
    this.#changed();
  }

  recordTree(tree: Tree): void {
    this.#tree = tree;
    this.#values.setTree(tree);
    this.#modules.setModules(tree.modules);
    this.#changed();
  }

  recordGlobalHooks(hooks: readonly Hook[]): void {
    this.#globalHooks = hooks;
    this.#changed();
  }

  /** Discards the views of the modules that use the section, or (undefined) of all modules. */
  #valuesChanged(valuesKey: string | undefined): void {
    if (valuesKey === undefined) this.#modules.allChanged();
    else
      for (const each of this.#tree.modules)
        if (each.valuesKey === valuesKey) this.#modules.changed(each.name);
    this.#changed();
  }

  /** Discards the view, and calls the listeners once after the current synchronous work. */
  #changed(): void {
    this.#view = undefined;
    if (this.#isNotifying) return;
    this.#isNotifying = true;
    queueMicrotask(() => {
      this.#isNotifying = false;
      for (const listener of this.#listeners) listener(this.view);
    });
  }

  /** Builds the view from the recorded state and what follows from it. */
  #makeView(): View {
    const modules = this.#modules.views();
    return {
      ...this.#operator,
      tree: this.#tree,
      modules,
      convergeDigests: this.#values.digests.convergeDigests(),
      areSourcesRead: this.#values.sources.isRead,
      missingGlobals: this.#values.sources.of(GLOBAL).missing,
      hidesWords: this.#secrets?.isOverfull ?? false,
      get enabledModules() {
        return [...modules.values()].filter(({ enabled }) => enabled).map(({ name }) => name);
      },
    };
  }

  /** Not read from the view: computing the view needs the values, which need this. */
  #enabledModules(): readonly string[] {
    return [...this.#modules.all()].filter(({ enabled }) => enabled).map(({ module }) => module.name);
  }
}
