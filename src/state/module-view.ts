/** Builds the read-only view of a module: fields of its record, and fields that are derived from record and values. */

import { provesBroken, type HealthCondition } from "../health/index.ts";
import { digest } from "../lib/index.ts";
import { GLOBAL, retriesOf, type OnFailure } from "../model/index.ts";
import type { ValuesView } from "../values/index.ts";
import { problemOf, type ModuleRecord, type RevisionHealth } from "./module-record.ts";
import type { ModuleView, RecordedField } from "./view.ts";

/**
 * Whether a user has changed the release with helm or deleted its record since the last run: then the release on the server
 * has a newer revision than the run left, is not deployed, or is missing.
 */
export function isReleaseChangedByHand({ run, release }: ModuleRecord): boolean {
  const { phase, leftRevision } = run;
  if (leftRevision === undefined || phase !== "ready") return false;
  if (release === undefined) return true;
  return release.revision > leftRevision || release.status !== "deployed";
}

/**
 * The version of the installed chart. The record of helm can have an older version: a chart that renders the same objects as
 * before creates no revision. The record counts before the first run, after a rollback, and after a change with helm.
 */
export function getReleaseVersion({
  release,
  leftVersion,
  isReleaseChangedByHand,
}: Pick<ModuleView, "release" | "leftVersion" | "isReleaseChangedByHand">): string | undefined {
  if (release === undefined) return undefined;
  return isReleaseChangedByHand ? release.chartVersion : (leftVersion ?? release.chartVersion);
}

/** The health of a release whose objects were not checked since it was applied. */
const NOT_CHECKED: HealthCondition = {
  status: "Unknown",
  reason: "Progressing",
  message: "Its objects were not checked yet",
};

/** The health of the current revision of the release. It is Unknown while only an earlier revision was checked. */
function getCurrentHealth({ release, health }: ModuleRecord): RevisionHealth | undefined {
  const isCurrent = health === undefined || health.revision === release?.revision;
  return isCurrent ? health : { ...health, ...NOT_CHECKED };
}

/** The condition that says why the release is not known to be healthy; undefined if it is healthy or there is no release. */
function findUnhealthyCondition(record: ModuleRecord): HealthCondition | undefined {
  if (record.release === undefined) return undefined;
  const health = getCurrentHealth(record) ?? NOT_CHECKED;
  return health.status === "True" ? undefined : health;
}

const HOW_TO_DISABLE_PROBE =
  "where it cannot work in this cluster, set health.readinessProbe: false in addon.yaml";

/** Why the readiness probe prevents Ready: it failed, or has not run yet. Undefined if it succeeded or the module has none. */
function findProbeProblem({ hooks, probe }: ModuleRecord): ModuleView["unready"] {
  const hook = hooks.find(({ item }) => item === "ready");
  if (hook === undefined) return undefined;
  if (probe === undefined)
    return { status: "Unknown", message: `Waits for the first readiness probe by ${hook.name}` };
  if (probe.failure === undefined) return undefined;
  const message = `The readiness probe by ${hook.name} fails: ${probe.failure}; ${HOW_TO_DISABLE_PROBE}`;
  return { status: "False", message };
}

/** When a module is Ready: once its release is applied, or once it is also healthy. */
type ReadyMeans = "applied" | "healthy";

/** What counts for modules that do not set it themselves: what Ready means, and what follows a failed upgrade. */
export interface ModuleDefaults {
  readonly ready: ReadyMeans;
  readonly onFailure: OnFailure;
}

/** Builds the read-only view of a module. Digests and values are computed on demand, because few readers need them. */
export function buildModuleView(
  record: ModuleRecord,
  values: ValuesView,
  defaults: ModuleDefaults,
): ModuleView {
  const { module, run } = record;
  const [global, own] = [values.mergedSection(GLOBAL), values.mergedSection(module.valuesKey)];
  const basis = values.digests.configBasis(module);
  const sources = [values.sources.currentFor(module.valuesKey), values.sources.currentFor(GLOBAL)];
  return {
    ...run,
    ...copyRecordedFields(record),
    name: module.name,
    health: getCurrentHealth(record),
    ...values.settings(module),
    problem: problemOf(record),
    flag: values.flag(module).enabled,
    awaitsCrds: module.crdFiles.length > 0 && module !== record.crdsAppliedFor,
    missingValues: sources.flatMap(({ missingSources }) => missingSources),
    staleValues: sources.flatMap(({ issues }) => issues),
    isReleaseChangedByHand: isReleaseChangedByHand(record),
    unready: findProbeProblem(record),
    ...deriveHealthFields(record, defaults),
    sectionDigest: basis.section,
    givenDigest: basis.given,
    configDigest: basis.config,
    get valuesDigest() {
      return own.digest;
    },
    get wholeDigest() {
      return digest(global.digest, own.digest);
    },
    values: () => ({ [GLOBAL]: global.values, [module.valuesKey]: own.values }),
    get secretPaths() {
      return new Set([...global.secretPaths, ...own.secretPaths]);
    },
  };
}

/** The fields that the view copies from the record unchanged; `health` may be of an earlier revision. */
function copyRecordedFields(record: ModuleRecord): Pick<ModuleRecord, Exclude<RecordedField, "health">> {
  return {
    module: record.module,
    isDiscovered: record.isDiscovered,
    enabled: record.enabled,
    enabledBy: record.enabledBy,
    enabledReason: record.enabledReason,
    awaitsScript: record.awaitsScript,
    release: record.release,
    missingObjects: record.missingObjects,
    deferredObjects: record.deferredObjects,
    drift: record.drift,
    crdWork: record.crdWork,
    releaseReadError: record.releaseReadError,
    issues: record.issues,
    files: record.files,
    requestedToken: record.requestedToken,
    isRemovalDecided: record.isRemovalDecided,
    endedConfirmations: record.endedConfirmations,
    update: record.update,
  };
}

/**
 * The fields that follow from the health of the release: why it prevents Ready (only if Ready requires health), and whether
 * the next run rolls back. It rolls back from a revision that proves to be broken, unless a run has tried that already.
 */
function deriveHealthFields(
  record: ModuleRecord,
  { ready, onFailure }: ModuleDefaults,
): Pick<ModuleView, "unhealthy" | "nextRunRollsBack"> {
  const unhealthy = ready === "healthy" ? findUnhealthyCondition(record) : undefined;
  if (unhealthy?.status !== "False") return { unhealthy, nextRunRollsBack: false };
  const { module, run } = record;
  // `findUnhealthyCondition` has found a release.
  const revision = record.release?.revision;
  const isRollbackEnabled = retriesOf(module, onFailure) !== undefined;
  const nextRunRollsBack = isRollbackEnabled && provesBroken(unhealthy) && run.foundUnhealthy !== revision;
  if (run.revisionWithoutRollbackTarget !== revision) return { unhealthy, nextRunRollsBack };
  const message = `${unhealthy.message}; there is no good revision to go back to`;
  return { unhealthy: { ...unhealthy, message }, nextRunRollsBack };
}
