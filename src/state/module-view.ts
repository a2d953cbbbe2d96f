import { digest } from "../lib/index.ts";
import { problemOf, releaseMoved } from "./module-record.ts";
import type { ModuleRecord } from "./module-record.ts";
import { GLOBAL } from "./sections.ts";
import type { ValuesStore } from "./values-store.ts";
import type { ModuleView } from "./view.ts";

/** Who explains why a module does not run. */
export type Hold = (module: string) => string | undefined;

/** What the rest of the program sees of a module; what is costly is worked out when it is asked for. */
export function moduleView(record: ModuleRecord, values: ValuesStore, hold: Hold): ModuleView {
  const { module } = record;
  const { config } = values;
  const sectionDigest = values.moduleConfigDigest(module);
  return {
    ...record,
    name: module.name,
    suspended: config?.maintenance.has(module.valuesKey) ?? false,
    protected: config?.protected.has(module.valuesKey) ?? false,
    problem: problemOf(record),
    releaseMoved: releaseMoved(record),
    sectionDigest,
    configDigest: digest(sectionDigest, values.globalConfigDigest()),
    get valuesDigest() {
      return values.merged(module.valuesKey).digest;
    },
    values: () => ({
      [GLOBAL]: values.merged(GLOBAL).values,
      [module.valuesKey]: values.merged(module.valuesKey).values,
    }),
    get secretPaths() {
      return values.secretPaths(module.valuesKey);
    },
    get hold() {
      return hold(module.name);
    },
  };
}
