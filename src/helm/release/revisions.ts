/** Revisions of releases, read from the labels of their Secrets (docs/reference/status.md, "Labels and annotations"). */

import type { WatchedObject } from "../../kube/index.ts";
import { digest, DIGEST_SCHEME } from "../../base/index.ts";
import { objectOf } from "../../base/model/index.ts";

/** This operator's labels on helm's release Secrets. */
export const RELEASE_LABELS = {
  managedBy: "addon-operator.io/managed-by",
  inputs: "addon-operator.io/inputs",
  manifest: "addon-operator.io/manifest",
  /** `true` on a good revision, to which failed upgrades are rolled back. */
  good: "addon-operator.io/good",
  /** Digest of the chart and of the values without changes by hooks. */
  userInputs: "addon-operator.io/given",
  /** Digest of the inputs without the version of helm, so that another version does not cause a retry of rejected inputs. */
  content: "addon-operator.io/content",
  /** Artifact of a registry that the chart and the hooks of the module come from (`toArtifactLabel`). */
  artifact: "addon-operator.io/artifact",
  /** How many upgrades in a row have failed with equal `userInputs`. */
  tries: "addon-operator.io/tries",
  /** On a revision that a user has rolled back: the number of the revision that is installed instead. */
  rolledBackTo: "addon-operator.io/rolled-back-to",
  /** `failed`, `unhealthy` or `by-hand` on a revision that is rolled back: its inputs are not tried again. */
  rejected: "addon-operator.io/rejected",
} as const;

/** Release labels that only the Go operator writes. */
export const GO_LABELS = ["moduleChecksum", "maintenance.deckhouse.io/no-resource-reconciliation"] as const;

/** Key of the release's own values where an older Go operator kept its checksum. */
export const GO_CONFIG_KEY = "_addonOperatorModuleChecksum";

/** The value of the managed-by label, which identifies the operator that reads `configMap` in `namespace`. */
export function managedByDigest(namespace: string, configMap: string): string {
  return digest(`${namespace}/${configMap}`);
}

/** Whether a label has a digest of the current scheme. Digests of other schemes are ignored, because they cannot be compared. */
export function isCurrentScheme(label: string | undefined): label is string {
  return label?.startsWith(`${DIGEST_SCHEME}-`) ?? false;
}

/** One revision of a release, from the labels of its Secret alone. */
export interface ReleaseMeta {
  readonly name: string;
  readonly namespace: string;
  readonly revision: number;
  readonly status: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly secret: string;
  readonly uid: string;
  readonly resourceVersion: string;
  /** Those of `labels` that are only in memory: `DeferredLabels` is going to write them. */
  readonly deferredLabels?: Readonly<Record<string, string>>;
}

/** Parses the revision that the labels of a Secret describe; undefined if the Secret does not belong to a release. */
export function parseReleaseMeta(object: WatchedObject): ReleaseMeta | undefined {
  const { name: secret, namespace = "", uid = "", resourceVersion = "", labels: found } = object.metadata;
  const labels = objectOf(found) as Record<string, string>;
  const { name, version, status } = labels;
  if (name === undefined || version === undefined || !/^\d+$/.test(version)) return undefined;
  const revision = Number(version);
  // Anyone who may write Secrets in the namespace of a release chooses the label, and the status must contain an integer.
  if (!Number.isSafeInteger(revision)) return undefined;
  return { name, namespace, revision, status: status ?? "unknown", labels, secret, uid, resourceVersion };
}

const DIGEST_PREFIX = "sha256:";
const LABEL_PREFIX = "sha256.";

/** Converts a digest `sha256:HEX` to the value of a label: a label has at most 63 characters, so the 64 hex digits become base64url. */
export function toArtifactLabel(artifactDigest: string): string {
  const hash = Buffer.from(artifactDigest.slice(DIGEST_PREFIX.length), "hex");
  return LABEL_PREFIX + hash.toString("base64url");
}

/** Reads the digest `sha256:HEX` of an artifact from the label of a revision; undefined without a valid label. */
export function readArtifactDigest({ labels }: Pick<ReleaseMeta, "labels">): string | undefined {
  const label = labels[RELEASE_LABELS.artifact];
  if (label?.startsWith(LABEL_PREFIX) !== true) return undefined;
  return DIGEST_PREFIX + Buffer.from(label.slice(LABEL_PREFIX.length), "base64url").toString("hex");
}

/** Whether a release is pending, by its newest revision: helm is working on it, or was killed while it did. */
export function isPending(newest: Pick<ReleaseMeta, "status"> | undefined): boolean {
  const status = newest?.status ?? "";
  return status.startsWith("pending-") || status === "uninstalling";
}

/** Whether a release is installed: it has a newest revision, which helm has not uninstalled. */
export function isInstalled<T extends Pick<ReleaseMeta, "status">>(newest: T | undefined): newest is T {
  return newest !== undefined && newest.status !== "uninstalled";
}

/**
 * The revisions whose objects helm deletes if the chart no longer contains them: an upgrade compares the chart with the last deployed
 * revision (without one, with the newest), a rollback with the newest.
 */
export function findComparedRevisions(revisions: readonly ReleaseMeta[]): ReleaseMeta[] {
  const [newest] = revisions;
  if (!isInstalled(newest)) return [];
  const deployed = revisions.find(({ status }) => status === "deployed");
  return [...new Set([newest, deployed ?? newest])];
}

/** The name of helm's Secret for a revision. */
export function releaseSecretName(release: string, revision: number): string {
  return `sh.helm.release.v1.${release}.v${revision}`;
}
