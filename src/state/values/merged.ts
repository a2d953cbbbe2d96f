/** What is made of the layers of values at the first look: merged sections, and digests by which a change is noticed. */

import { digest, digestJson } from "../../lib/index.ts";
import type { KnownSecrets } from "../../lib/index.ts";
import { GLOBAL } from "../../model/index.ts";
import type { Json, JsonObject, Module, Section } from "../../model/index.ts";
import { effective, keepsRelease, sectionIn } from "../../values/index.ts";
import type { Effective, SectionInput } from "../../values/index.ts";
import type { Coverage } from "../reload-record.ts";
import type { ConfigBasis } from "../run-record.ts";
import type { ValuesStore } from "./values-store.ts";

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

/** What a run of a module takes into account of it. */
export function basisIn(
  { globalConfig, globalSection, sections }: ConfigDigests,
  module: string,
): ConfigBasis {
  const section = sections.get(module) ?? "";
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
  coverage(): Coverage & { readonly globals: string } {
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
    return [kept.map(({ name }) => name), [...(this.#values.config?.guards ?? [])].toSorted()];
  }

  /** Digest of a module's own part of the ConfigMap: section and settings. */
  section(module: Module): string {
    const key = module.valuesKey;
    return this.#digest(`section ${key}`, () => [
      this.#sectionDigest(key),
      { ...this.#values.config?.settings.get(key) },
    ]);
  }

  /** Digest of what the ConfigMap gives a module's run: its section and that of globals. */
  given(module: Module): string {
    return digest(this.section(module), this.#globalSection());
  }

  #globalSection(): string {
    return this.#digest("globalSection", () => [this.#sectionDigest(GLOBAL)]);
  }

  /** Digest of everything the ConfigMap says that concerns a module. */
  config(module: Module): string {
    return digest(this.section(module), this.globalConfig());
  }

  /** Digests of the ConfigMap in force. */
  ofConfig(): ConfigDigests {
    const sections = this.#values.modules().map((module) => [module.name, this.section(module)] as const);
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
