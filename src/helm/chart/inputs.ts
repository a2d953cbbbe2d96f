/** The digest of everything that a release is made from (docs/CONTRACT.md, "Labels and annotations"). */

import { canonicalJson, digest } from "../../lib/index.ts";
import { valueAt, type Json, type JsonObject, type Module } from "../../model/index.ts";
import { mentionsLookup, type Chart } from "./chart.ts";
import { mentionsShared } from "../manifest/shared-kinds.ts";

/** Everything a release is made from. */
export interface Inputs {
  readonly module: Pick<Module, "name" | "valuesKey">;
  readonly namespace: string;
  readonly chart: Chart;
  /** As helm gets them: `global` and the module's section. */
  readonly values: JsonObject;
  /** Path, size and time of the helm binary. */
  readonly helm: string;
  /** Server version and API set; read only where templates use them. */
  readonly capabilities: () => Promise<string>;
}

/** The inputs digest of a release. */
export async function inputsDigest(inputs: Inputs): Promise<string> {
  const { module, namespace, chart, values, helm } = inputs;
  const { global, ...rest } = values;
  return digest(
    chart.digest,
    canonicalJson(rest),
    canonicalJson(reachedGlobals(chart, global)),
    module.name,
    namespace,
    helm,
    chart.reach.capabilities ? await inputs.capabilities() : "",
  );
}

/** The part of `global` that the chart's templates can reach: by literal path, or all of it. */
function reachedGlobals(chart: Pick<Chart, "reach">, global: Json | undefined): Json {
  if (chart.reach.dynamic) return global ?? null;
  const reached: JsonObject = {};
  for (const path of [...chart.reach.globals].sort())
    reached[path] = valueAt(global, path.split(".")) ?? null;
  return reached;
}

/**
 * Objects may come from values; with `tpl`, values may also be templates that read `.Capabilities` or use `lookup`.
 */
export function withValueTemplates(read: Chart, valuesText: string): Chart {
  const chart = !read.mentionsShared && mentionsShared(valuesText) ? { ...read, mentionsShared: true } : read;
  if (!chart.reach.tpl || !valuesText.includes("{{")) return chart;
  const { reach } = chart;
  const capabilities = reach.capabilities || valuesText.includes("Capabilities");
  const lookup = reach.lookup || mentionsLookup(valuesText);
  return { ...chart, reach: { ...reach, capabilities, lookup } };
}
