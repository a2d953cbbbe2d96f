/** Digests of values and of the ConfigMap, which detect changes. */

import { digest, digestJson } from "../lib/index.ts";
import { GLOBAL } from "../model/index.ts";
import type { Json, JsonObject, Module, Section } from "../model/index.ts";
import { findSection, type ParsedConfig } from "./config/config-map.ts";
import { keepsRelease, type ModuleSettings } from "./config/module-settings.ts";
import type { SourcesView } from "./sources/section-sources.ts";

/** Digests of the ConfigMap: of the part for all modules, and of each module's part, by module name. */
export interface ConfigDigests {
  readonly globalConfig: string;
  readonly globalSection: string;
  readonly sections: ReadonlyMap<string, string>;
}

/** Digests of the ConfigMap for one module. */
export interface ConfigBasis {
  /** The module's own part: section and settings. */
  readonly section: string;
  /** Digest of its section, its settings and the `global` section: the values that a run gets from the ConfigMap. */
  readonly given: string;
  /** Everything that concerns it. */
  readonly config: string;
}

/** The digests that a run of a module depends on. */
export function configBasisFor(
  { globalConfig, globalSection, sections }: ConfigDigests,
  module: string,
): ConfigBasis {
  return buildBasis(sections.get(module) ?? "", globalSection, globalConfig);
}

/** Combines the digests of the parts of the ConfigMap for one module. */
function buildBasis(section: string, globalSection: string, globalConfig: string): ConfigBasis {
  return { section, given: digest(section, globalSection), config: digest(section, globalConfig) };
}

/** The layers that digests are made of. */
interface Layers {
  readonly config: ParsedConfig | undefined;
  readonly overlay: ParsedConfig | undefined;
  merged(key: string): { readonly digest: string };
  flag(module: Module): { readonly enabled: boolean };
  modules(): Module[];
  settings(module: Module): ModuleSettings;
  readonly sources: Pick<SourcesView, "of">;
}

/** Digests of the layers in force, each made once until a layer changes. */
export class Digests {
  readonly #values: Layers;
  readonly #digestByName = new Map<string, string>();

  constructor(values: Layers) {
    this.#values = values;
  }

  /** Drops all digests, after a layer has changed. */
  clear(): void {
    this.#digestByName.clear();
  }

  /** Digests that a converge depends on. */
  convergeDigests(): { readonly globalConfig: string; readonly globals: string } {
    return { globalConfig: this.globalConfig(), globals: this.globals() };
  }

  /** Digest of what patches of hooks can change: this section, and flags for `global`. */
  patchable(key: string): string {
    return key === GLOBAL ? this.globals() : this.#values.merged(key).digest;
  }

  /** Digest of merged global values and merged flags. */
  globals(): string {
    return this.#digestOnce("globals", () => [
      this.#values.merged(GLOBAL).digest,
      this.#flagsByKey((module) => this.#values.flag(module).enabled),
    ]);
  }

  /** Digest of the triggers of a converge: the `global` section and the flags of the ConfigMap in force. */
  globalConfig(): string {
    return this.#digestOnce("globalConfig", () => [
      this.#sectionDigest(GLOBAL),
      this.#flagsByKey((module) => this.#values.config?.flags.get(module.valuesKey)),
      this.#listKeptReleases(),
    ]);
  }

  /**
   * What keeps releases of disabled or deleted modules: the modules with such settings, and the keys of deleted modules. A converge
   * must run when this changes, because it then uninstalls the releases.
   */
  #listKeptReleases(): Json[] {
    const maybeOff = this.#values
      .modules()
      .filter((module) => module.enabledScript !== undefined || !this.#values.flag(module).enabled);
    const kept = maybeOff.filter((module) => keepsRelease(this.#values.settings(module)));
    const { guards = [], isFrozen = false } = this.#values.config ?? {};
    return [kept.map(({ name }) => name), [...guards].toSorted(), isFrozen];
  }

  /** Digests of the ConfigMap in force that a run of the module depends on. */
  basisOf(module: Module): ConfigBasis {
    return buildBasis(this.#sectionAndSettings(module), this.#globalSection(), this.globalConfig());
  }

  /** Digest of the ConfigMap's contribution to the values of the module, without settings such as maintenance. */
  givenValues({ valuesKey: key }: Module): string {
    return this.#digestOnce(`values ${key}`, () => [this.#sectionDigest(key), this.#sectionDigest(GLOBAL)]);
  }

  /** Digest of the section and the settings of a module. */
  #sectionAndSettings({ valuesKey: key }: Module): string {
    return this.#digestOnce(`section ${key}`, () => [
      this.#sectionDigest(key),
      { ...this.#values.config?.settings.get(key) } as JsonObject,
      this.#values.config?.isFrozen ?? false,
    ]);
  }

  /** Digest of the ConfigMap's `global` section. */
  #globalSection(): string {
    return this.#digestOnce("globalSection", () => [this.#sectionDigest(GLOBAL)]);
  }

  /** Digests of the ConfigMap in force, for all modules and for each. An edit is judged by comparing them before and after. */
  ofConfig(): ConfigDigests {
    const sections = this.#values
      .modules()
      .map((module) => [module.name, this.#sectionAndSettings(module)] as const);
    return {
      globalConfig: this.globalConfig(),
      globalSection: this.#globalSection(),
      sections: new Map(sections),
    };
  }

  /** A flag of each module, by values key. */
  #flagsByKey(flagOf: (module: Module) => boolean | undefined): JsonObject {
    return Object.fromEntries(this.#values.modules().map((module) => [module.valuesKey, flagOf(module)]));
  }

  /** The digest of `parts`, computed once under `name` until a layer changes. */
  #digestOnce(name: string, parts: () => Json[]): string {
    let computed = this.#digestByName.get(name);
    if (computed === undefined) {
      computed = digestJson(parts());
      this.#digestByName.set(name, computed);
    }
    return computed;
  }

  /** Digest of what ConfigMap, overlay and `valuesFrom` set in a section. */
  #sectionDigest(key: string): string {
    const { config, overlay } = this.#values;
    const { layer, problems } = this.#values.sources.of(key);
    const sources = layer === undefined ? [] : [layer.section ?? null, problems.length];
    return digestJson([...[config, overlay].map((each) => nullIfEmpty(findSection(each, key))), ...sources]);
  }
}

/** Returns null for an empty or missing section, so that both have the same digest. */
function nullIfEmpty(section: Section | undefined): Json {
  return section === undefined || (!Array.isArray(section) && Object.keys(section).length === 0)
    ? null
    : section;
}
