/** The state: the single record of everything that the operator knows. All other packages read its immutable view. */

import { yieldToEventLoop, type Clock, type KnownSecrets } from "../../base/index.ts";
import {
  GLOBAL,
  type AppliedExtenders,
  type Attributes,
  type Hook,
  type Span,
  type Tree,
} from "../../base/model/index.ts";
import { currentSpan, newCause } from "../../base/trace/index.ts";
import { ValuesStore, type ValuesView } from "../../values/index.ts";
import { applyEvent, PROGRESS_EVENTS, type ModuleEvents } from "./module-events.ts";
import type { ModuleRecord } from "./module-record.ts";
import { ModuleRecords, type ModuleDefaults } from "./module-records.ts";
import { OPERATOR_EVENTS, type EventContext, type OperatorEvents } from "./operator-events.ts";
import { collectRunInputs } from "./run-events.ts";
import { Simulation } from "./simulation.ts";
import { ValuesRecorder } from "./values-recorder.ts";
import { BLANK, NO_TREE, type OperatorState, type View } from "./view.ts";

interface StateOptions
  extends
    Partial<ModuleDefaults>,
    Partial<Pick<OperatorState, "operator" | "moduleQueues" | "invalidConfig">> {
  readonly clock: Clock;
  readonly secrets?: KnownSecrets;
  readonly chartEnabledModules?: boolean;
  readonly appliedExtenders?: AppliedExtenders;
}

/** The result of a read of modules, and the tree before it. */
export interface TreeRead {
  readonly before: Tree;
  readonly tree: Tree;
}

/** Called after changes. `origin`: the external event that led to them, if one was announced (`beginEvent`). */
type Listener = (view: View, origin?: Span) => void;

/**
 * The single record of everything that is known. It changes by events (`operator-events.ts`, `module-events.ts`), by a tree of modules
 * that was read, and by new values (`inputs`). `engine/plan/` decides from `view` what to do. Listeners are called once for several changes
 * in a row, in the order of registration.
 */
export class State {
  /** Records the inputs of the merged values: the ConfigMap, Secrets with values, patches and flags of hooks. */
  readonly inputs: ValuesRecorder;
  readonly #values: ValuesStore;
  readonly #context: EventContext;
  readonly #listeners: Listener[] = [];
  readonly #modules: ModuleRecords;
  readonly #moduleDefaults: ModuleDefaults;
  readonly #secrets: KnownSecrets | undefined;
  #tree = NO_TREE;
  #globalHooks: readonly Hook[] = [];
  #operator: OperatorState;
  #isNotifying = false;
  #notifyLater: NodeJS.Immediate | undefined;
  #view: View | undefined;
  /** The event that `beginEvent` has announced. */
  #origin: Span | undefined;

  constructor(options: StateOptions) {
    const { clock, secrets, ready = "applied", onFailure = "retry", chartEnabledModules = false } = options;
    const { operator = BLANK.operator, moduleQueues = BLANK.moduleQueues } = options;
    const { invalidConfig = BLANK.invalidConfig } = options;
    this.#operator = { ...BLANK, operator, moduleQueues, invalidConfig };
    // With `--chart-enabled-modules`, charts get the names of the enabled modules as a value.
    const listEnabledModules = chartEnabledModules ? () => this.#listEnabledModules() : undefined;
    const { namespace, name } = operator;
    const configMap = `ConfigMap ${namespace}/${name}`;
    const flagExtenders = options.appliedExtenders?.flags;
    this.#values = new ValuesStore(secrets, listEnabledModules, { configMap, namespace, flagExtenders });
    this.#context = { clock, digests: this.#values.digests };
    this.#secrets = secrets;
    this.#moduleDefaults = { ready, onFailure };
    this.#modules = new ModuleRecords(this.#values, this.#moduleDefaults);
    this.inputs = new ValuesRecorder(this, this.#values, (key) => this.#discardViewsWithValues(key));
  }

  /** Registers a listener, which gets the view after each change; several changes at once cause one call. */
  onChange(listener: Listener): void {
    this.#listeners.push(listener);
  }

  /**
   * Announces the external event that leads to the changes which are recorded next: listeners get it as their origin, a span of traces. It
   * ends with these changes, at the latest with this turn of the event loop. Has no effect within a span, which is the origin then.
   */
  beginEvent(name: string, attributes: Attributes): void {
    if (currentSpan() !== undefined) return;
    const origin = newCause(name, attributes);
    this.#origin = origin;
    void yieldToEventLoop().then(() => {
      if (this.#origin === origin) this.#origin = undefined;
    });
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

  /** The records of all modules at this moment. */
  records(): IterableIterator<ModuleRecord> {
    return this.#modules.listRecords();
  }

  /** Makes a copy of the state, with which a caller tries an edit of the ConfigMap before it is accepted. */
  createSimulation(): Simulation {
    return new Simulation(this, this.#moduleDefaults);
  }

  /** An immutable snapshot of the state. It is cached until the next change is recorded. */
  get view(): View {
    return (this.#view ??= this.#buildView());
  }

  /** Records an event of the operator as a whole: its reducer returns the changed fields. Listeners are not called if no field really changes. */
  record<E extends keyof OperatorEvents>(event: E, ...details: OperatorEvents[E]): void {
    const reduce = OPERATOR_EVENTS[event] as (
      state: OperatorState,
      context: EventContext,
      ...more: OperatorEvents[E]
    ) => Partial<OperatorState>;
    const change = reduce(this.#operator, this.#context, ...details);
    const before: Partial<Record<string, unknown>> = this.#operator;
    if (Object.entries(change).every(([key, value]) => before[key] === value)) return;
    this.#operator = { ...this.#operator, ...change };
    this.#discardViewAndNotify();
  }

  /** Records an event of a module. Has no effect if the module was removed from the tree meanwhile. After mere progress of a run, listeners are called later. */
  recordModule<E extends keyof ModuleEvents>(name: string, event: E, ...details: ModuleEvents[E]): void {
    const record = this.#modules.get(name);
    if (record === undefined) return;
    this.#modules.set(applyEvent(record, () => collectRunInputs(this.#values, record), [event, ...details]));
    if (PROGRESS_EVENTS.has(event)) this.#discardViewAndNotifyLater();
    else this.#discardViewAndNotify();
  }

  /** Records the modules that were read from the directories. Modules that are not among them lose their records. */
  recordTree(tree: Tree): void {
    this.#tree = tree;
    this.#values.setTree(tree);
    this.#modules.setModules(tree.modules);
    this.#discardViewAndNotify();
  }

  /**
   * Reads a tree of modules by `read`, which gets the current tree. Reads again if another tree was recorded meanwhile, whose changes the
   * result would revert. The caller records the result.
   */
  async readOnCurrentTree(read: (before: Tree) => Promise<Tree>): Promise<TreeRead> {
    for (;;) {
      const before = this.#tree;
      const tree = await read(before);
      if (this.#tree === before) return { before, tree };
    }
  }

  recordGlobalHooks(hooks: readonly Hook[]): void {
    this.#globalHooks = hooks;
    this.#discardViewAndNotify();
  }

  /** Discards the cached views of the modules whose values are under this key, because the values have changed; undefined = of all modules. */
  #discardViewsWithValues(valuesKey: string | undefined): void {
    if (valuesKey === undefined) {
      this.#modules.discardAllViews();
    } else {
      const affected = this.#tree.modules.filter((module) => module.valuesKey === valuesKey);
      for (const { name } of affected) this.#modules.discardView(name);
    }
    this.#discardViewAndNotify();
  }

  /** Discards the cached view after a change, and calls the listeners in a microtask: several changes in the same synchronous work cause one call. */
  #discardViewAndNotify(): void {
    this.#view = undefined;
    if (this.#isNotifying) return;
    this.#isNotifying = true;
    queueMicrotask(() => this.#notify());
  }

  /**
   * As `discardViewAndNotify`, but calls the listeners at the end of this turn of the event loop. A run that starts no process takes one
   * turn: a view for each of its steps would be a third of the work of a restart with hundreds of modules.
   */
  #discardViewAndNotifyLater(): void {
    this.#view = undefined;
    this.#notifyLater ??= setImmediate(() => this.#notify());
  }

  /** Calls the listeners, and cancels the later call of `#discardViewAndNotifyLater`. */
  #notify(): void {
    this.#isNotifying = false;
    clearImmediate(this.#notifyLater);
    this.#notifyLater = undefined;
    for (const listener of this.#listeners) listener(this.view, this.#origin);
    // A change that a listener has recorded follows from the same event.
    if (!this.#isNotifying) this.#origin = undefined;
  }

  /** Builds the view from the recorded state, and adds the fields that can be derived from it. */
  #buildView(): View {
    const modules = this.#modules.listViews();
    return {
      ...this.#operator,
      tree: this.#tree,
      modules,
      convergeDigests: this.#values.digests.convergeDigests(),
      areSourcesRead: this.#values.sources.isReadyForStart,
      missingGlobals: this.#values.sources.currentFor(GLOBAL).missingSources,
      hidesWords: this.#secrets?.isOverfull ?? false,
      get enabledModules() {
        return [...modules.values()].filter(({ enabled }) => enabled).map(({ name }) => name);
      },
    };
  }

  /** Names of the enabled modules, which charts get as a value. Reads the records, because the view is built from the values. */
  #listEnabledModules(): readonly string[] {
    return [...this.#modules.listRecords()].filter(({ enabled }) => enabled).map(({ module }) => module.name);
  }
}
