/** Digests of values and of the ConfigMap, which detect changes. */

import { digest, digestJson } from "../lib/index.ts";
import { GLOBAL } from "../model/index.ts";
import type { Json, JsonObject, Module, Section } from "../model/index.ts";
import { sectionIn, type ParsedConfig } from "./config/config-map.ts";
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
  /** The input of its run: its section and the `global` section. */
  readonly given: string;
  /** Everything that concerns it. */
  readonly config: string;
}

/** The digests that a run of a module depends on. */
export function basisIn(
  { globalConfig, globalSection, sections }: ConfigDigests,
  module: string,
): ConfigBasis {
  return basisFrom(sections.get(module) ?? "", globalSection, globalConfig);
}

function basisFrom(section: string, globalSection: string, globalConfig: string): ConfigBasis {
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
    return this.#digest("globals", () => [
      this.#values.merged(GLOBAL).digest,
      this.#flags((module) => this.#values.flag(module).enabled),
    ]);
  }

  /** Digest of the triggers of a converge: the `global` section and the flags of the ConfigMap in force. */
  globalConfig(): string {
    return this.#digest("globalConfig", () => [
      this.#sectionDigest(GLOBAL),
      this.#flags((module) => this.#values.config?.flags.get(module.valuesKey)),
      this.#keptReleases(),
    ]);
  }

  /** Settings that keep releases of disabled or deleted modules; after their removal, a converge uninstalls the releases. */
  #keptReleases(): Json[] {
    const maybeOff = this.#values
      .modules()
      .filter((module) => module.enabledScript !== undefined || !this.#values.flag(module).enabled);
    const kept = maybeOff.filter((module) => keepsRelease(this.#values.settings(module)));
    const { guards = [], isFrozen = false } = this.#values.config ?? {};
    return [kept.map(({ name }) => name), [...guards].toSorted(), isFrozen];
  }

  /** Digests of the ConfigMap in force that a run of the module depends on. */
  basisOf(module: Module): ConfigBasis {
    return basisFrom(this.#section(module), this.#globalSection(), this.globalConfig());
  }

  /** Digest of the ConfigMap's contribution to the values of the module, without settings such as maintenance. */
  givenValues({ valuesKey: key }: Module): string {
    return this.#digest(`values ${key}`, () => [this.#sectionDigest(key), this.#sectionDigest(GLOBAL)]);
  }

  /** Digest of the section and the settings of a module. */
  #section({ valuesKey: key }: Module): string {
    return this.#digest(`section ${key}`, () => [
      this.#sectionDigest(key),
      { ...this.#values.config?.settings.get(key) } as JsonObject,
      this.#values.config?.isFrozen ?? false,
    ]);
  }

  #globalSection(): string {
    return this.#digest("globalSection", () => [this.#sectionDigest(GLOBAL)]);
  }

  ofConfig(): ConfigDigests {
    const sections = this.#values.modules().map((module) => [module.name, this.#section(module)] as const);
    return {
      globalConfig: this.globalConfig(),
      globalSection: this.#globalSection(),
      sections: new Map(sections),
    };
  }

  /** A flag of each module, by values key. */
  #flags(flagOf: (module: Module) => boolean | undefined): JsonObject {
    return Object.fromEntries(this.#values.modules().map((module) => [module.valuesKey, flagOf(module)]));
  }

  /** The digest of `parts`, computed once under `name` until a layer changes. */
  #digest(name: string, parts: () => Json[]): string {
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
    return digestJson([...[config, overlay].map((each) => nullIfEmpty(sectionIn(each, key))), ...sources]);
  }
}

/** Returns null for an empty or missing section, so that both have the same digest. */
function nullIfEmpty(section: Section | undefined): Json {
  return section === undefined || (!Array.isArray(section) && Object.keys(section).length === 0)
    ? null
    : section;
}
