/** The installer's keys and identities: a user who may create ModuleSources does not choose what is trusted. */

import type { ConfigMap } from "../kube/index.ts";
import { collect, type Problem } from "../base/model/index.ts";
import { readIdentity, readPublicKeys, readTrustedRoot, type Signer } from "./registry/index.ts";
import type { SourceSpec } from "./types.ts";

/** All signers, and what is wrong with those that cannot be used. */
export interface InstallerKeys {
  readonly keys: readonly Signer[];
  readonly problems: readonly Problem[];
}

const MAX_KEYS = 20;
const TRUSTED_ROOT = "trusted_root.json";

/**
 * The keys in the `*.pub` entries of a ConfigMap, and the identities in its `*.identity` entries, for whose certificates
 * its `trusted_root.json` counts. Without the ConfigMap there are none, so that no module is accepted.
 */
export function parseInstallerKeys(object: Pick<ConfigMap, "data"> | undefined, name: string): InstallerKeys {
  const problems: Problem[] = [];
  const file = `ConfigMap ${name}`;
  if (object === undefined) {
    const remedy = "create it with the public keys of those who sign modules";
    return { keys: [], problems: [{ file, message: "does not exist", remedy }] };
  }
  // `collect` adds the problems of an invalid entry to the list, and returns undefined.
  const { [TRUSTED_ROOT]: rootText, ...entries } = object.data ?? {};
  const root =
    rootText === undefined ? undefined : collect(problems, () => readTrustedRoot(rootText, TRUSTED_ROOT));
  const texts = Object.entries(entries).filter(([key]) => /\.(?:pub|identity)$/.test(key));
  const keys = texts
    .slice(0, MAX_KEYS)
    .flatMap(
      ([key, text]) =>
        collect<Signer[]>(problems, () =>
          key.endsWith(".pub") ? readPublicKeys(text, key) : [readIdentity(text, key, root)],
        ) ?? [],
    );
  if (texts.length > MAX_KEYS)
    problems.push({
      file,
      message: `has more than ${MAX_KEYS} keys and identities; the others do not count`,
    });
  return { keys, problems };
}

/** The keys of the installer that may sign content of a source: all, unless its spec names some. */
export function filterKeys(all: readonly Signer[], spec: SourceSpec | undefined): readonly Signer[] {
  return spec?.keys === undefined ? all : all.filter(({ source }) => spec.keys?.includes(source));
}
