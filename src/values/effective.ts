import type { Json, Section } from "../model/index.ts";
import { isJsonObject } from "../model/index.ts";
import { replay } from "./apply-patch.ts";
import { merge, mergeLayers, withNullsOf, withoutNulls } from "./merge.ts";
import type { PatchOperation } from "./patch.ts";
import type { Schemas } from "./schemas.ts";

/** The layers of one section (README "Values"); undefined ones say nothing. */
export interface SectionInput {
  readonly schemas: Schemas;
  /** From `modules/values.yaml`. */
  readonly common: Section | undefined;
  /** From the module's own `values.yaml`. */
  readonly own: Section | undefined;
  readonly config: Section | undefined;
  readonly overlay: Section | undefined;
  readonly patches: readonly PatchOperation[];
}

/** Values of one section for each of their readers. */
export interface Effective {
  /** Files, defaults and ConfigMap: what the config schema judges. */
  readonly config: Section;
  /** Everything merged, without nulls: for hooks and the values schema. */
  readonly values: Section;
  /** The same with the ConfigMap's nulls, so that the chart's own defaults go too. */
  readonly helmValues: Section;
}

/** Merges the layers; a `null` of the ConfigMap removes the key and keeps schema defaults from filling it. */
export function effective(input: SectionInput): Effective {
  const { schemas, common, own, patches } = input;
  const user = merge(input.config, input.overlay);
  const layered = mergeLayers([common, own, user]) ?? {};
  const config = schemas.configDefaults(layered);
  const filled = schemas.valuesDefaults(config);
  const patched = replay(asSection(withoutNulls(filled)), patches);
  const values =
    patches.length === 0 ? asSection(withoutNulls(filled)) : refill(schemas, patched ?? {}, filled);
  return {
    config: asSection(withoutNulls(config)),
    values,
    helmValues: asSection(withNullsOf(values, user)),
  };
}

/** Maps that patches made may lack what the schema gives by default. */
function refill(schemas: Schemas, patched: Section, source: Json): Section {
  return asSection(withoutNulls(schemas.valuesDefaults(withNullsOf(patched, source))));
}

function asSection(value: Json): Section {
  return Array.isArray(value) || isJsonObject(value) ? value : {};
}

/** Which layer set each leaf, by path: the answer to *where does this value come from?* */
export function explain(
  layers: readonly { readonly name: string; readonly value: Json | undefined }[],
): Map<string, string> {
  const origins = new Map<string, string>();
  for (const layer of layers)
    if (layer.value !== undefined) mark(origins, layer.value, { path: "", name: layer.name });
  return origins;
}

function mark(origins: Map<string, string>, value: Json, at: { path: string; name: string }): void {
  if (isJsonObject(value) && Object.keys(value).length > 0) {
    origins.delete(at.path);
    for (const [key, member] of Object.entries(value)) {
      if (member !== undefined) mark(origins, member, { path: `${at.path}/${key}`, name: at.name });
    }
    return;
  }
  for (const path of origins.keys()) if (path.startsWith(`${at.path}/`)) origins.delete(path);
  origins.set(at.path, at.name);
}
