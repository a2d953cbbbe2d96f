/**
 * Stores the layers of values and merges them (docs/reference/values.md, "Layers"). A *section* has the values of one module, or the global
 * ones, by its key. Its layers, the weakest first: schema defaults, files, sources (Secrets and ConfigMaps of `valuesFrom`), the ConfigMap,
 * its overlay (the operator's own object, into which hooks write) and patches of hooks.
 */

import type { KnownSecrets } from "../base/index.ts";
import { GLOBAL } from "../base/model/index.ts";
import type { FlagExtender, JsonObject, Module, SchemaFiles, Section, Tree } from "../base/model/index.ts";
import { findSection, NO_SETTINGS, type ModuleSettings, type ParsedConfig } from "./config/config-map.ts";
import type { Sections } from "./config/config-write.ts";
import { Digests } from "./digests.ts";
import { mergeFlag, mergeLazily, withOverlay } from "./layers.ts";
import type { LazyMergedValues, ModuleFlag, SectionInput } from "./layers.ts";
import {
  describeLocatedViolations,
  explainOrigins,
  locateViolations,
  PatchAuthors,
  listLayerOrigins,
  type LocatedViolation,
  type SectionOrigins,
} from "./origin.ts";
import type { PatchOperation } from "./patch/apply-patch.ts";
import { compactOperations, MANY_OPERATIONS } from "./patch/compact.ts";
import { usableSchemas, type Schemas } from "./schema/schemas.ts";
import { violationId, type Violation } from "./schema/violation.ts";
import { AllSources, type SourcesView } from "./sources/section-sources.ts";
import type { SourceContent, SourceLayer } from "./sources/source-layer.ts";

type Globals = Pick<Tree, "globalValues" | "globalSchemas" | "findGlobalPosition">;

const NO_SCHEMAS: SchemaFiles = {};
const NO_PATCHES: readonly PatchOperation[] = [];

/** The ConfigMap that messages name, the namespace of Secrets with values that name none, and what enables modules. */
interface ValuesLocation {
  readonly configMap: string;
  readonly namespace: string;
  /** The sources of flags that count, the weakest first; default: all. */
  readonly flagExtenders?: readonly FlagExtender[] | undefined;
}

/** Read-only view of the values: only the state changes them, and reports changes. */
export type ValuesView = Omit<ValuesStore, Setter>;
type Setter = "setTree" | "setConfig" | "setSource" | "addPatches" | "setHookFlag";

/** The layers of values *in force*, that is in use, and derived results, which it caches until a layer changes. */
export class ValuesStore {
  #globals: Globals | undefined;
  /** Problems of the global values and schemas of the directories; with any, the former ones stay in force. */
  #globalProblems: readonly LocatedViolation[] = [];
  #config: ParsedConfig | undefined;
  #overlay: ParsedConfig | undefined;
  /** ConfigMap and overlay merged, for hooks. */
  #configWithOverlay: ParsedConfig | undefined;
  readonly #patches = new Map<string, readonly PatchOperation[]>();
  readonly #authors = new PatchAuthors();
  readonly #hookFlags = new Map<string, boolean>();
  readonly #mergedSections = new Map<string, LazyMergedValues>();
  readonly #modules = new Map<string, Module>();
  readonly digests = new Digests(this);
  readonly #secrets: KnownSecrets | undefined;
  readonly #sources: AllSources;
  /** The enabled modules for charts (`--chart-enabled-modules`); undefined = charts do not get them. */
  readonly modulesForCharts: (() => readonly string[]) | undefined;
  readonly #location: ValuesLocation;

  /** The store adds the secrets that it finds in values to `secrets`. Messages name `location`, the ConfigMap. */
  constructor(
    secrets?: KnownSecrets,
    modulesForCharts?: () => readonly string[],
    location: ValuesLocation = { configMap: "ConfigMap addon-operator", namespace: "default" },
  ) {
    this.#location = location;
    this.#secrets = secrets;
    this.modulesForCharts = modulesForCharts;
    this.#sources = new AllSources({
      namespace: location.namespace,
      secrets,
      modules: () => this.modules(),
      moduleOf: (key) => this.#modules.get(key),
      isOn: (module) => this.flag(module).enabled,
      config: () => this.#config,
      validate: (key, layer) => this.#validateSources(key, layer),
    });
  }

  /** The ConfigMap content in force, if any. */
  get config(): ParsedConfig | undefined {
    return this.#config;
  }

  get overlay(): ParsedConfig | undefined {
    return this.#overlay;
  }

  /** Puts the modules that were read from disk into force, and their global values unless these have new violations. */
  setTree(tree: Tree): void {
    this.#modules.clear();
    for (const module of tree.modules) this.#modules.set(module.valuesKey, module);
    this.#mergedSections.clear();
    this.digests.clear();
    this.#setGlobals(tree);
    this.#refreshSources();
  }

  /** Secrets and ConfigMaps with values, and what is wrong with them. */
  get sources(): SourcesView {
    return this.#sources;
  }

  /** Records the content of a Secret or ConfigMap with values, by the `id` of the object; undefined = no section needs it any more. */
  setSource(id: string, content: SourceContent | undefined): void {
    this.#sources.setContent(id, content);
    this.#refreshSources();
  }

  /** Computes the source layers again after a change of any layer; drops the merged values of sections whose source layer changed. */
  #refreshSources(): void {
    for (const key of this.#sources.refresh()) this.#mergedSections.delete(key);
    this.digests.clear();
  }

  /** Violations that this source layer of a section causes. Leaves out missing values: another source may still set them. */
  #validateSources(key: string, sources: SourceLayer): readonly LocatedViolation[] {
    const validateWith = (layer: SourceLayer | undefined): readonly Violation[] =>
      this.schemas(key).validateConfig(this.mergeSections(key, { sources: layer }).config);
    const violations = validateWith(sources).filter(({ rule }) => rule !== "required");
    if (violations.length === 0) return [];
    const idsWithoutSources = new Set(validateWith(undefined).map(violationId));
    const causedBySources = violations.filter((each) => !idsWithoutSources.has(violationId(each)));
    const sections = { ...this.sectionsInForce(key), sources };
    return locateViolations(this.sectionOrigins(key, sections), causedBySources);
  }

  /** Puts global values and schemas into force, unless valid ones are in force and the new ones violate their schema. */
  #setGlobals(globals: Globals): void {
    const before = this.#globals;
    const wasValid = before !== undefined && this.#globalViolations().length === 0;
    this.#globals = globals;
    this.#mergedSections.delete(GLOBAL);
    // Before the ConfigMap is read, required values may be missing.
    const violations = this.#config === undefined ? [] : this.#globalViolations();
    this.#globalProblems = locateViolations(this.sectionOrigins(GLOBAL), violations);
    if (violations.length === 0 || !wasValid) return;
    this.#globals = before;
    this.#mergedSections.delete(GLOBAL);
  }

  /** Violations of the config schema in the global values in force. */
  #globalViolations(): readonly Violation[] {
    return this.schemas(GLOBAL).validateConfig(this.mergedSection(GLOBAL).config);
  }

  /** Problems that keep the global values and schemas of the directories out of force, one line each. */
  get globalProblems(): string[] {
    return describeLocatedViolations(GLOBAL, this.#globalProblems);
  }

  /** Puts new ConfigMap content (and overlay) into force; unchanged sections keep their merged values. */
  setConfig(config: ParsedConfig, overlay: ParsedConfig | undefined): void {
    for (const key of this.#mergedSections.keys()) {
      const isUnchanged =
        findSection(config, key) === findSection(this.#config, key) &&
        findSection(overlay, key) === findSection(this.#overlay, key);
      if (!isUnchanged) this.#mergedSections.delete(key);
    }
    this.#config = config;
    this.#overlay = overlay;
    this.#configWithOverlay = withOverlay(config, overlay);
    this.#refreshSources();
  }

  /** Adds validated patches of `hook` to those stored for `key`. Returns the number of stored operations when it exceeds the warning limit first. */
  addPatches(key: string, operations: readonly PatchOperation[], hook?: string): number | undefined {
    if (hook !== undefined) this.#authors.record(key, operations, hook);
    const before = this.patches(key);
    const after = compactOperations(operations, before);
    this.#patches.set(key, after);
    this.#mergedSections.delete(key);
    this.digests.clear();
    return before.length <= MANY_OPERATIONS && after.length > MANY_OPERATIONS ? after.length : undefined;
  }

  patches(key: string): readonly PatchOperation[] {
    return this.#patches.get(key) ?? NO_PATCHES;
  }

  /** Records whether global hooks enable a module; undefined removes their flag. Sources of disabled modules are not needed. */
  setHookFlag(valuesKey: string, enabled: boolean | undefined): void {
    if (enabled === undefined) this.#hookFlags.delete(valuesKey);
    else this.#hookFlags.set(valuesKey, enabled);
    this.#refreshSources();
  }

  /** A copy to try other content of the ConfigMap with. It shares what does not change, and learns no secrets. */
  fork(): ValuesStore {
    const copy = new ValuesStore(undefined, this.modulesForCharts, this.#location);
    copy.#globals = this.#globals;
    copy.#config = this.#config;
    copy.#overlay = this.#overlay;
    for (const [key, patches] of this.#patches) copy.#patches.set(key, patches);
    for (const [key, flag] of this.#hookFlags) copy.#hookFlags.set(key, flag);
    for (const [key, mergedSection] of this.#mergedSections) copy.#mergedSections.set(key, mergedSection);
    for (const [key, module] of this.#modules) copy.#modules.set(key, module);
    copy.#sources.copyFrom(this.#sources);
    return copy;
  }

  /** The merged values of `global` or of a module's key, cached until a layer changes. */
  mergedSection(key: string): LazyMergedValues {
    let merged = this.#mergedSections.get(key);
    if (merged === undefined) {
      merged = mergeLazily(key, this.#buildInput(key, this.sectionsInForce(key)), this.#secrets);
      this.#mergedSections.set(key, merged);
    }
    return merged;
  }

  /** Merges a section with some layers replaced, to try them; reuses the merged values in force if nothing differs. */
  mergeSections(key: string, change: Partial<SectionInput>): LazyMergedValues {
    const layers = this.#buildInput(key, this.sectionsInForce(key));
    const names = Object.keys(change) as (keyof SectionInput)[];
    if (names.every((name) => change[name] === layers[name])) return this.mergedSection(key);
    return mergeLazily(key, { ...layers, ...change }, this.#secrets);
  }

  /** The layers of a section that can change without a new tree: ConfigMap, overlay and sources in force. */
  sectionsInForce(key: string): Sections {
    const sources = this.#sources.currentFor(key).layer;
    return { config: findSection(this.#config, key), overlay: findSection(this.#overlay, key), sources };
  }

  /** Describes which layer, file or hook set each leaf of a section, by JSON pointer, for `module values --explain`. */
  explainSection(key: string): JsonObject {
    const sectionOrigins = this.sectionOrigins(key);
    return Object.fromEntries(explainOrigins(sectionOrigins.input, listLayerOrigins(sectionOrigins)));
  }

  /** The layers of a section and the files, objects and hooks that set them, so that messages name the origin of a value. */
  sectionOrigins(key: string, sections = this.sectionsInForce(key)): SectionOrigins {
    const module = this.#modules.get(key);
    return {
      key,
      configMap: this.#location.configMap,
      input: this.#buildInput(key, sections),
      module,
      schemas: this.#schemaFiles(key),
      findCommonPosition: key === GLOBAL ? this.#globals?.findGlobalPosition : module?.common.findPosition,
      findHook: (path) => this.#authors.findAuthor(key, path),
    };
  }

  /** All layers of a section. The getter compiles the schemas only when the merge reads them: most merged values are not read. */
  #buildInput(key: string, { config, overlay, sources }: Sections): SectionInput {
    const module = this.#modules.get(key);
    const files = this.#schemaFiles(key);
    return {
      get schemas() {
        return usableSchemas(files);
      },
      common: key === GLOBAL ? this.#globals?.globalValues : module?.common.section,
      own: module?.own.section,
      sources,
      config,
      overlay,
      patches: this.patches(key),
    };
  }

  /** All modules of the tree, broken ones included. */
  modules(): Module[] {
    return [...this.#modules.values()];
  }

  /** The schemas of `global` or of a module's key; broken ones accept everything (the module is Invalid). */
  schemas(key: string): Schemas {
    return usableSchemas(this.#schemaFiles(key));
  }

  #schemaFiles(key: string): SchemaFiles {
    return (key === GLOBAL ? this.#globals?.globalSchemas : this.#modules.get(key)?.schemas) ?? NO_SCHEMAS;
  }

  /** The ConfigMap's own section for `key` (with overlay merged in), as in CONFIG_VALUES_PATH. */
  configSection(key: string): Section | undefined {
    return findSection(this.#configWithOverlay, key);
  }

  /** The merged flag of a module, and the layer that decided it. */
  flag(module: Module, config = this.#config): ModuleFlag {
    const byHook = this.#hookFlags.get(module.valuesKey);
    return mergeFlag(module, { config, byHook }, this.#location.flagExtenders);
  }

  /** The settings of a module in the ConfigMap; `maintenance` of the ConfigMap suspends every module. */
  settings({ valuesKey }: Pick<Module, "valuesKey">): ModuleSettings {
    const own = { ...NO_SETTINGS, ...this.#config?.settings.get(valuesKey) };
    return this.#config?.isFrozen === true ? { ...own, suspended: true } : own;
  }
}
