/** The secrets of values in force: registered again for redaction everywhere, and hidden in texts of programs that get them. */

import type { KnownSecrets } from "../lib/index.ts";
import { GLOBAL } from "../model/index.ts";
import { listSecretPaths } from "./layers.ts";
import type { ValuesView } from "./values-store.ts";

/** Adds the secrets in the values in force, of `global` and all modules, to `secrets`. */
export function registerSecrets(values: ValuesView, secrets: KnownSecrets): void {
  for (const key of [GLOBAL, ...values.modules().map(({ valuesKey }) => valuesKey)]) {
    const { layers, mergedSection } = values.patchTarget(key);
    secrets.register(mergedSection.values, listSecretPaths(layers));
  }
}

/**
 * Returns a function that redacts the values that a section and `global` have from Secrets now. Use it for output of hooks, scripts
 * and helm, which get these values and may quote them: a value may be a plain word, which other redaction would not find.
 */
export function createSourceRedactor(
  { sources }: Pick<ValuesView, "sources">,
  key: string,
): (text: string) => string {
  const layers = [GLOBAL, key].flatMap((each) => sources.currentFor(each).layer ?? []);
  return (text) => layers.reduce((redacted, layer) => layer.secretWords().hide(redacted), text);
}
