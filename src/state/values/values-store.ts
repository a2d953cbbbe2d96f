/** The layers of values and what is merged from them (docs/VALUES.md, "Layers"). */

import { digestJson } from "../../lib/index.ts";
import type { KnownSecrets } from "../../lib/index.ts";
import { GLOBAL, ProblemError } from "../../model/index.ts";
import type { EnabledBy, JsonObject, Module, SchemaFiles, Section, Tree } from "../../model/index.ts";
import {
  NO_SETTINGS,
  applyPatch,
  compact,
  compileSchemas,
  effective,
  explain,
  patchedSection,
  withOverlay,
} from "../../values/index.ts";
import type {
  Effective,
  ModuleSettings,
  ParsedConfig,
  PatchOperation,
  Places,
  Schemas,
  SectionInput,
  Violation,
} from "../../values/index.ts";
import { Digests } from "./digests.ts";
import { locate, placesOf, wordsOf } from "./origins.ts";
import type { Located, Written } from "./origins.ts";
import { PatchAuthors } from "./patch-authors.ts";
import { sectionIn } from "./sections.ts";

/** Merged values of one section, of the layers as they were when it was asked for; merged at the first look. */
export interface Merged extends Effective {
  readonly digest: string;
  /** JSON pointers into the merged values, from the section's key on, that its schemas mark as secret. */
  readonly secretPaths: readonly string[];
}

/** What ConfigMap and overlay say about one key. */
export type Sections = Pick<SectionInput, "config" | "overlay">;
type Globals = Pick<Tree, "globalValues" | "globalSchemas" | "globalPlaceOf">;
type Layers = Pick<SectionInput, "config" | "overlay" | "patches">;

const NO_SCHEMAS: SchemaFiles = {};
const NO_PATCHES: readonly PatchOperation[] = [];

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
  readonly digests: Digests;
  readonly #secrets: KnownSecrets | undefined;

  /** `secrets` learns the secrets that values contain. */
  constructor(secrets?: KnownSecrets) {
    this.#secrets = secrets;
    this.digests = new Digests(this);
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
    this.digests.clear();
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
    this.digests.clear();
  }

  /** Adds validated patches to those stored for `key`; `hook` is the one that left them. */
  addPatches(key: string, operations: readonly PatchOperation[], hook?: string): void {
    if (operations.length === 0) return;
    if (hook !== undefined) this.#authors.note(key, operations, hook);
    this.#patches.set(key, compact([...this.patches(key), ...operations]));
    this.#merged.delete(key);
    this.digests.clear();
  }

  patches(key: string): readonly PatchOperation[] {
    return this.#patches.get(key) ?? NO_PATCHES;
  }

  /** Flags patched by global hooks; undefined removes the hooks' flag. */
  setHookFlag(valuesKey: string, enabled: boolean | undefined): void {
    if (enabled === undefined) this.#hookFlags.delete(valuesKey);
    else this.#hookFlags.set(valuesKey, enabled);
    this.digests.clear();
  }

  /** The merged values of `global` or of a module's key. */
  merged(key: string): Merged {
    let merged = this.#merged.get(key);
    if (merged === undefined) {
      merged = this.merge(key, { ...this.#sections(key), patches: this.patches(key) });
      this.#merged.set(key, merged);
    }
    return merged;
  }

  /** As `merged`, with other layers, to judge a change before it is made. */
  merge(key: string, layers: Layers): Merged {
    const input = this.#input(key, layers);
    const result = once(() => {
      const merged = effective(input);
      this.#secrets?.learn(merged.values, input.schemas.secretPaths);
      return merged;
    });
    // Values that are merged only to be judged have no digest.
    const known = once(() => digestJson(result().helmValues));
    return {
      get config() {
        return result().config;
      },
      get values() {
        return result().values;
      },
      get helmValues() {
        return result().helmValues;
      },
      get digest() {
        return known();
      },
      get secretPaths() {
        return [...input.schemas.secretPaths].map((path) => `/${key}${path}`);
      },
    };
  }

  /** As `merged`, with other sections of ConfigMap and overlay; those in force are not merged again. */
  mergeSections(key: string, { config, overlay }: Sections): Merged {
    const inForce = config === sectionIn(this.#config, key) && overlay === sectionIn(this.#overlay, key);
    return inForce ? this.merged(key) : this.merge(key, { config, overlay, patches: this.patches(key) });
  }

  /** What ConfigMap and overlay will say when a hook's patch is saved: in the overlay, where there is one. */
  patchedSections(key: string, operations: readonly PatchOperation[]): Sections {
    const { config, overlay } = this.#sections(key);
    if (operations.length === 0) return { config, overlay };
    if (this.#overlay === undefined) return { config: applyPatch(config, operations), overlay };
    return { config, overlay: patchedSection(overlay, operations, config ?? {}) };
  }

  #sections(key: string): Sections {
    return { config: sectionIn(this.#config, key), overlay: sectionIn(this.#overlay, key) };
  }

  /** Which layer set each leaf of a section, and where, by JSON pointer. */
  explain(key: string): JsonObject {
    const input = this.#input(key, { ...this.#sections(key), patches: this.patches(key) });
    return Object.fromEntries(explain(input, this.#places(key)));
  }

  /** Who caused violations: the layer that set the leaf, with file and line, ConfigMap key or hook. */
  locate(key: string, violations: readonly Violation[], sections = this.#sections(key)): Located[] {
    return locate(this.#written(key, sections), violations);
  }

  /** Violations in what is in force, in words. */
  describe(key: string, violations: readonly Violation[]): string {
    return wordsOf(key, this.locate(key, violations)).join("; ");
  }

  #written(key: string, sections: Sections): Written {
    const module = this.#modules.get(key);
    return {
      key,
      input: this.#input(key, { ...sections, patches: this.patches(key) }),
      places: this.#places(key),
      lines: {
        "modules/values.yaml": key === GLOBAL ? this.#globals?.globalPlaceOf : module?.common.placeOf,
        "module values.yaml": module?.own.placeOf,
      },
    };
  }

  #places(key: string): Places {
    const places = placesOf(key, this.#modules.get(key), this.#schemaFiles(key));
    return { ...places, hookOf: (path) => this.#authors.of(key, path) };
  }

  #input(key: string, layers: Layers): SectionInput {
    const module = this.#modules.get(key);
    const files = this.#schemaFiles(key);
    return {
      get schemas() {
        return usable(files);
      },
      common: key === GLOBAL ? this.#globals?.globalValues : module?.common.section,
      own: module?.own.section,
      ...layers,
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

  /** What the ConfigMap says of a module beside its section and flag. */
  settings({ valuesKey }: Pick<Module, "valuesKey">): ModuleSettings {
    return { ...NO_SETTINGS, ...this.#config?.settings.get(valuesKey) };
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

function once<T extends object | string>(make: () => T): () => T {
  let made: T | undefined;
  return () => (made ??= make());
}
