import { GO_CONFIG_KEY } from "./labels.ts";
import { adoptionChecksum, lastingObjects, manifestChecksum } from "./manifest.ts";
import type { ObjectRef } from "./manifest.ts";
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

/** Draws from a record what later decisions need. */
export function summarize(record: ReleaseRecord): ReleaseSummary {
  const parts = [record.manifest, ...record.hooks.map((hook) => hook.manifest)];
  return {
    objects: lastingObjects(record.manifest),
    checksum: manifestChecksum(...parts),
    adoptionChecksum: adoptionChecksum(...parts),
    chartVersion: record.chartVersion,
    lastDeployed: record.lastDeployed,
    applyMethod: record.applyMethod,
    goMark: record.config[GO_CONFIG_KEY] !== undefined,
  };
}
