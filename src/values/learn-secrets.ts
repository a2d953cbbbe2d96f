/** Learns the secrets of all values in force again. */

import type { KnownSecrets } from "../lib/index.ts";
import { GLOBAL } from "../model/index.ts";
import { secretPathsIn } from "./layers.ts";
import type { ValuesView } from "./values-store.ts";

/** Adds the secrets in the merged values of `global` and of all modules to `secrets`. */
export function learnSecrets(values: ValuesView, secrets: KnownSecrets): void {
  for (const key of [GLOBAL, ...values.modules().map(({ valuesKey }) => valuesKey)]) {
    const { layers, merged } = values.patchTarget(key);
    secrets.learn(merged.values, secretPathsIn(layers));
  }
}
