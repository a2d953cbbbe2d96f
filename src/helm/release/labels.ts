/** Labels on the Secrets of releases (docs/CONTRACT.md, "Labels and annotations"). */

import { digest, DIGEST_SCHEME } from "../../lib/index.ts";

/** This operator's labels on helm's release Secrets. */
export const LABELS = {
  managedBy: "addon-operator.io/managed-by",
  inputs: "addon-operator.io/inputs",
  manifest: "addon-operator.io/manifest",
  /** `true` on a revision that a failed upgrade goes back to. */
  good: "addon-operator.io/good",
  /** Digest of what people say of a release: its chart, and the values without what hooks change. */
  given: "addon-operator.io/given",
  /** How many upgrades in a row have failed with what is given. */
  tries: "addon-operator.io/tries",
  /** `failed` or `unhealthy` on a revision that is rolled back: its inputs are not tried again. */
  rejected: "addon-operator.io/rejected",
} as const;

/** Release labels that only the Go operator writes. */
export const GO_LABELS = ["moduleChecksum", "maintenance.deckhouse.io/no-resource-reconciliation"] as const;

/** Key of the release's own values where an older Go operator kept its checksum. */
export const GO_CONFIG_KEY = "_addonOperatorModuleChecksum";

/** Value of the managed-by label of the operator that reads `configMap` in `namespace`. */
export function managedByDigest(namespace: string, configMap: string): string {
  return digest(`${namespace}/${configMap}`);
}

/** True for a digest of the present scheme; others are ignored. */
export function isCurrentScheme(label: string | undefined): label is string {
  return label?.startsWith(`${DIGEST_SCHEME}-`) ?? false;
}
