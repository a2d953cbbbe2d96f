/** The one record of what is known; everything else reads its view. */

import type { Clock, KnownSecrets } from "../lib/index.ts";
import { GLOBAL, type Cause, type Hook, type Problem, type Tree } from "../model/index.ts";
import { ValuesStore, basisIn } from "../values/index.ts";
import type { JudgedPatches, ParsedConfig, PatchOperation, ReadConfig, ValuesView } from "../values/index.ts";
import { applyDecision, type Enablement, type ModuleRecord } from "./module-record.ts";
import { ModuleRecords, problemOf, type Terms } from "./module-records.ts";
import { nextToken } from "./request-token.ts";
import * as reload from "./reload-record.ts";
import type { Coverage, ReloadRecord } from "./reload-record.ts";
import { RUN_EVENTS, following, nothingToRun } from "./run-record.ts";
import type { RunBasis, RunEvents, RunRecord } from "./run-record.ts";
import { BLANK, NO_TREE, configIsMissing } from "./view.ts";
import type { ConfigNews, ConfigObservation, Hold, OperatorState, View } from "./view.ts";

interface StateOptions extends Partial<Terms> {
  readonly clock: Clock;
  readonly secrets?: KnownSecrets;
  /** `--chart-enabled-modules`. */
  readonly chartEnabledModules?: boolean;
}

/**
 * The one record of what is known. Methods record what was seen or done, and what follows from it for the record
 * itself: what a decision or a write handles, and why a later run is due. What is to be done, `plan/` decides from
 * `view`. Listeners are called once per turn in which something was recorded, in the order in
 * which they came.
 */
export class State {
  readonly #values: ValuesStore;
  readonly #clock: Clock;
  readonly #listeners: ((view: View) => void)[] = [];
  readonly #modules: ModuleRecords;
  #tree = NO_TREE;
  #globalHooks: readonly Hook[] = [];
  #operator = BLANK;
  /** Bindings of global hooks whose Synchronization succeeded. */
  readonly globalSynchronized = new Set<string>();
  #notified = false;
  #view: View | undefined;

  constructor(options: StateOptions) {
    const { clock, secrets, ready = "applied", onFailure = "retry", chartEnabledModules = false } = options;
    this.#values = new ValuesStore(secrets, chartEnabledModules ? () => this.#enabledModules() : undefined);
    this.#clock = clock;
    this.#modules = new ModuleRecords(this.#values, { ready, onFailure });
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

  /** The hooks of a module that exists, or the global ones. */
  hooksOf(module: string | undefined): readonly Hook[] {
    return module === undefined ? this.#globalHooks : (this.#modules.get(module)?.hooks ?? []);
  }

  /** The record of a module; change it through `update` only. */
  module(name: string): Readonly<ModuleRecord> | undefined {
    return this.#modules.get(name);
  }

  records(): IterableIterator<Readonly<ModuleRecord>> {
    return this.#modules.all();
  }

  /** Records what is known of the operator as a whole. */
  record(change: Partial<OperatorState>): void {
    const before: Partial<Record<string, unknown>> = this.#operator;
    if (Object.entries(change).every(([key, value]) => before[key] === value)) return;
    this.#operator = { ...this.#operator, ...change };
    this.#touched();
  }

  /** What affects the views of all modules changed: ConfigMap, directories, flags. */
  #allTouched(): void {
    this.#modules.allChanged();
    this.#touched();
  }

  #touched(): void {
    this.#view = undefined;
    if (this.#notified) return;
    this.#notified = true;
    queueMicrotask(() => {
      this.#notified = false;
      for (const listener of this.#listeners) listener(this.view);
    });
  }

  /** Changes a module's record, if the module still exists. */
  update(name: string, change: (record: ModuleRecord) => void): void {
    const record = this.#modules.get(name);
    if (record === undefined) return;
    change(record);
    this.#modules.changed(name);
    this.#touched();
  }

  updateRun(name: string, change: (run: RunRecord) => RunRecord): void {
    this.update(name, (record) => void (record.run = change(record.run)));
  }

  /** Something happened to a run of the module. */
  noteRun<E extends keyof RunEvents>(name: string, event: E, ...details: RunEvents[E]): void {
    const change = RUN_EVENTS[event] as (run: RunRecord, ...more: RunEvents[E]) => RunRecord;
    this.updateRun(name, (run) => change(run, ...details));
  }

  /** What a run of the module takes into account if it looks now. */
  basisOf({ module, files, requestedToken: token }: Readonly<ModuleRecord>): RunBasis {
    const { digest: values } = this.#values.merged(module.valuesKey);
    return { ...this.#values.basisOf(module), values, token, files, version: module.chartVersion };
  }

  /** With a decision that there is nothing to run, the configuration and the request are handled. */
  #handle(record: ModuleRecord): void {
    record.run = nothingToRun(record.run, this.basisOf(record));
  }

  recordTree(tree: Tree): void {
    this.#tree = tree;
    this.#values.setTree(tree);
    this.#modules.take(tree.modules);
    this.#allTouched();
  }

  recordGlobalHooks(hooks: readonly Hook[]): void {
    this.#globalHooks = hooks;
    this.#touched();
  }

  /** What was seen of the ConfigMap; returns the keys that match no module and were not there before. */
  recordConfig(seen: ConfigObservation, cause: Cause): string[] {
    const before = this.#operator;
    if (seen.content !== undefined) this.#takeContent(seen.content, seen.overlay, cause);
    const { condition, problems, resourceVersion } = seen;
    const config = { condition, problems, resourceVersion, ...this.#values.configFacts() };
    // What was held back while there was none is looked at again when it returns.
    const returned = configIsMissing(before) && condition !== "missing";
    this.record({ config, secondLook: before.secondLook || (returned && before.holds.length > 0) });
    this.#allTouched();
    return config.unknownKeys.filter((key) => !before.config.unknownKeys.includes(key));
  }

  /** Judges what was read of the ConfigMap and records it; returns what is to be said of it. */
  takeConfig(read: ReadConfig, resourceVersion: string): ConfigNews {
    const { content, overlay, problems, ...told } = this.#values.judgeConfig(read);
    const condition = problems.length === 0 ? "ok" : "invalid";
    const taken = condition === "ok" ? { content, overlay } : {};
    const unknown = this.recordConfig({ condition, problems, resourceVersion, ...taken }, { kind: "config" });
    return { ...told, problems, unknown };
  }

  /** Takes content into force that was accepted before the ConfigMap became invalid; false where it is not valid. */
  takeAccepted(read: ReadConfig): boolean {
    const { content, overlay, problems } = this.#values.judgeConfig(read);
    if (problems.length > 0) return false;
    this.recordConfig({ ...this.#operator.config, content, overlay }, { kind: "config" });
    return true;
  }

  /** Takes content into force and notes what changed by it. */
  #takeContent(content: ParsedConfig, overlay: ParsedConfig | undefined, cause: Cause): void {
    const before = this.#values.configDigests();
    this.#values.setConfig(content, overlay);
    const after = this.#values.configDigests();
    const reloads = after.globalConfig !== before.globalConfig;
    if (reloads) this.#recordCause(undefined, cause);
    for (const record of this.#modules.all()) {
      const { name } = record.module;
      const section = after.sections.get(name);
      if (section === before.sections.get(name)) continue;
      this.updateRun(name, (run) => ({ ...run, cause, withReload: reloads ? section : undefined }));
      if (record.decided && !record.enabled && !reloads) this.#handle(record);
    }
  }

  /** A hook left patches of a section; returns how many are stored, if these have just become very many. */
  recordPatches(key: string, operations: readonly PatchOperation[], hook?: string): number | undefined {
    if (operations.length === 0) return undefined;
    const many = this.#values.addPatches(key, operations, hook);
    if (key === GLOBAL) this.#allTouched();
    // A module's patches show in no other module's view.
    for (const { name, valuesKey } of this.#tree.modules) if (valuesKey === key) this.#modules.changed(name);
    this.#touched();
    return many;
  }

  /**
   * What a hook's run leaves in memory: patches of its section and flags. `before` is the section's digest as the run
   * found it. Returns what `recordPatches` does.
   */
  recordHookRun(
    { module, name }: Hook,
    { values, flags }: JudgedPatches,
    { key, before, cause }: { readonly key: string; readonly before: string; readonly cause: Cause },
  ): number | undefined {
    const many = this.recordPatches(key, values, name);
    for (const [valuesKey, enabled] of flags) this.recordHookFlag(valuesKey, enabled);
    if (this.#values.patchable(key) !== before) this.#recordCause(module, cause);
    return many;
  }

  /** A global hook switched a module; undefined takes that back. */
  recordHookFlag(valuesKey: string, enabled: boolean | undefined): void {
    this.#values.setHookFlag(valuesKey, enabled);
    this.#allTouched();
  }

  /** Why values of a module changed, or (undefined) globals or flags. */
  #recordCause(module: string | undefined, cause: Cause): void {
    if (module !== undefined) return this.updateRun(module, (run) => ({ ...run, cause }));
    this.record({ globalCause: cause });
    this.#allTouched();
  }

  recordReload(change: Partial<ReloadRecord>): void {
    this.record({ reload: { ...this.#operator.reload, ...change } });
  }

  startReload(cause: Cause): void {
    const { globalConfig } = this.#values.coverage();
    const begin = { cause, startedAt: this.#clock.now(), globalConfig };
    this.record(reload.begun(this.#operator, begin));
  }

  /**
   * Takes a hook's own write to the ConfigMap into force. The write itself causes nothing, since its effect shows
   * in the merged values; so what was handled before it counts as handled after it, in the same turn.
   */
  recordOwnConfig(seen: ConfigObservation): void {
    const before = this.#values.configDigests();
    this.recordConfig(seen, { kind: "own-config" });
    const after = this.#values.configDigests();
    this.record({ reload: reload.following(this.#operator.reload, before.globalConfig, after.globalConfig) });
    for (const record of this.#modules.all()) {
      const { name } = record.module;
      record.run = following(record.run, basisIn(before, name), basisIn(after, name));
    }
    this.#allTouched();
  }

  /** Whether the reload under way took the configuration in force into account. */
  coversConfig(): boolean {
    return this.#operator.reload.covered?.globalConfig === this.#values.coverage().globalConfig;
  }

  /** The reload under way takes this of what is in force into account: its discovery is still to come. */
  cover(what: keyof Coverage): void {
    this.recordReload(reload.covering(this.#operator.reload, what, this.#values.coverage()));
  }

  finishReload(rounds: number): void {
    this.record(reload.ended(this.#operator, rounds, this.#clock.now()));
  }

  recordDecision(name: string, decision: Enablement): void {
    this.update(name, (record) => {
      applyDecision(record, decision);
      // There is nothing to run: with this decision the configuration and the request are handled.
      if (!decision.enabled || problemOf(record) !== undefined) this.#handle(record);
    });
  }

  /** A run found what a person has to solve; it stays until the configuration changes or a reload looks again. */
  recordProblem(name: string, problem: Problem): void {
    this.update(name, (record) => {
      record.decisionProblem = problem;
      record.run = { ...nothingToRun(record.run, this.basisOf(record)), activity: "none" };
    });
  }

  /**
   * A run of the module is asked for, or (undefined) a converge. `token` is that of the annotation; a request without one
   * counts each time.
   */
  recordRequest(name: string | undefined, token?: string): void {
    if (name === undefined)
      this.record({ requestedToken: token ?? nextToken(this.#operator.requestedToken) });
    else
      this.update(name, (record) => void (record.requestedToken = token ?? nextToken(record.requestedToken)));
  }

  /** A person wants the release of a module to go back, to this revision or to the last that was in force before. */
  recordWayBack(name: string, revision: number | undefined): void {
    this.update(name, (record) => void (record.wayBack = { revision }));
    this.recordRequest(name);
  }

  /** An earlier process answered this request: it is not answered again. What this process knows itself counts more. */
  recordAnswered(name: string | undefined, token: string): void {
    const { requestedToken, handledToken } = this.#operator;
    if (name === undefined) {
      if (requestedToken === undefined && handledToken === undefined)
        this.record({ requestedToken: token, handledToken: token });
      return;
    }
    this.update(name, (record) => {
      if (record.requestedToken !== undefined || record.run.handled.token !== undefined) return;
      record.requestedToken = token;
      record.run = { ...record.run, handled: { ...record.run.handled, token } };
    });
  }

  /** Files of these modules, or more than those of single modules, are another ones than were read. */
  recordFiles(moved: ReadonlySet<string> | "all"): void {
    this.record(reload.filesMoved(this.#operator, moved));
  }

  /** Files of this module are changing again; returns whether they were still to be read. */
  forgetFiles(name: string): boolean {
    const forgotten = reload.filesForgotten(this.#operator, name);
    if (forgotten !== undefined) this.record(forgotten);
    return forgotten !== undefined;
  }

  /** A module or a release without one begins to be removed: it counts towards the deletion limit unless a person confirmed it. */
  recordRemoval(name: string): void {
    const { brake, deletions } = this.#operator;
    if (brake?.confirmed === true && brake.modules.includes(name)) return;
    const removed = new Map(deletions.removed).set(name, this.#clock.monotonic());
    this.record({ deletions: { ...deletions, removed } });
  }

  /** Notes why something is not deleted or purged now, in addition to what is noted already. */
  addHold(hold: Hold): void {
    this.record({ holds: [...this.#operator.holds, hold] });
  }

  /** Why some kubernetes bindings of a module's hooks, or of global ones (undefined), cannot work now. */
  recordTroubles(module: string | undefined, troubles: readonly string[]): void {
    if (module === undefined) this.record({ troubles });
    else this.update(module, (record) => void (record.troubles = troubles));
  }

  /** The read-only view of this moment; cheap when nothing was recorded since the last call. */
  get view(): View {
    return (this.#view ??= this.#makeView());
  }

  #makeView(): View {
    const modules = this.#modules.views();
    return {
      ...this.#operator,
      tree: this.#tree,
      modules,
      coverage: this.#values.coverage(),
      get enabledModules() {
        return [...modules.values()].filter(({ enabled }) => enabled).map(({ name }) => name);
      },
    };
  }

  /** As in the view, which is made of the values that need this. */
  #enabledModules(): readonly string[] {
    return [...this.#modules.all()].filter(({ enabled }) => enabled).map(({ module }) => module.name);
  }
}
