/** The layers of values merged (docs/VALUES.md, "Layers"), and digests by which a change of them is noticed. */

import { digest, digestJson, type KnownSecrets } from "../lib/index.ts";
import { GLOBAL, isJsonObject, member, setMember } from "../model/index.ts";
import type { Json, JsonObject, Module, Section } from "../model/index.ts";
import { sectionIn, type ParsedConfig } from "./config/config-map.ts";
import { keepsRelease } from "./config/module-settings.ts";
import { replay, type PatchOperation } from "./patch/apply-patch.ts";
import type { Schemas } from "./schema/schemas.ts";
import type { ValuesStore } from "./values-store.ts";

/** The layers of one section, weakest first. Every layer may be missing. */
export interface SectionInput {
  readonly schemas: Schemas;
  /** From `modules/values.yaml`. */
  readonly common?: Section | undefined;
  /** From the module's own `values.yaml`. */
  readonly own?: Section | undefined;
  /** From the ConfigMap; may hold nulls. */
  readonly config?: Section | undefined;
  /** From the overlay ConfigMap; may hold nulls. */
  readonly overlay?: Section | undefined;
  /** Stored patches of hooks. */
  readonly patches?: readonly PatchOperation[] | undefined;
}

/** The results of merging the layers of one section. */
export interface Effective {
  /**
   * What the config schema validates: its defaults, files and ConfigMap, without nulls and without keys that
   * only files set and only the values schema knows.
   */
  readonly config: Section;
  /** What hooks see: everything merged, patches applied, without the ConfigMap's nulls. */
  readonly values: Section;
  /** What helm gets: as `values`, with those nulls, so that the chart's own defaults are removed too. */
  readonly helmValues: Section;
}

/**
 * Merges the layers of `global` or of a module: defaults of the config schema, files, ConfigMap, overlay, defaults
 * of the values schema, patches. Pure: nothing is changed in place, and parts that a layer does not touch are
 * shared.
 */
export function effective(input: SectionInput): Effective {
  const { schemas } = input;
  const written = merge(input.config, input.overlay) as Section | undefined;
  const given = (mergeLayers([input.common, input.own, input.config, input.overlay]) ?? {}) as Section;
  const withConfigDefaults = schemas.configDefaults(given);
  const full = schemas.valuesDefaults(withConfigDefaults);
  const bare = withoutNulls(full) as Section;
  const judged = full === withConfigDefaults ? bare : (withoutNulls(withConfigDefaults) as Section);
  const config = schemas.configPart(judged, written);
  const values = replay(bare, input.patches ?? []) ?? {};
  return { config, values, helmValues: withNullsOf(values, full) as Section };
}

/**
 * `upper` over `lower`: maps merge, everything else is replaced, lists and null included.
 * Neither is changed; what did not change is shared.
 */
export function merge(lower: Json | undefined, upper: Json | undefined): Json | undefined {
  if (upper === undefined || lower === upper) return lower;
  if (lower === undefined || !isJsonObject(lower) || !isJsonObject(upper)) return upper;
  const merged: JsonObject = { ...lower };
  let changed = false;
  for (const [key, value] of Object.entries(upper)) {
    const before = member(lower, key);
    const after = merge(before, value);
    if (after === undefined || after === before) continue;
    setMember(merged, key, after);
    changed = true;
  }
  return changed ? merged : lower;
}

/** All layers merged, the last one strongest; undefined layers are skipped. */
export function mergeLayers(layers: readonly (Json | undefined)[]): Json | undefined {
  return layers.reduce<Json | undefined>((lower, upper) => merge(lower, upper), undefined);
}

/**
 * The ConfigMap with its overlay on top, leaf by leaf; of the overlay only `global` and sections count. This is
 * what CONFIG_VALUES_PATH shows.
 */
export function withOverlay(config: ParsedConfig, overlay: ParsedConfig | undefined): ParsedConfig {
  if (overlay === undefined) return config;
  const sections = new Map(config.sections);
  for (const [key, section] of overlay.sections) {
    sections.set(key, merge(sections.get(key), section) as Section);
  }
  return { ...config, global: merge(config.global, overlay.global) as JsonObject | undefined, sections };
}

/** `value` without the members of maps that are null; items of lists stay as they are. Shares what has none. */
function withoutNulls(value: Json): Json {
  if (!isJsonObject(value)) return value;
  const kept: JsonObject = {};
  let changed = false;
  for (const [key, before] of Object.entries(value)) {
    const after = before === undefined || before === null ? undefined : withoutNulls(before);
    changed ||= after !== before;
    if (after !== undefined) setMember(kept, key, after);
  }
  return changed ? kept : value;
}

/**
 * `value` with the nulls of `source` added where `value` has nothing, so that helm drops the chart's own defaults
 * too.
 */
function withNullsOf(value: Json, source: Json | undefined): Json {
  if (!isJsonObject(value) || !isJsonObject(source)) return value;
  let result = value;
  for (const [key, from] of Object.entries(source)) {
    const before = member(value, key);
    const after = nullOf(before, from);
    if (after === undefined || after === before) continue;
    if (result === value) result = { ...value };
    setMember(result, key, after);
  }
  return result;
}

function nullOf(before: Json | undefined, from: Json | undefined): Json | undefined {
  if (before === undefined) return from === null ? null : undefined;
  return withNullsOf(before, from);
}

/** Merged values of one section, of the layers as they were when it was asked for; merged at the first look. */
export interface Merged extends Effective {
  readonly digest: string;
  /** JSON pointers into the merged values, from the section's key on, that its schemas mark as secret. */
  readonly secretPaths: readonly string[];
}

/** The merged values of these layers; `secrets` learns the secrets that they contain. */
export function mergedOf(key: string, input: SectionInput, secrets: KnownSecrets | undefined): Merged {
  const result = once(() => {
    const merged = effective(input);
    secrets?.learn(merged.values, input.schemas.secretPaths);
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

function once<T extends object | string>(make: () => T): () => T {
  let made: T | undefined;
  return () => (made ??= make());
}

/** Digests of the ConfigMap: of what concerns all modules, and of each module's own part, by module name. */
export interface ConfigDigests {
  readonly globalConfig: string;
  readonly globalSection: string;
  readonly sections: ReadonlyMap<string, string>;
}

/** Digests of what concerns one module. */
export interface ConfigBasis {
  /** The module's own part: section and settings. */
  readonly section: string;
  /** What its run is given: its section and that of globals. */
  readonly given: string;
  /** Everything that concerns it. */
  readonly config: string;
}

/** What a run of a module takes into account of it. */
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
type Layers = Pick<ValuesStore, "config" | "overlay" | "merged" | "flag" | "modules" | "settings">;

/** Digests of the layers in force, each made once until a layer changes. */
export class Digests {
  readonly #values: Layers;
  readonly #known = new Map<string, string>();

  constructor(values: Layers) {
    this.#values = values;
  }

  /** A layer has changed. */
  clear(): void {
    this.#known.clear();
  }

  /** What a reload depends on. */
  coverage(): { readonly globalConfig: string; readonly globals: string } {
    return { globalConfig: this.globalConfig(), globals: this.globals() };
  }

  /** What hooks can change by patches of this section, global ones with flags. */
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

  /** Digest of what causes a reload: the `global` section and the flags of the ConfigMap in force. */
  globalConfig(): string {
    return this.#digest("globalConfig", () => [
      this.#sectionDigest(GLOBAL),
      this.#flags((module) => this.#values.config?.flags.get(module.valuesKey)),
      this.#guards(),
    ]);
  }

  /** What keeps releases of disabled or missing modules; when it is taken back, a reload removes them. */
  #guards(): Json[] {
    const maybeOff = this.#values
      .modules()
      .filter((module) => module.enabledScript !== undefined || !this.#values.flag(module).enabled);
    const kept = maybeOff.filter((module) => keepsRelease(this.#values.settings(module)));
    const { guards = [], isFrozen = false } = this.#values.config ?? {};
    return [kept.map(({ name }) => name), [...guards].toSorted(), isFrozen];
  }

  /** What a run of the module takes into account of the ConfigMap in force. */
  basisOf(module: Module): ConfigBasis {
    return basisFrom(this.#section(module), this.#globalSection(), this.globalConfig());
  }

  /** What the ConfigMap in force gives to the values of the module: no setting beside them, such as maintenance. */
  givenValues({ valuesKey: key }: Module): string {
    return this.#digest(`values ${key}`, () => [this.#sectionDigest(key), this.#sectionDigest(GLOBAL)]);
  }

  #section({ valuesKey: key }: Module): string {
    return this.#digest(`section ${key}`, () => [
      this.#sectionDigest(key),
      { ...this.#values.config?.settings.get(key) },
      this.#values.config?.isFrozen ?? false,
    ]);
  }

  #globalSection(): string {
    return this.#digest("globalSection", () => [this.#sectionDigest(GLOBAL)]);
  }

  /** Digests of the ConfigMap in force. */
  ofConfig(): ConfigDigests {
    const sections = this.#values.modules().map((module) => [module.name, this.#section(module)] as const);
    return {
      globalConfig: this.globalConfig(),
      globalSection: this.#globalSection(),
      sections: new Map(sections),
    };
  }

  #flags(of: (module: Module) => boolean | undefined): JsonObject {
    return Object.fromEntries(this.#values.modules().map((module) => [module.valuesKey, of(module)]));
  }

  #digest(name: string, parts: () => Json[]): string {
    let known = this.#known.get(name);
    if (known === undefined) {
      known = digestJson(parts());
      this.#known.set(name, known);
    }
    return known;
  }

  #sectionDigest(key: string): string {
    const { config, overlay } = this.#values;
    return digestJson([config, overlay].map((each) => orNothing(sectionIn(each, key))));
  }
}

/** An empty section says the same as no section. */
function orNothing(section: Section | undefined): Json {
  return section === undefined || (!Array.isArray(section) && Object.keys(section).length === 0)
    ? null
    : section;
}
