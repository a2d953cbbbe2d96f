import { digest } from "../lib/index.ts";
import type { Clock } from "../lib/index.ts";
import type { EnabledBy, Hook, Module, Problem, Tree } from "../model/index.ts";
import type { ParsedConfig } from "../values/index.ts";
import { newModuleRecord, problemOf, releaseMoved, resetRun } from "./module-record.ts";
import type { ModuleRecord } from "./module-record.ts";
import { GLOBAL } from "./sections.ts";
import { ValuesStore } from "./values-store.ts";
import type {
  BootPhase,
  Cause,
  ConfigCondition,
  ConfigView,
  ConvergePhase,
  ConvergeView,
  ModuleView,
  ReleaseView,
  View,
} from "./view.ts";

const EMPTY_TREE: Tree = {
  modules: [],
  globalValues: undefined,
  globalSchemas: {},
  globalHookFiles: [],
  problems: [],
  warnings: [],
  purgeHolds: [],
};

/** A decision of modules discovery about one module (LIFECYCLE "Modules discovery"). */
export interface Decision {
  readonly enabled: boolean;
  readonly by: EnabledBy;
  readonly reason?: string;
  readonly problem?: Problem;
}

/** The state of the ConfigMap on the server. */
export interface ConfigObservation {
  readonly condition: ConfigCondition;
  readonly problems: readonly Problem[];
  readonly resourceVersion: string | undefined;
  /** New content to take into force; undefined keeps the last good one. */
  readonly content?: ParsedConfig;
  readonly overlay?: ParsedConfig | undefined;
}

/**
 * The one record of what is known. Methods record facts and never decide; `view` is what the rest of the program
 * reads. `onChange` is told once per turn in which something was recorded.
 */
export class State {
  readonly values = new ValuesStore();
  readonly #clock: Clock;
  readonly #onChange: () => void;
  readonly #records = new Map<string, ModuleRecord>();
  #tree = EMPTY_TREE;
  #globalHooks: readonly Hook[] = [];
  #boot: BootPhase = "loading";
  #config: ConfigView = {
    condition: "ok",
    problems: [],
    resourceVersion: undefined,
    unknownKeys: [],
    digest: "",
  };
  #converge: ConvergeView = {
    phase: "idle",
    cause: "",
    startedAt: undefined,
    finishedAt: undefined,
    remaining: 0,
    covered: undefined,
    rounds: 0,
  };
  #globalCause: Cause | undefined;
  #tokens: { requested: string | undefined; handled: string | undefined } = {
    requested: undefined,
    handled: undefined,
  };
  /** Bindings of global hooks whose Synchronization succeeded. */
  readonly globalSynchronized = new Set<string>();
  #secondLook = false;
  readonly #missed = new Map<string, number>();
  #holds: readonly string[] = [];
  #missingRights: readonly string[] = [];
  #hold: (name: string) => string | undefined = () => undefined;
  #notified = false;
  #view: View | undefined;
  readonly #moduleViews = new Map<string, ModuleView>();

  constructor(options: { clock: Clock; onChange: () => void }) {
    this.#clock = options.clock;
    this.#onChange = options.onChange;
  }

  get tree(): Tree {
    return this.#tree;
  }

  get globalHooks(): readonly Hook[] {
    return this.#globalHooks;
  }

  /** The record of a module; change it through `update` only. */
  module(name: string): Readonly<ModuleRecord> | undefined {
    return this.#records.get(name);
  }

  records(): IterableIterator<Readonly<ModuleRecord>> {
    return this.#records.values();
  }

  /** Notes that the picture changed: of one module, or (without a name) of all. */
  #touched(name?: string): void {
    this.#view = undefined;
    if (name === undefined) this.#moduleViews.clear();
    else this.#moduleViews.delete(name);
    if (this.#notified) return;
    this.#notified = true;
    queueMicrotask(() => {
      this.#notified = false;
      this.#onChange();
    });
  }

  /** Changes a module's record, if the module is still there. */
  update(name: string, change: (record: ModuleRecord) => void): void {
    const record = this.#records.get(name);
    if (record === undefined) return;
    change(record);
    this.#touched(name);
  }

  recordTree(tree: Tree): void {
    this.#tree = tree;
    this.values.setTree(tree);
    const names = new Set(tree.modules.map((module) => module.name));
    for (const name of this.#records.keys()) if (!names.has(name)) this.#records.delete(name);
    for (const module of tree.modules) {
      const record = this.#records.get(module.name);
      if (record === undefined) this.#records.set(module.name, newModuleRecord(module));
      else record.module = module;
    }
    this.#touched();
  }

  recordGlobalHooks(hooks: readonly Hook[]): void {
    this.#globalHooks = hooks;
    this.#touched();
  }

  recordBoot(phase: BootPhase): void {
    this.#boot = phase;
    this.#touched();
  }

  recordConfig(seen: ConfigObservation, cause: Cause): void {
    this.#lookAtHeld(seen.condition);
    if (seen.content !== undefined) {
      const before = this.values.globalConfigDigest();
      const sections = new Map(
        [...this.#records].map(([name, each]) => [name, this.values.moduleConfigDigest(each.module)]),
      );
      this.values.setConfig(seen.content, seen.overlay);
      if (this.values.globalConfigDigest() !== before) this.#globalCause = cause;
      const reloads = this.values.globalConfigDigest() !== before;
      for (const [name, record] of this.#records) {
        if (this.values.moduleConfigDigest(record.module) === sections.get(name)) continue;
        record.cause = cause;
        if (record.decided && !record.enabled && !reloads) this.#cover(record);
      }
    }
    this.#config = {
      condition: seen.condition,
      problems: seen.problems,
      resourceVersion: seen.resourceVersion,
      unknownKeys: this.values.config?.unknownKeys ?? [],
      digest: digest(
        this.values.globalConfigDigest(),
        ...[...this.#records.values()].map((each) => this.values.moduleConfigDigest(each.module)),
      ),
    };
    this.#touched();
  }

  /** What was held back for want of a ConfigMap is looked at again when it returns. */
  #lookAtHeld(now: ConfigCondition): void {
    const returned = this.#config.condition === "missing" && now !== "missing";
    if (returned && this.#holds.length > 0) this.#secondLook = true;
  }

  /** A change of globals or flags made by a hook. */
  recordGlobalCause(cause: Cause): void {
    this.#globalCause = cause;
    this.#touched();
  }

  recordConverge(change: Partial<ConvergeView>): void {
    this.#converge = { ...this.#converge, ...change };
    this.#touched();
  }

  /** Starts a reload: what it will have taken into account is noted before it looks at anything. */
  startConverge(cause: string): void {
    this.#secondLook = false;
    this.#tokens = { ...this.#tokens, handled: this.#tokens.requested ?? this.#tokens.handled };
    this.recordConverge({
      phase: "beforeAll",
      cause,
      startedAt: this.#clock.now(),
      finishedAt: undefined,
      covered: { config: this.values.globalConfigDigest(), globals: undefined },
    });
  }

  /**
   * Takes a hook's own write to the ConfigMap into force. The write itself asks for nothing, as what it changes is
   * seen in the merged values; so whatever was covered before it stays covered, in the same turn.
   */
  recordOwnConfig(seen: ConfigObservation): void {
    const before = this.#configDigests();
    this.recordConfig(seen, { text: "hook changed the ConfigMap", place: "back" });
    const after = this.#configDigests();
    const covered = this.#converge.covered;
    if (covered?.config === before.global)
      this.recordConverge({ covered: { ...covered, config: after.global } });
    for (const [name, section] of before.sections)
      this.#coverSection(name, { section, global: before.global });
  }

  #configDigests(): { global: string; sections: Map<string, string> } {
    const sections = [...this.#records].map(
      ([name, record]) => [name, this.values.moduleConfigDigest(record.module)] as const,
    );
    return { global: this.values.globalConfigDigest(), sections: new Map(sections) };
  }

  #coverSection(name: string, before: { section: string; global: string }): void {
    this.update(name, (record) => {
      const section = this.values.moduleConfigDigest(record.module);
      if (record.attemptedSectionDigest === before.section) record.attemptedSectionDigest = section;
      if (record.handledSectionDigest === before.section) record.handledSectionDigest = section;
      if (record.handledConfigDigest === digest(before.section, before.global)) {
        record.handledConfigDigest = digest(section, this.values.globalConfigDigest());
      }
    });
  }

  /** Whether the reload under way took the configuration in force into account. */
  coversConfig(): boolean {
    return this.#converge.covered?.config === this.values.globalConfigDigest();
  }

  /** The reload under way takes the configuration in force into account: discovery is still to come. */
  coverConfig(): void {
    const globals = this.#converge.covered?.globals;
    this.recordConverge({ covered: { config: this.values.globalConfigDigest(), globals } });
  }

  /** Discovery looks at globals and flags from here on: later changes ask for another reload. */
  coverGlobals(): void {
    const config = this.#converge.covered?.config ?? this.values.globalConfigDigest();
    this.recordConverge({ covered: { config, globals: this.values.globalsDigest() } });
  }

  setPhase(phase: ConvergePhase): void {
    this.recordConverge({ phase });
  }

  finishConverge(rounds: number): void {
    this.recordConverge({ phase: "idle", finishedAt: this.#clock.now(), remaining: 0, rounds });
    if (this.#boot === "converging") this.recordBoot("running");
  }

  recordDecision(name: string, decision: Decision): void {
    this.update(name, (record) => {
      if (decision.enabled && !record.enabled) resetRun(record);
      // A decision was reached: what its script, or a module now off, failed at is over.
      if (!decision.enabled || record.retry?.reason === "ScriptFailed") record.retry = undefined;
      record.enabled = decision.enabled;
      record.enabledBy = decision.by;
      record.enabledReason = decision.reason;
      record.decisionProblem = decision.problem;
      record.decided = true;
      // There is nothing to run: the decision itself is what the configuration and a request lead to.
      if (!decision.enabled || problemOf(record) !== undefined) this.#cover(record);
    });
  }

  /** A run found that a person is needed; until the configuration moves or a reload looks again. */
  recordProblem(name: string, problem: Problem): void {
    this.update(name, (record) => {
      record.activity = "none";
      record.decisionProblem = problem;
      this.#cover(record);
    });
  }

  #cover(record: ModuleRecord): void {
    const section = this.values.moduleConfigDigest(record.module);
    record.handledSectionDigest = section;
    record.handledConfigDigest = digest(section, this.values.globalConfigDigest());
    record.handledToken = record.requestedToken ?? record.handledToken;
  }

  recordRelease(name: string, release: ReleaseView | undefined): void {
    this.update(name, (record) => {
      record.release = release;
    });
  }

  recordRequest(name: string | undefined, token: string): void {
    if (name === undefined) this.#tokens = { ...this.#tokens, requested: token };
    else this.update(name, (record) => void (record.requestedToken = token));
    this.#touched();
  }

  /** Takes back what was handled before a restart, so that an old token does not start a run. */
  recordHandledToken(name: string | undefined, token: string | undefined): void {
    if (name === undefined) this.#tokens = { ...this.#tokens, handled: token };
    else this.update(name, (record) => void (record.handledToken = token));
    this.#touched();
  }

  /** A second look at the directories is due: what was missed once may now be gone for good. */
  recordSecondLook(): void {
    this.#secondLook = true;
    this.#touched();
  }

  /** Of the releases that miss their directory now, those that did so already at `since` (ms since the epoch). */
  missedBefore(names: readonly string[], since: number): string[] {
    for (const name of this.#missed.keys()) if (!names.includes(name)) this.#missed.delete(name);
    for (const name of names) if (!this.#missed.has(name)) this.#missed.set(name, this.#clock.now());
    return names.filter((name) => (this.#missed.get(name) ?? Infinity) <= since);
  }

  recordHolds(holds: readonly string[]): void {
    this.#holds = holds;
    this.#touched();
  }

  recordMissingRights(rights: readonly string[]): void {
    this.#missingRights = rights;
    this.#touched();
  }

  /** Who explains why a module does not run (plan); asked when the view is made. */
  explainWith(hold: (name: string) => string | undefined): void {
    this.#hold = hold;
  }

  enabledModules(): string[] {
    return this.#tree.modules
      .filter((module) => this.#records.get(module.name)?.enabled === true)
      .map((module) => module.name);
  }

  /** The read-only picture of this moment; cheap when nothing was recorded since the last call. */
  get view(): View {
    this.#view ??= this.#makeView();
    return this.#view;
  }

  #makeView(): View {
    const modules = new Map<string, ModuleView>();
    const globalConfig = this.values.globalConfigDigest();
    for (const module of this.#tree.modules) {
      const record = this.#records.get(module.name);
      if (record !== undefined) modules.set(module.name, this.#cachedView(module, record, globalConfig));
    }
    return {
      boot: this.#boot,
      config: this.#config,
      converge: this.#converge,
      tree: this.#tree,
      modules,
      coverage: { config: globalConfig, globals: this.values.globalsDigest() },
      globalCause: this.#globalCause,
      enabledModules: this.enabledModules(),
      secondLook: this.#secondLook,
      holds: this.#holds,
      missingRights: this.#missingRights,
      requestedToken: this.#tokens.requested,
      handledToken: this.#tokens.handled,
    };
  }

  #cachedView(module: Module, record: ModuleRecord, globalConfig: string): ModuleView {
    let view = this.#moduleViews.get(module.name);
    if (view === undefined) {
      view = this.#moduleView(module, record, globalConfig);
      this.#moduleViews.set(module.name, view);
    }
    return view;
  }

  #moduleView(module: Module, record: ModuleRecord, globalConfig: string): ModuleView {
    const config = this.values.config;
    const sectionDigest = this.values.moduleConfigDigest(module);
    const values = this.values;
    const hold = this.#hold;
    return {
      ...record,
      name: module.name,
      module,
      suspended: config?.maintenance.has(module.valuesKey) ?? false,
      protected: config?.protected.has(module.valuesKey) ?? false,
      problem: problemOf(record),
      releaseMoved: releaseMoved(record),
      sectionDigest,
      configDigest: digest(sectionDigest, globalConfig),
      get valuesDigest() {
        return values.merged(module.valuesKey).digest;
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
}
