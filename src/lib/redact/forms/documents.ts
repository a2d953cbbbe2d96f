/** Hides secrets in texts that are YAML or JSON. */

import type { Json } from "../../../model/index.ts";
import { parseYaml } from "../../yaml/yaml.ts";
import type { Hide } from "../stand-in.ts";

/** Hides the secrets in a value, in the caller's way. */
type HideIn = (value: Json, hide: Hide) => unknown;

/**
 * A text that is YAML or JSON, without the secrets that its values show. The text stays as it was written: its secrets are
 * looked for in it, and if one is not found as it is, the text is hidden as a whole.
 */
export function hideInDocument(text: string, hideIn: HideIn, hide: Hide): string {
  const document = mayBeDocument(text) ? read(text) : undefined;
  if (typeof document !== "object" || document === null || isProse(document)) return text;
  const secrets = new Set<string>();
  hideIn(document, (secret) => {
    secrets.add(secret);
    return secret;
  });
  if ([...secrets].some((secret) => secret.length < 4 || !text.includes(secret))) return hide(text);
  const longestFirst = [...secrets].toSorted((a, b) => b.length - a.length);
  return longestFirst.reduce((rest, secret) => rest.replaceAll(secret, () => hide(secret)), text);
}

/** `secrets "db" is forbidden: …` is no key with a value. */
function isProse(document: object): boolean {
  return Object.keys(document).every((key) => /\s\S+\s/.test(key));
}

function mayBeDocument(text: string): boolean {
  return /^[[{]|:\s|- /.test(text);
}

function read(text: string): Json | undefined {
  try {
    return parseYaml(text, "").value;
  } catch {
    return undefined;
  }
}
