/**
 * Records what the merged values are made from: the ConfigMap (`global` and a section for each module), Secrets and ConfigMaps with
 * values, and what hooks changed: patches of values, and flags that switch modules on or off.
 */

import { GLOBAL, type Cause, type Hook } from "../../base/model/index.ts";
import { applyConfig, configInputsFor, collectConfigFacts, type ValuesStore } from "../../values/index.ts";
import type {
  AppliedConfig,
  ParsedConfig,
  PatchOperation,
  ReadConfig,
  SourceContent,
  ValidatedPatches,
} from "../../values/index.ts";
import type { ModuleEvents } from "./module-events.ts";
import type { ModuleRecord } from "./module-record.ts";
import type { OperatorEvents } from "./operator-events.ts";
import type { ConfigView, View } from "./view.ts";

type ObservedConfig = Pick<ConfigView, "condition" | "problems" | "resourceVersion">;

export interface ConfigObservation extends ObservedConfig {
  /** New content to apply; undefined keeps the last valid content. */
  readonly content?: ParsedConfig;
  readonly overlay?: ParsedConfig | undefined;
}

/** What to report of a ConfigMap that was read. `unknownKeys`: new keys that match no module. */
export interface ConfigResult extends AppliedConfig {
  readonly unknownKeys: readonly string[];
}

/** The part of `State` that new values change. */
interface RecordedState {
  readonly view: View;
  records(): Iterable<ModuleRecord>;
  record<E extends keyof OperatorEvents>(event: E, ...details: OperatorEvents[E]): void;
  recordModule<E extends keyof ModuleEvents>(name: string, event: E, ...details: ModuleEvents[E]): void;
}

/** Records changes of values, with the cause of the module runs or of the converge that follow. A run becomes due where digests of values change. */
export class ValuesRecorder {
  readonly #state: RecordedState;
  readonly #values: ValuesStore;
  readonly #onValuesChanged: (valuesKey?: string) => void;

  /** Records into `state` and `values`. `onValuesChanged`: discards the views of the modules with this key; of all without a key. */
  constructor(state: RecordedState, values: ValuesStore, onValuesChanged: (valuesKey?: string) => void) {
    this.#state = state;
    this.#values = values;
    this.#onValuesChanged = onValuesChanged;
  }

  /**
   * Records an observation of the ConfigMap, and applies its content if there is any. `overlay` is the content of a second ConfigMap that
   * is merged over it. Returns the keys that match no module and were not reported before.
   */
  recordConfig({ content, overlay, ...seen }: ConfigObservation, cause: Cause): string[] {
    if (content !== undefined) this.#applyChange(() => this.#values.setConfig(content, overlay), cause);
    return this.#recordObserved(seen);
  }

  /** Validates the content of the ConfigMap, applies it if it is valid, and records its problems otherwise. Returns what to report. */
  applyConfig(read: ReadConfig, resourceVersion: string): ConfigResult {
    const result = this.#applyChange(() => applyConfig(this.#values, read), { kind: "config" });
    const { problems } = result;
    const condition = problems.length === 0 ? "ok" : "invalid";
    return { ...result, unknownKeys: this.#recordObserved({ condition, problems, resourceVersion }) };
  }

  /** Applies the content that an earlier process accepted before the ConfigMap became invalid. Returns false if that content is not valid any more. */
  applyAcceptedConfig(read: ReadConfig): boolean {
    const { problems } = this.#applyChange(() => applyConfig(this.#values, read), { kind: "config" });
    if (problems.length > 0) return false;
    this.#recordObserved(this.#state.view.config);
    return true;
  }

  /** Records the state of the ConfigMap and facts about the content in force. Returns the keys that match no module and were not reported before. */
  #recordObserved({ condition, problems, resourceVersion }: ObservedConfig): string[] {
    const knownUnknownKeys = this.#state.view.config.unknownKeys;
    const config = { condition, problems, resourceVersion, ...collectConfigFacts(this.#values) };
    this.#state.record("configObserved", config);
    this.#onValuesChanged();
    return config.unknownKeys.filter((key) => !knownUnknownKeys.includes(key));
  }

  /**
   * Applies content that the operator itself wrote to the ConfigMap for a hook. The write causes no run, because its effect was part of
   * the merged values before: where a run or converge had handled the content before the write, it counts as having handled the new one.
   */
  recordOwnConfig(seen: ConfigObservation): void {
    const before = this.#values.digests.configDigests();
    this.recordConfig(seen, { kind: "own-config" });
    const after = this.#values.digests.configDigests();
    this.#state.record("ownConfigWritten", { before: before.globalConfig, now: after.globalConfig });
    for (const { module } of this.#state.records())
      this.#state.recordModule(
        module.name,
        "ownConfigWritten",
        configInputsFor(before, module.name),
        configInputsFor(after, module.name),
      );
  }

  /** Records the content of a Secret or ConfigMap with values, by the `id` of the object; undefined = no module uses it any more. */
  recordSource(id: string, content: SourceContent | undefined): void {
    this.#applyChange(() => this.#values.setSource(id, content), { kind: "sources" });
    // The digest of the configuration covers this content, too.
    this.#state.record("configObserved", { ...this.#state.view.config, ...collectConfigFacts(this.#values) });
    this.#onValuesChanged();
  }

  /**
   * Applies a change of the inputs of values. Compares the digests before and after it: each module whose section has changed
   * gets the cause of its next run and, if globals or flags have changed, the next converge gets its cause. A module that is
   * off needs no run for the change. Returns what `change` does.
   */
  #applyChange<R>(change: () => R, cause: Cause): R {
    const before = this.#values.digests.configDigests();
    const result = change();
    const after = this.#values.digests.configDigests();
    const causesConverge = after.globalConfig !== before.globalConfig;
    if (causesConverge) this.#state.record("globalValuesChanged", cause);
    for (const { module, isDiscovered, enabled } of this.#state.records()) {
      const { name } = module;
      const section = after.sections.get(name);
      if (section === before.sections.get(name)) continue;
      // With the digest of the section, the record knows that the converge handles this edit, too.
      this.#state.recordModule(name, "sectionEdited", cause, causesConverge ? section : undefined);
      const isOff = isDiscovered && !enabled;
      if (isOff && !causesConverge) this.#state.recordModule(name, "runNotNeeded");
    }
    return result;
  }

  /** Records a hook's patches of the values under a key. Returns the number of patches once, when it exceeds the limit for a warning. */
  recordPatches(key: string, operations: readonly PatchOperation[], hook?: string): number | undefined {
    if (operations.length === 0) return undefined;
    const excess = this.#values.addPatches(key, operations, hook);
    // All modules use global values.
    this.#onValuesChanged(key === GLOBAL ? undefined : key);
    return excess;
  }

  /**
   * Records the patches and flags that a hook's run produced. `before`: the digest of what its patches can change (values under `key`,
   * flags), before the run. If it has changed, a run of the module or, after a global hook, a converge gets its `cause`. Returns what
   * `recordPatches` does.
   */
  recordHookRun(
    { module, name }: Hook,
    { values, flags }: ValidatedPatches,
    { key, before, cause }: { readonly key: string; readonly before: string; readonly cause: Cause },
  ): number | undefined {
    const excess = this.recordPatches(key, values, name);
    for (const [valuesKey, enabled] of flags) this.recordHookFlag(valuesKey, enabled);
    if (this.#values.digests.patchableDigest(key) === before) return excess;
    if (module === undefined) this.#state.record("globalValuesChanged", cause);
    else this.#state.recordModule(module, "valuesChanged", cause);
    return excess;
  }

  /** Records that a global hook switched a module on or off; undefined: the hook leaves the decision to others again. */
  recordHookFlag(valuesKey: string, enabled: boolean | undefined): void {
    this.#values.setHookFlag(valuesKey, enabled);
    this.#onValuesChanged();
  }
}
