/** Merges the layers of values (docs/reference/values.md, "Layers"). */

import { digestJson, type KnownSecrets } from "../lib/index.ts";
import { combineMembers, isJsonObject, mapMembers } from "../model/index.ts";
import type { Json, JsonObject, Section } from "../model/index.ts";
import type { ParsedConfig } from "./config/config-map.ts";
import { merge, mergeLayers } from "./merge.ts";
import { replay, type PatchOperation } from "./patch/apply-patch.ts";
import type { Schemas } from "./schema/schemas.ts";
import type { SourceLayer } from "./sources/source-layer.ts";

/** The layers of one section, weakest first. Every layer may be missing. */
export interface SectionInput {
  readonly schemas: Schemas;
  /** From `modules/values.yaml`. */
  readonly common?: Section | undefined;
  /** From the module's own `values.yaml`. */
  readonly own?: Section | undefined;
  /** From Secrets and ConfigMaps of `valuesFrom`. */
  readonly sources?: SourceLayer | undefined;
  /** From the ConfigMap; may contain nulls. */
  readonly config?: Section | undefined;
  /** From the overlay ConfigMap; may contain nulls. */
  readonly overlay?: Section | undefined;
  /** Stored patches of hooks. */
  readonly patches?: readonly PatchOperation[] | undefined;
}

/** The results of merging the layers of one section. */
export interface Effective {
  /**
   * Input of the config schema: its defaults, files and ConfigMap, without nulls and without keys that only files set
   * and only the values schema declares.
   */
  readonly config: Section;
  /** Values for hooks: all layers merged, patches applied, without the ConfigMap's nulls. */
  readonly values: Section;
  /** Values for helm: as `values`, with those nulls, which also remove defaults of the chart. */
  readonly helmValues: Section;
}

/**
 * Merges the layers of `global` or of a module: defaults of the config schema, files, `valuesFrom`, ConfigMap, overlay,
 * defaults of the values schema, patches. Pure: shares the parts that a layer does not
 * change.
 */
export function effective(input: SectionInput): Effective {
  const { schemas } = input;
  const strongLayers = [input.sources?.section, input.config, input.overlay];
  const written = mergeLayers(strongLayers) as Section | undefined;
  const withoutDefaults = (mergeLayers([input.common, input.own, ...strongLayers]) ?? {}) as Section;
  const withConfigDefaults = schemas.configDefaults(withoutDefaults);
  const full = schemas.valuesDefaults(withConfigDefaults);
  const fullWithoutNulls = withoutNulls(full) as Section;
  const configInput =
    full === withConfigDefaults ? fullWithoutNulls : (withoutNulls(withConfigDefaults) as Section);
  const config = schemas.configPart(configInput, written);
  const values = replay(fullWithoutNulls, input.patches ?? []) ?? {};
  return { config, values, helmValues: addNulls(values, full) as Section };
}

/**
 * The ConfigMap with its overlay on top, leaf by leaf; only `global` and sections of the overlay count. The
 * content of CONFIG_VALUES_PATH.
 */
export function withOverlay(config: ParsedConfig, overlay: ParsedConfig | undefined): ParsedConfig {
  if (overlay === undefined) return config;
  const sections = new Map(config.sections);
  for (const [key, section] of overlay.sections) {
    sections.set(key, merge(sections.get(key), section) as Section);
  }
  return { ...config, global: merge(config.global, overlay.global) as JsonObject | undefined, sections };
}

/** `value` without the members of maps that are null; items of lists stay as they are. Shares parts without nulls. */
function withoutNulls(value: Json): Json {
  if (!isJsonObject(value)) return value;
  return mapMembers(value, (each) => (each === null ? undefined : withoutNulls(each)));
}

/** `value` with null at each key that is missing in it and null in `source`: helm drops the chart's default of such a key. */
function addNulls(value: Json, source: Json | undefined): Json {
  if (!isJsonObject(value) || !isJsonObject(source)) return value;
  return combineMembers(value, source, addNull);
}

/** Combines one member: a missing value becomes null where the source has null. */
function addNull(before: Json | undefined, from: Json | undefined): Json | undefined {
  if (before === undefined) return from === null ? null : undefined;
  return addNulls(before, from);
}

/** Lazily merged values of one section, from the layers at the time of the call. */
export interface Merged extends Effective {
  readonly digest: string;
  /** JSON pointers of secret values, starting with the section's key. */
  readonly secretPaths: readonly string[];
}

/**
 * The merged values of a section, merged when a property is read for the first time. The merge adds the secrets in the values to
 * `secrets`.
 */
export function mergeLazily(key: string, input: SectionInput, secrets: KnownSecrets | undefined): Merged {
  const result = computeOnce(() => {
    const merged = effective(input);
    secrets?.register(merged.values, listSecretPaths(input));
    return merged;
  });
  // Lazy: values that are merged only for validation need no digest.
  const digestOnce = computeOnce(() => digestJson(result().helmValues));
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
      return digestOnce();
    },
    get secretPaths() {
      return [...listSecretPaths(input)].map((path) => `/${key}${path}`);
    },
  };
}

/** JSON pointers, in the section, of the values that the schemas mark as secret and of the values that come from Secrets. */
export function listSecretPaths({
  schemas,
  sources,
}: Pick<SectionInput, "schemas" | "sources">): ReadonlySet<string> {
  const paths = sources?.secretPaths ?? [];
  return paths.length === 0 ? schemas.secretPaths : new Set([...schemas.secretPaths, ...paths]);
}

/** Returns a function that calls `make` at its first call and then returns the same result. */
function computeOnce<T extends object | string>(make: () => T): () => T {
  let made: T | undefined;
  return () => (made ??= make());
}
