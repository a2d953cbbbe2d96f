/** What is kept in memory of a release record. */

import { GO_CONFIG_KEY } from "./labels.ts";
import { adoptionChecksum, documentsOf, lastingObjects, manifestChecksum } from "../manifest/manifest.ts";
import type { ObjectRef } from "../manifest/manifest.ts";
import type { ReleaseRecord } from "./record.ts";

/** What is kept of a decoded release record. */
export interface ReleaseSummary {
  readonly objects: readonly ObjectRef[];
  readonly checksum: string;
  /** For comparing with a release that the Go operator made. */
  readonly adoptionChecksum: string;
  readonly chartVersion: string | undefined;
  readonly lastDeployed: number | undefined;
  readonly applyMethod: "csa" | "ssa";
  /** An older Go operator left its checksum among the release's values. */
  readonly goMark: boolean;
}

/** Takes from a record what later decisions need. */
export function summarize(record: ReleaseRecord): ReleaseSummary {
  const documents = documentsOf(record.manifest);
  const all = [...documents, ...record.hooks.flatMap((hook) => documentsOf(hook.manifest))];
  return {
    objects: lastingObjects(documents),
    checksum: manifestChecksum(all),
    adoptionChecksum: adoptionChecksum(all),
    chartVersion: record.chartVersion,
    lastDeployed: record.lastDeployed,
    applyMethod: record.applyMethod,
    goMark: record.config[GO_CONFIG_KEY] !== undefined,
  };
}
