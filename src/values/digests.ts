/**
 * Digests of values and of the ConfigMap. Their readers keep a digest, and compare it later to notice a change: for example, a run of a
 * module is due if its section differs from that of its last run. `globalConfig` is what the ConfigMap sets for all modules together.
 */

import { digest, digestJson } from "../base/index.ts";
import { GLOBAL } from "../base/model/index.ts";
import type { Json, JsonObject, Module, Section } from "../base/model/index.ts";
import { findSection, keepsRelease, type ModuleSettings, type ParsedConfig } from "./config/config-map.ts";
import type { SourcesView } from "./sources/section-sources.ts";

/** Digests of the ConfigMap: of `globalConfig`, whose change requires a converge, of the section `global` alone, and of each module's part, by name. */
export interface ConfigDigests {
  readonly globalConfig: string;
  readonly globalSection: string;
  readonly sections: ReadonlyMap<string, string>;
}

/** Digests of the parts of the ConfigMap that one module depends on, as inputs of its runs. Only a changed `section` makes a run due. */
export interface ConfigInputs {
  /** The module's section and settings. */
  readonly section: string;
  /** Section and settings of the module, and the section `global`: the values that a run gets from the ConfigMap. */
  readonly given: string;
  /** Section and settings of the module, and `globalConfig`. */
  readonly config: string;
}

/** Selects the digests that a run of one module depends on from those of the whole ConfigMap. */
export function configInputsFor(
  { globalConfig, globalSection, sections }: ConfigDigests,
  module: string,
): ConfigInputs {
  return buildInputs(sections.get(module) ?? "", globalSection, globalConfig);
}

function buildInputs(section: string, globalSection: string, globalConfig: string): ConfigInputs {
  return { section, given: digest(section, globalSection), config: digest(section, globalConfig) };
}

interface LayersInForce {
  readonly config: ParsedConfig | undefined;
  readonly overlay: ParsedConfig | undefined;
  mergedSection(key: string): { readonly digest: string };
  flag(module: Module): { readonly enabled: boolean };
  modules(): Module[];
  settings(module: Module): ModuleSettings;
  readonly sources: Pick<SourcesView, "currentFor">;
}

/** Digests of the values in force: of the merged layers, or of what the ConfigMap sets. Keeps each until a layer changes (`clear`). */
export class Digests {
  readonly #values: LayersInForce;
  readonly #digestByName = new Map<string, string>();

  constructor(values: LayersInForce) {
    this.#values = values;
  }

  /** Drops all digests, after a layer has changed. */
  clear(): void {
    this.#digestByName.clear();
  }

  /** Digests by which a converge notices that ConfigMap or global values have changed since the last one. */
  convergeDigests(): { readonly globalConfig: string; readonly globals: string } {
    return { globalConfig: this.globalConfigDigest(), globals: this.#globalsDigest() };
  }

  /** Digest of what patches of hooks can change: this section, and flags for `global`. */
  patchableDigest(key: string): string {
    return key === GLOBAL ? this.#globalsDigest() : this.#values.mergedSection(key).digest;
  }

  /** Digest of the merged global values, and of the flags that all layers together give to the modules. */
  #globalsDigest(): string {
    return this.#digestOnce("globals", () => [
      this.#values.mergedSection(GLOBAL).digest,
      this.#flagsByKey((module) => this.#values.flag(module).enabled),
    ]);
  }

  /** Digest of the content of the ConfigMap whose change requires a converge of all modules: global values, flags, protected releases. */
  globalConfigDigest(): string {
    return this.#digestOnce("globalConfig", () => [
      this.#sectionDigest(GLOBAL),
      this.#flagsByKey((module) => this.#values.config?.flags.get(module.valuesKey)),
      this.#listKeptReleases(),
    ]);
  }

  /**
   * What keeps releases of disabled or deleted modules: the disabled modules with such a setting (`webProtected`), and such keys of
   * deleted modules. When the user removes one, a converge must run, because it then uninstalls the release.
   */
  #listKeptReleases(): Json[] {
    // The enabled script of a module may disable it, whatever its flag is.
    const maybeDisabled = this.#values
      .modules()
      .filter((module) => module.enabledScript !== undefined || !this.#values.flag(module).enabled);
    const withRelease = maybeDisabled.filter((module) => keepsRelease(this.#values.settings(module)));
    const { guards = [], isFrozen = false } = this.#values.config ?? {};
    return [withRelease.map(({ name }) => name), [...guards].toSorted(), isFrozen];
  }

  /** Digests of the ConfigMap in force that a run of the module depends on. */
  configInputs(module: Module): ConfigInputs {
    return buildInputs(this.#sectionAndSettings(module), this.#globalSection(), this.globalConfigDigest());
  }

  /** Digest of the ConfigMap's contribution to the values of the module, without settings such as maintenance. */
  configValuesDigest({ valuesKey: key }: Module): string {
    return this.#digestOnce(`values ${key}`, () => [this.#sectionDigest(key), this.#sectionDigest(GLOBAL)]);
  }

  /** Digest of what the ConfigMap sets for one module: its section and its settings; `isFrozen` suspends every module. */
  #sectionAndSettings({ valuesKey: key }: Module): string {
    return this.#digestOnce(`section ${key}`, () => [
      this.#sectionDigest(key),
      { ...this.#values.config?.settings.get(key) } as JsonObject,
      this.#values.config?.isFrozen ?? false,
    ]);
  }

  #globalSection(): string {
    return this.#digestOnce("globalSection", () => [this.#sectionDigest(GLOBAL)]);
  }

  /** Digests of the ConfigMap in force, for all modules and for each: compared before and after an edit, they show which modules it concerns. */
  configDigests(): ConfigDigests {
    const sections = this.#values
      .modules()
      .map((module) => [module.name, this.#sectionAndSettings(module)] as const);
    return {
      globalConfig: this.globalConfigDigest(),
      globalSection: this.#globalSection(),
      sections: new Map(sections),
    };
  }

  #flagsByKey(flagOf: (module: Module) => boolean | undefined): JsonObject {
    return Object.fromEntries(this.#values.modules().map((module) => [module.valuesKey, flagOf(module)]));
  }

  /** The digest of `parts`, from the cache under `name`, or computed and cached until a layer changes. */
  #digestOnce(name: string, parts: () => Json[]): string {
    const cached = this.#digestByName.get(name);
    if (cached !== undefined) return cached;
    const computed = digestJson(parts());
    this.#digestByName.set(name, computed);
    return computed;
  }

  /** Digest of what ConfigMap, overlay and sources set in a section. The number of problems counts, too: it decides whether a run is possible. */
  #sectionDigest(key: string): string {
    const { config, overlay } = this.#values;
    const { layer, problems } = this.#values.sources.currentFor(key);
    const sources = layer === undefined ? [] : [layer.section ?? null, problems.length];
    return digestJson([...[config, overlay].map((each) => nullIfEmpty(findSection(each, key))), ...sources]);
  }
}

/** Returns null for an empty or missing section, so that both have the same digest. */
function nullIfEmpty(section: Section | undefined): Json {
  const isEmpty = section === undefined || (!Array.isArray(section) && Object.keys(section).length === 0);
  return isEmpty ? null : section;
}
