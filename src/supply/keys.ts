/** The installer's keys: whoever may create ModuleSources does not choose what is trusted. */

import type { ConfigMap } from "../kube/index.ts";
import { collect, type Problem } from "../model/index.ts";
import { readPublicKeys, type PublicKey } from "../registry/index.ts";

/** All keys, and what is wrong with those that cannot be used. */
export interface Keys {
  readonly keys: readonly PublicKey[];
  readonly problems: readonly Problem[];
}

const MOST_KEYS = 20;

/** The keys in the `*.pub` entries of a ConfigMap. Without it there are none, so that no module is accepted. */
export function readKeys(object: Pick<ConfigMap, "data"> | undefined, name: string): Keys {
  const problems: Problem[] = [];
  const file = `ConfigMap ${name}`;
  if (object === undefined) {
    const remedy = "create it with the public keys of whoever signs modules";
    return { keys: [], problems: [{ file, message: "does not exist, so no module is accepted", remedy }] };
  }
  const texts = Object.entries(object.data ?? {}).filter(([key]) => key.endsWith(".pub"));
  const keys = texts
    .slice(0, MOST_KEYS)
    .flatMap(([key, text]) => collect(problems, () => readPublicKeys(text, key)) ?? []);
  if (texts.length > MOST_KEYS)
    problems.push({ file, message: `has more than ${MOST_KEYS} keys; the others do not count` });
  return { keys, problems };
}
