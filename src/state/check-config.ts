import type { Problem } from "../model/index.ts";
import type { ParsedConfig } from "../values/index.ts";
import { GLOBAL, sectionIn } from "./sections.ts";
import type { ValuesStore } from "./values-store.ts";

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
  const keys = values
    .modules()
    .filter((module) => values.flag(module, candidate.config).enabled)
    .map((module) => module.valuesKey);
  return [GLOBAL, ...keys].flatMap((key) => checkSection(values, key, candidate));
}

function checkSection(values: ValuesStore, key: string, { name, config, overlay }: Candidate): Problem[] {
  const { config: merged } = values.mergeSections(key, sectionIn(config, key), sectionIn(overlay, key));
  return values
    .schemas(key)
    .validateConfig(merged)
    .map(({ path, message }) => ({
      file: `ConfigMap ${name}`,
      key: `${key}${path}`,
      message,
      remedy: "mend this key; the last good content stays in force until then",
    }));
}
