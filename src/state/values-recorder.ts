/** Records what values are made from: the content of the ConfigMap, and patches and flags of hooks. */

import { GLOBAL, type Cause, type Hook } from "../model/index.ts";
import { configBasisFor, collectConfigFacts, validateConfig, type ValuesStore } from "../values/index.ts";
import type {
  ParsedConfig,
  PatchOperation,
  ReadConfig,
  SourceContent,
  ValidatedConfig,
  ValidatedPatches,
} from "../values/index.ts";
import type { ModuleEvents } from "./module-events.ts";
import type { ModuleRecord } from "./module-record.ts";
import type { OperatorEvents } from "./operator-events.ts";
import type { ConfigView, View } from "./view.ts";

export interface ConfigObservation extends Pick<ConfigView, "condition" | "problems" | "resourceVersion"> {
  /** New content to apply; undefined keeps the last valid content. */
  readonly content?: ParsedConfig;
  readonly overlay?: ParsedConfig | undefined;
}

/** What to report of a ConfigMap that was read. `unknown`: new keys that match no module. */
export interface ConfigResult extends Pick<ValidatedConfig, "problems" | "warnings" | "changed"> {
  readonly unknown: readonly string[];
}

/** The state, as far as new values change it. */
interface Recorded {
  readonly view: View;
  records(): Iterable<ModuleRecord>;
  record<E extends keyof OperatorEvents>(event: E, ...details: OperatorEvents[E]): void;
  recordModule<E extends keyof ModuleEvents>(name: string, event: E, ...details: ModuleEvents[E]): void;
}

/** Records changes of values, and which modules and whether the converge depend on them. */
export class ValuesRecorder {
  readonly #state: Recorded;
  readonly #values: ValuesStore;
  readonly #changed: (valuesKey: string | undefined) => void;

  /** `changed` is called with the section that has changed, or undefined for more than one. */
  constructor(state: Recorded, values: ValuesStore, changed: (valuesKey: string | undefined) => void) {
    this.#state = state;
    this.#values = values;
    this.#changed = changed;
  }

  /** Records an observation of the ConfigMap; returns new keys that match no module. */
  recordConfig(seen: ConfigObservation, cause: Cause): string[] {
    const before = this.#state.view.config.unknownKeys;
    if (seen.content !== undefined) this.#applyContent(seen.content, seen.overlay, cause);
    const { condition, problems, resourceVersion } = seen;
    const config = { condition, problems, resourceVersion, ...collectConfigFacts(this.#values) };
    this.#state.record("configObserved", config);
    this.#changed(undefined);
    return config.unknownKeys.filter((key) => !before.includes(key));
  }

  /** Validates and records content of the ConfigMap; returns what to report. */
  applyConfig(read: ReadConfig, resourceVersion: string): ConfigResult {
    const { content, overlay, problems, ...reported } = validateConfig(this.#values, read);
    const condition = problems.length === 0 ? "ok" : "invalid";
    const accepted = condition === "ok" ? { content, overlay } : {};
    const unknown = this.recordConfig(
      { condition, problems, resourceVersion, ...accepted },
      { kind: "config" },
    );
    return { ...reported, problems, unknown };
  }

  /** Applies content that was accepted before the ConfigMap became invalid; false if it is not valid now. */
  applyAcceptedConfig(read: ReadConfig): boolean {
    const { content, overlay, problems } = validateConfig(this.#values, read);
    if (problems.length > 0) return false;
    this.recordConfig({ ...this.#state.view.config, content, overlay }, { kind: "config" });
    return true;
  }

  /**
   * Applies the operator's own write to the ConfigMap. The write itself causes no run, since its effect is part of the
   * merged values: what was handled before stays handled.
   */
  recordOwnConfig(seen: ConfigObservation): void {
    const before = this.#values.digests.ofConfig();
    this.recordConfig(seen, { kind: "own-config" });
    const after = this.#values.digests.ofConfig();
    this.#state.record("ownWrite", { before: before.globalConfig, now: after.globalConfig });
    for (const { module } of this.#state.records())
      this.#state.recordModule(
        module.name,
        "ownWrite",
        configBasisFor(before, module.name),
        configBasisFor(after, module.name),
      );
  }

  /** Records the content of a Secret or ConfigMap with values, by its title; undefined = it is not wanted any more. */
  recordSource(title: string, content: SourceContent | undefined): void {
    this.#applyChange(() => this.#values.setSource(title, content), { kind: "sources" });
    this.#state.record("configObserved", { ...this.#state.view.config, ...collectConfigFacts(this.#values) });
    this.#changed(undefined);
  }

  #applyContent(content: ParsedConfig, overlay: ParsedConfig | undefined, cause: Cause): void {
    this.#applyChange(() => this.#values.setConfig(content, overlay), cause);
  }

  /**
   * Applies a change of inputs. Records the cause with each module whose section it changes and, if globals or flags change,
   * as the cause of the next converge.
   */
  #applyChange(change: () => void, cause: Cause): void {
    const before = this.#values.digests.ofConfig();
    change();
    const after = this.#values.digests.ofConfig();
    const causesConverge = after.globalConfig !== before.globalConfig;
    if (causesConverge) this.#state.record("observed", { globalCause: cause });
    for (const { module, decided, enabled } of this.#state.records()) {
      const { name } = module;
      const section = after.sections.get(name);
      if (section === before.sections.get(name)) continue;
      this.#state.recordModule(name, "edited", cause, causesConverge ? section : undefined);
      if (decided && !enabled && !causesConverge) this.#state.recordModule(name, "nothingToRun");
    }
  }

  /** Records a hook's patches of a section. Returns their number if it has just exceeded the limit for a warning. */
  recordPatches(key: string, operations: readonly PatchOperation[], hook?: string): number | undefined {
    if (operations.length === 0) return undefined;
    const excess = this.#values.addPatches(key, operations, hook);
    this.#changed(key === GLOBAL ? undefined : key);
    return excess;
  }

  /**
   * Records the patches and flags that a hook's run produced. `before` is the section's digest before the run. Returns
   * what `recordPatches` does.
   */
  recordHookRun(
    { module, name }: Hook,
    { values, flags }: ValidatedPatches,
    { key, before, cause }: { readonly key: string; readonly before: string; readonly cause: Cause },
  ): number | undefined {
    const excess = this.recordPatches(key, values, name);
    for (const [valuesKey, enabled] of flags) this.recordHookFlag(valuesKey, enabled);
    if (this.#values.digests.patchable(key) === before) return excess;
    if (module === undefined) this.#state.record("observed", { globalCause: cause });
    else this.#state.recordModule(module, "valuesChanged", cause);
    return excess;
  }

  /** Records that a global hook switched a module on or off; undefined withdraws that. */
  recordHookFlag(valuesKey: string, enabled: boolean | undefined): void {
    this.#values.setHookFlag(valuesKey, enabled);
    this.#changed(undefined);
  }
}
