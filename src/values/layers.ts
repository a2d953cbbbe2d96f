/**
 * Merges the layers of values and of flags, which enable modules (docs/reference/values.md, "Layers"). In the ConfigMap and its overlay, null removes what weaker layers set:
 * hooks get no such nulls, helm gets them, because they also remove defaults of the chart.
 */

import { digestJson, type KnownSecrets } from "../base/index.ts";
import {
  combineMembers,
  FLAG_EXTENDERS,
  isJsonObject,
  mapMembers,
  merge,
  mergeLayers,
} from "../base/model/index.ts";
import type { EnabledBy, FlagExtender, Json, JsonObject, Module, Section } from "../base/model/index.ts";
import type { ParsedConfig } from "./config/config-map.ts";
import { replayStoredPatches, type PatchOperation } from "./patch/apply-patch.ts";
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

/** The merged layers of one section, in the forms that its three readers need. */
export interface MergedValues {
  /** Input of the config schema: its defaults, files and ConfigMap, without nulls and without keys that only files may set. */
  readonly config: Section;
  /** Values for hooks: all layers merged, patches applied, without the ConfigMap's nulls. */
  readonly values: Section;
  /** Values for helm: as `values`, with those nulls, which also remove defaults of the chart. */
  readonly helmValues: Section;
}

/**
 * Merges the layers of `global` or of a module: defaults of the config schema, files, `valuesFrom`, ConfigMap, overlay,
 * defaults of the values schema, patches. Pure: shares the parts that a layer does not change.
 */
export function mergeSectionLayers(input: SectionInput): MergedValues {
  const { schemas } = input;
  const clusterLayers = [input.sources?.section, input.config, input.overlay];
  const setInCluster = mergeLayers(clusterLayers) as Section | undefined;
  const withoutDefaults = (mergeLayers([input.common, input.own, ...clusterLayers]) ?? {}) as Section;
  const withConfigDefaults = schemas.fillConfigDefaults(withoutDefaults);
  const withAllDefaults = schemas.fillValuesDefaults(withConfigDefaults);
  const withoutPatches = withoutNulls(withAllDefaults) as Section;
  const hasNoValuesDefaults = withAllDefaults === withConfigDefaults;
  const configInput = hasNoValuesDefaults ? withoutPatches : (withoutNulls(withConfigDefaults) as Section);
  const config = schemas.selectConfigPart(configInput, setInCluster);
  const values = replayStoredPatches(withoutPatches, input.patches ?? []) ?? {};
  return { config, values, helmValues: addNulls(values, withAllDefaults) as Section };
}

/** The ConfigMap with its overlay on top, leaf by leaf. Takes only values of the overlay, no flags and settings. Hooks read the result. */
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
  return combineMembers(value, source, (member, sourceMember) => {
    if (member !== undefined) return addNulls(member, sourceMember);
    return sourceMember === null ? null : undefined;
  });
}

/** Merged values of one section, which are merged when a property is read for the first time. */
export interface LazyMergedValues extends MergedValues {
  readonly digest: string;
  /** JSON pointers of secret values, starting with the section's key. */
  readonly secretPaths: readonly string[];
}

/** Merges the values of a section when they are first read: most never are. Then adds the secrets in the values to `secrets`. */
export function mergeLazily(
  key: string,
  input: SectionInput,
  secrets: KnownSecrets | undefined,
): LazyMergedValues {
  const result = computeOnce(() => {
    const merged = mergeSectionLayers(input);
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

/** JSON pointers within the section of values to redact: what the schemas mark as secret, and what comes from Secrets. */
export function listSecretPaths({
  schemas,
  sources,
}: Pick<SectionInput, "schemas" | "sources">): ReadonlySet<string> {
  const paths = sources?.secretPaths ?? [];
  return paths.length === 0 ? schemas.secretPaths : new Set([...schemas.secretPaths, ...paths]);
}

/** Returns a function that calls `make` at its first call and then always returns this result. */
function computeOnce<T extends object | string>(make: () => T): () => T {
  let made: T | undefined;
  return () => (made ??= make());
}

/** The merged flag of a module. */
export interface ModuleFlag {
  readonly enabled: boolean;
  /** The layer that decided it. */
  readonly by: EnabledBy;
  /** The module's `values.yaml` cannot be read, and no layer above it sets the flag: a user may have enabled the module there. */
  readonly isUnknown?: true;
}

/**
 * Whether a module is enabled, and the strongest layer with a flag, which decides that (default: disabled). A module that its ModuleSource does
 * not name any more is disabled, whatever the layers contain. `byHook`: the flag of a global hook. `extenders`: the layers that count, the
 * weakest first.
 */
export function mergeFlag(
  { valuesKey, own, common, origin }: Module,
  { config, byHook }: { readonly config: ParsedConfig | undefined; readonly byHook: boolean | undefined },
  extenders: readonly FlagExtender[] = FLAG_EXTENDERS,
): ModuleFlag {
  if (origin?.removed === true) return { enabled: false, by: "source" };
  const flags: Readonly<Record<FlagExtender, readonly (readonly [EnabledBy, boolean | undefined])[]>> = {
    KubeConfig: [["configmap", config?.flags.get(valuesKey)]],
    DynamicallyEnabled: [["hook", byHook]],
    Static: [
      ["module-values", own.enabled],
      ["values", common.enabled],
    ],
  };
  const strongestFirst = extenders.toReversed().flatMap((each) => flags[each]);
  const [by, enabled = false] = strongestFirst.find(([, flag]) => flag !== undefined) ?? ["none"];
  // A file that cannot be read may set the flag, unless a stronger layer does.
  const mayDecide = ([layer, flag]: (typeof strongestFirst)[number]): boolean =>
    flag !== undefined || (layer === "module-values" && own.isUnreadable === true);
  const isUnknown = own.isUnreadable === true && strongestFirst.find(mayDecide)?.[0] === "module-values";
  return isUnknown ? { enabled, by, isUnknown } : { enabled, by };
}
