/** The layers of values and what is merged from them (docs/VALUES.md, "Layers"). */

import { digest, type KnownSecrets } from "../lib/index.ts";
import { GLOBAL, ProblemError } from "../model/index.ts";
import type { EnabledBy, JsonObject, Module, SchemaFiles, Section, Tree } from "../model/index.ts";
import { judgeConfig, sectionIn } from "./config/config-map.ts";
import type { JudgedConfig, ParsedConfig, ReadConfig } from "./config/config-map.ts";
import type { Sections } from "./config/config-write.ts";
import { NO_SETTINGS, describeUnknownKeys, type ModuleSettings } from "./config/module-settings.ts";
import { Digests, mergedOf, withOverlay } from "./layers.ts";
import type { ConfigBasis, ConfigDigests, Merged, SectionInput } from "./layers.ts";
import { explain, locate, PatchAuthors, placesIn, wordsOf, type Located, type Written } from "./origin.ts";
import type { PatchOperation } from "./patch/apply-patch.ts";
import { compact, MANY_OPERATIONS, checkPatched, judgePatches } from "./patch/hook-patches.ts";
import type { JudgedPatches, PatchTarget } from "./patch/hook-patches.ts";
import { compileSchemas, type Schemas } from "./schema/schemas.ts";
import type { Violation } from "./schema/validator.ts";

type Globals = Pick<Tree, "globalValues" | "globalSchemas" | "globalPlaceOf">;

const NO_SCHEMAS: SchemaFiles = {};
const NO_PATCHES: readonly PatchOperation[] = [];

/** What is known of the ConfigMap content in force. */
export interface ConfigFacts {
  /** Keys that match no module, each with the one that was probably meant. */
  readonly unknownKeys: readonly string[];
  /** Digest of the content in force. */
  readonly digest: string;
  /** Content was taken into force. */
  readonly isInForce: boolean;
  /** It suspends all modules. */
  readonly isFrozen: boolean;
}

/** The values as all but the state see them: only the state changes them, and tells of it. */
export type ValuesView = Omit<ValuesStore, "setTree" | "setConfig" | "addPatches" | "setHookFlag">;

/** The layers of values, and what is derived from them, which is kept until one of its layers changes. */
export class ValuesStore {
  #globals: Globals | undefined;
  /** What is wrong with the global values and schemas of the directories; the former ones stay in force. */
  #globalProblems: readonly Located[] = [];
  #config: ParsedConfig | undefined;
  #overlay: ParsedConfig | undefined;
  /** ConfigMap and overlay together, as hooks see them. */
  #shown: ParsedConfig | undefined;
  readonly #patches = new Map<string, readonly PatchOperation[]>();
  readonly #authors = new PatchAuthors();
  readonly #hookFlags = new Map<string, boolean>();
  readonly #merged = new Map<string, Merged>();
  readonly #modules = new Map<string, Module>();
  readonly #digests: Digests;
  readonly #secrets: KnownSecrets | undefined;

  /** The enabled modules as charts get them (`--chart-enabled-modules`); undefined: charts do not get them. */
  readonly modulesForCharts: (() => readonly string[]) | undefined;

  /** `secrets` learns the secrets that values contain. */
  constructor(secrets?: KnownSecrets, modulesForCharts?: () => readonly string[]) {
    this.#secrets = secrets;
    this.modulesForCharts = modulesForCharts;
    this.#digests = new Digests(this);
  }

  /** The ConfigMap content in force, if any was seen. */
  get config(): ParsedConfig | undefined {
    return this.#config;
  }

  get overlay(): ParsedConfig | undefined {
    return this.#overlay;
  }

  setTree(tree: Tree): void {
    this.#modules.clear();
    for (const module of tree.modules) this.#modules.set(module.valuesKey, module);
    this.#merged.clear();
    this.#digests.clear();
    this.#setGlobals(tree);
  }

  /** Takes global values and schemas over, unless they would break what is valid. */
  #setGlobals(globals: Globals): void {
    const before = this.#globals;
    const wasBroken = this.#globalViolations().length > 0;
    this.#globals = globals;
    this.#merged.delete(GLOBAL);
    this.#globalProblems = this.#config === undefined ? [] : this.locate(GLOBAL, this.#globalViolations());
    if (this.#globalProblems.length === 0 || wasBroken || before === undefined) return;
    this.#globals = before;
    this.#merged.delete(GLOBAL);
  }

  #globalViolations(): readonly Violation[] {
    return this.schemas(GLOBAL).validateConfig(this.merged(GLOBAL).config);
  }

  /** Why the global values and schemas of the directories do not come into force, a line for each problem. */
  get globalProblems(): string[] {
    return wordsOf(GLOBAL, this.#globalProblems);
  }

  /** Takes new ConfigMap content (and overlay) into force; sections that did not change keep their merged values. */
  setConfig(config: ParsedConfig, overlay: ParsedConfig | undefined): void {
    for (const key of this.#merged.keys()) {
      const same =
        sectionIn(config, key) === sectionIn(this.#config, key) &&
        sectionIn(overlay, key) === sectionIn(this.#overlay, key);
      if (!same) this.#merged.delete(key);
    }
    this.#config = config;
    this.#overlay = overlay;
    this.#shown = withOverlay(config, overlay);
    this.#digests.clear();
  }

  /**
   * Adds validated patches to those stored for `key`; `hook` is the one that left them. Returns how many operations are
   * stored, if these have just become very many.
   */
  addPatches(key: string, operations: readonly PatchOperation[], hook?: string): number | undefined {
    if (hook !== undefined) this.#authors.note(key, operations, hook);
    const before = this.patches(key);
    const after = compact([...before, ...operations]);
    this.#patches.set(key, after);
    this.#merged.delete(key);
    this.#digests.clear();
    return before.length <= MANY_OPERATIONS && after.length > MANY_OPERATIONS ? after.length : undefined;
  }

  /** Parses and judges what was read of ConfigMap and overlay; nothing of it comes into force. */
  judgeConfig(read: ReadConfig): JudgedConfig {
    return judgeConfig(this, read);
  }

  /** What is known of the ConfigMap content in force. */
  configFacts(): ConfigFacts {
    const { globalConfig, sections } = this.configDigests();
    return {
      unknownKeys: describeUnknownKeys(this.#config?.unknownKeys ?? [], this.modules()),
      digest: digest(globalConfig, ...sections.values()),
      isInForce: this.#config !== undefined,
      isFrozen: this.#config?.isFrozen ?? false,
    };
  }

  patches(key: string): readonly PatchOperation[] {
    return this.#patches.get(key) ?? NO_PATCHES;
  }

  /** Flags patched by global hooks; undefined removes the hooks' flag. */
  setHookFlag(valuesKey: string, enabled: boolean | undefined): void {
    if (enabled === undefined) this.#hookFlags.delete(valuesKey);
    else this.#hookFlags.set(valuesKey, enabled);
    this.#digests.clear();
  }

  /** The merged values of `global` or of a module's key. */
  merged(key: string): Merged {
    let merged = this.#merged.get(key);
    if (merged === undefined) {
      merged = this.#merge(key, this.#sections(key));
      this.#merged.set(key, merged);
    }
    return merged;
  }

  #merge(key: string, sections: Sections): Merged {
    return mergedOf(key, this.#input(key, sections), this.#secrets);
  }

  /** As `merged`, with other sections of ConfigMap and overlay; those in force are not merged again. */
  mergeSections(key: string, sections: Sections): Merged {
    const { config, overlay } = this.#sections(key);
    const inForce = sections.config === config && sections.overlay === overlay;
    return inForce ? this.merged(key) : this.#merge(key, sections);
  }

  /** Judges what a hook's run patches, before it takes effect; throws when anything is wrong. */
  judgePatches(key: string, texts: { readonly config: string; readonly values: string }): JudgedPatches {
    return judgePatches(this.#target(key), texts);
  }

  /** Throws when these sections, as a hook patches them, break what was valid before. */
  checkPatched(key: string, sections: Sections): void {
    checkPatched(this.#target(key), sections);
  }

  #target(key: string): PatchTarget {
    const layers = this.#input(key, this.#sections(key));
    const isOverlaid = this.#overlay !== undefined;
    return { key, layers, merged: this.merged(key), isOverlaid, secrets: this.#secrets };
  }

  #sections(key: string): Sections {
    return { config: sectionIn(this.#config, key), overlay: sectionIn(this.#overlay, key) };
  }

  /** Which layer set each leaf of a section, and where, by JSON pointer. */
  explain(key: string): JsonObject {
    const written = this.#written(key);
    return Object.fromEntries(explain(written.input, placesIn(written)));
  }

  /** Who caused violations: the layer that set the leaf, with file and line, ConfigMap key or hook. */
  locate(key: string, violations: readonly Violation[], sections = this.#sections(key)): Located[] {
    return locate(this.#written(key, sections), violations);
  }

  /** Violations in what is in force, in words. */
  describe(key: string, violations: readonly Violation[]): string {
    return wordsOf(key, this.locate(key, violations)).join("; ");
  }

  #written(key: string, sections = this.#sections(key)): Written {
    const module = this.#modules.get(key);
    return {
      key,
      input: this.#input(key, sections),
      module,
      schemas: this.#schemaFiles(key),
      commonPlaceOf: key === GLOBAL ? this.#globals?.globalPlaceOf : module?.common.placeOf,
      hookOf: (path) => this.#authors.of(key, path),
    };
  }

  #input(key: string, { config, overlay }: Sections): SectionInput {
    const module = this.#modules.get(key);
    const files = this.#schemaFiles(key);
    return {
      get schemas() {
        return usable(files);
      },
      common: key === GLOBAL ? this.#globals?.globalValues : module?.common.section,
      own: module?.own.section,
      config,
      overlay,
      patches: this.patches(key),
    };
  }

  /** All modules of the tree, broken ones included. */
  modules(): Module[] {
    return [...this.#modules.values()];
  }

  /** The schemas of `global` or of a module's key; broken ones validate nothing (the module is Invalid). */
  schemas(key: string): Schemas {
    return usable(this.#schemaFiles(key));
  }

  #schemaFiles(key: string): SchemaFiles {
    return (key === GLOBAL ? this.#globals?.globalSchemas : this.#modules.get(key)?.schemas) ?? NO_SCHEMAS;
  }

  /** The ConfigMap's own section for `key` (with overlay merged in), as CONFIG_VALUES_PATH shows it. */
  configSection(key: string): Section | undefined {
    return sectionIn(this.#shown, key);
  }

  /** The merged flag of a module, and who had the last word. */
  flag(module: Module, config = this.#config): { enabled: boolean; by: EnabledBy } {
    const opinions: readonly (readonly [EnabledBy, boolean | undefined])[] = [
      ["configmap", config?.flags.get(module.valuesKey)],
      ["hook", this.#hookFlags.get(module.valuesKey)],
      ["module-values", module.own.enabled],
      ["values", module.common.enabled],
    ];
    const [by, enabled = false] = opinions.find(([, opinion]) => opinion !== undefined) ?? ["none"];
    return { enabled, by };
  }

  /** Digests of what a reload depends on. */
  coverage(): { readonly globalConfig: string; readonly globals: string } {
    return this.#digests.coverage();
  }

  /** Digests of the ConfigMap in force. */
  configDigests(): ConfigDigests {
    return this.#digests.ofConfig();
  }

  /** What a run of the module takes into account of the ConfigMap in force. */
  basisOf(module: Module): ConfigBasis {
    return this.#digests.basisOf(module);
  }

  /** Digest of what the ConfigMap gives to the values of the module. */
  givenValues(module: Module): string {
    return this.#digests.givenValues(module);
  }

  /** Digest of what hooks can change by patches of this section, global ones with flags. */
  patchable(key: string): string {
    return this.#digests.patchable(key);
  }

  /** What the ConfigMap says of a module beside its section and flag. */
  settings({ valuesKey }: Pick<Module, "valuesKey">): ModuleSettings {
    const own = { ...NO_SETTINGS, ...this.#config?.settings.get(valuesKey) };
    return this.#config?.isFrozen === true ? { ...own, suspended: true } : own;
  }
}

function usable(files: SchemaFiles): Schemas {
  try {
    return compileSchemas(files);
  } catch (error) {
    if (error instanceof ProblemError) return compileSchemas(NO_SCHEMAS);
    throw error;
  }
}
