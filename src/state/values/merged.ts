/** The merged values of one section, made at the first look. */

import { digestJson } from "../../lib/index.ts";
import type { KnownSecrets } from "../../lib/index.ts";
import { effective } from "../../values/index.ts";
import type { Effective, SectionInput } from "../../values/index.ts";

/** Merged values of one section, of the layers as they were when it was asked for; merged at the first look. */
export interface Merged extends Effective {
  readonly digest: string;
  /** JSON pointers into the merged values, from the section's key on, that its schemas mark as secret. */
  readonly secretPaths: readonly string[];
}

/** The merged values of these layers; `secrets` learns the secrets that they contain. */
export function mergedOf(key: string, input: SectionInput, secrets: KnownSecrets | undefined): Merged {
  const result = once(() => {
    const merged = effective(input);
    secrets?.learn(merged.values, input.schemas.secretPaths);
    return merged;
  });
  // Values that are merged only to be judged have no digest.
  const known = once(() => digestJson(result().helmValues));
  return {
    get config() {
      return result().config;
    },
    get values() {
      return result().values;
    },
    get helmValues() {
      return result().helmValues;
    },
    get digest() {
      return known();
    },
    get secretPaths() {
      return [...input.schemas.secretPaths].map((path) => `/${key}${path}`);
    },
  };
}

function once<T extends object | string>(make: () => T): () => T {
  let made: T | undefined;
  return () => (made ??= make());
}
