/** Reads and replaces sections of parsed content. */

import { GLOBAL } from "../../model/index.ts";
import type { Section } from "../../model/index.ts";
import type { ParsedConfig } from "../../values/index.ts";

/** The section of `global` or of a module's key in parsed content. */
export function sectionIn(config: ParsedConfig | undefined, key: string): Section | undefined {
  return key === GLOBAL ? config?.global : config?.sections.get(key);
}

/** Parsed content with one section replaced. */
export function withSection(config: ParsedConfig, key: string, section: Section | undefined): ParsedConfig {
  if (key === GLOBAL) return { ...config, global: section as ParsedConfig["global"] };
  const sections = new Map(config.sections);
  if (section === undefined) sections.delete(key);
  else sections.set(key, section);
  return { ...config, sections };
}
