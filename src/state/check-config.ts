import type { Problem } from "../model/index.ts";
import type { ParsedConfig, Violation } from "../values/index.ts";
import { GLOBAL, sectionIn } from "./sections.ts";
import type { Sections, ValuesStore } from "./values-store.ts";

/** ConfigMap content that is to be judged before it comes into force. */
export interface Candidate {
  /** Name of the ConfigMap, for messages. */
  readonly name: string;
  readonly config: ParsedConfig;
  readonly overlay: ParsedConfig | undefined;
}

/**
 * Problems of new ConfigMap content: what does not parse, and sections of `global` and of modules switched on that
 * break their config schema (README "Validation"). Sections of modules that are off are not judged.
 */
export function checkConfig(values: ValuesStore, candidate: Candidate): Problem[] {
  const problems = [...candidate.config.problems, ...(candidate.overlay?.problems ?? [])];
  if (problems.length > 0) return problems;
  const remedy = "mend this key; the last good content stays in force until then";
  const keys = keysOf(values, candidate, true);
  return [GLOBAL, ...keys].flatMap((key) => checkSection(values, key, { ...candidate, remedy }));
}

/** Sections of modules that are off and would be refused if they were on: only to warn of. */
export function checkIdle(values: ValuesStore, candidate: Candidate): Problem[] {
  const remedy = "the module is off; mend this key before it is switched on";
  const written = keysOf(values, candidate, false).filter(
    (key) =>
      sectionIn(candidate.config, key) !== undefined || sectionIn(candidate.overlay, key) !== undefined,
  );
  return written.flatMap((key) => checkSection(values, key, { ...candidate, remedy }));
}

function keysOf(values: ValuesStore, { config }: Candidate, enabled: boolean): string[] {
  const modules = values.modules().filter((module) => values.flag(module, config).enabled === enabled);
  return modules.map((module) => module.valuesKey);
}

function checkSection(
  values: ValuesStore,
  key: string,
  { name, config, overlay, remedy }: Candidate & { readonly remedy: string },
): Problem[] {
  const { config: merged } = values.mergeSections(key, {
    config: sectionIn(config, key),
    overlay: sectionIn(overlay, key),
  });
  return values
    .schemas(key)
    .validateConfig(merged)
    .map(({ path, message }) => ({
      file: `ConfigMap ${name}`,
      key: `${key}${path}`,
      message,
      remedy,
    }));
}

/** Throws when a hook's config patch leaves sections that break the config schema. */
export function checkPatched(values: ValuesStore, key: string, sections: Sections): void {
  const { config } = values.mergeSections(key, sections);
  refusePatch("config values patch", key, values.schemas(key).validateConfig(config));
}

/** Throws with every violation that a hook's patch brings about, if there is any. */
export function refusePatch(what: string, key: string, violations: readonly Violation[]): void {
  if (violations.length === 0) return;
  const all = violations.map(({ path, message }) => `${path}: ${message}`).join("; ");
  throw new Error(`${what} makes ${key} invalid: ${all}`);
}
