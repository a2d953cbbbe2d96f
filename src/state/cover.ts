/** Notes which configuration a module's run has handled. */

import { digest } from "../lib/index.ts";
import type { ModuleRecord } from "./module-record.ts";
import type { ValuesStore } from "./values/values-store.ts";

/** Digests of the ConfigMap in force: of what concerns all modules, and of each module's own part, by module name. */
export interface ConfigDigests {
  readonly global: string;
  readonly sections: ReadonlyMap<string, string>;
}

export function configDigests(records: Iterable<ModuleRecord>, values: ValuesStore): ConfigDigests {
  const sections = [...records].map(
    ({ module }) => [module.name, values.moduleConfigDigest(module)] as const,
  );
  return { global: values.globalConfigDigest(), sections: new Map(sections) };
}

/** Everything that the ConfigMap says about the module now, and what was requested, counts as handled. */
export function cover(record: ModuleRecord, values: ValuesStore): void {
  record.handledSectionDigest = values.moduleConfigDigest(record.module);
  record.handledConfigDigest = values.configDigest(record.module);
  record.handledToken = record.requestedToken ?? record.handledToken;
}

/** What was handled before the operator's own write to the ConfigMap still counts as handled after it. */
export function coverOwnWrite(record: ModuleRecord, before: ConfigDigests, values: ValuesStore): void {
  const old = before.sections.get(record.module.name);
  if (old === undefined) return;
  const section = values.moduleConfigDigest(record.module);
  if (record.attemptedSectionDigest === old) record.attemptedSectionDigest = section;
  if (record.handledSectionDigest === old) record.handledSectionDigest = section;
  if (record.handledConfigDigest === digest(old, before.global)) {
    record.handledConfigDigest = values.configDigest(record.module);
  }
}
