/** The values that helm gets (docs/MODULES.md, "module.yaml"). */

import { GLOBAL, isJsonObject, objectOf } from "../model/index.ts";
import type { JsonObject, Module, Section } from "../model/index.ts";
import { merge } from "./merge.ts";

/** A module's section as its chart finds it: under the module's key beside `global`, or as root values. */
export function helmValues(
  { chart, valuesKey }: Pick<Module, "chart" | "valuesKey">,
  global: Section,
  section: Section,
): JsonObject {
  return chart === "root" ? rootValues(global, section) : { [GLOBAL]: global, [valuesKey]: section };
}

/** A section may have a `global` of its own, over the shared one; a chart that knows none is given none if it is empty. */
function rootValues(shared: Section, section: Section): JsonObject {
  const { global: own, ...values } = objectOf(section);
  const global = merge(shared, own) ?? {};
  const isEmpty = isJsonObject(global) && Object.keys(global).length === 0;
  return isEmpty ? values : { ...values, [GLOBAL]: global };
}
