/** What everyone sees of a module: its record, and what follows from it. */

import { provesBroken, type HealthCondition } from "../health/index.ts";
import { digest } from "../lib/index.ts";
import { GLOBAL, retriesOf, type OnFailure } from "../model/index.ts";
import type { ValuesView } from "../values/index.ts";
import { problemOf, type ModuleRecord, type RevisionHealth } from "./module-record.ts";
import type { ModuleView } from "./view.ts";

/**
 * Whether the release on the server is newer than the last run left it, not deployed, or missing: a user changed it by
 * hand, or deleted its record.
 */
export function releaseMoved({ run, release }: ModuleRecord): boolean {
  const { phase, leftRevision: left } = run;
  if (left === undefined || phase !== "ready") return false;
  if (release === undefined) return true;
  return release.revision > left || release.status !== "deployed";
}

/** The health of a release whose objects were not checked since it was applied. */
const UNSEEN: HealthCondition = {
  status: "Unknown",
  reason: "Progressing",
  message: "Its objects were not checked yet",
};

/** The health of the current revision; unknown if only an earlier revision was checked. */
function knownHealth({ release, health }: ModuleRecord): RevisionHealth | undefined {
  return health === undefined || health.revision === release?.revision ? health : { ...health, ...UNSEEN };
}

/** Why a release is not known to be healthy; undefined if it is healthy, and if there is no release. */
function unhealthyConditionOf(record: ModuleRecord): HealthCondition | undefined {
  if (record.release === undefined) return undefined;
  const health = knownHealth(record) ?? UNSEEN;
  return health.status === "True" ? undefined : health;
}

const HOW_TO_DISABLE_PROBE =
  "where it cannot work in this cluster, set health.readinessProbe: false in addon.yaml";

/** Why the readiness probe keeps the module from Ready; undefined if it succeeded, and without a probe. */
function unreadyProbe({ hooks, probe }: ModuleRecord): ModuleView["unready"] {
  const hook = hooks.find(({ item }) => item === "ready");
  if (hook === undefined) return undefined;
  if (probe === undefined)
    return { status: "Unknown", message: `Waits for the first readiness probe by ${hook.name}` };
  const { failure } = probe;
  return failure === undefined
    ? undefined
    : {
        status: "False",
        message: `The readiness probe by ${hook.name} fails: ${failure}; ${HOW_TO_DISABLE_PROBE}`,
      };
}

/** When a module is Ready: once its release is applied, or once it is also healthy. */
type ReadyMeans = "applied" | "healthy";

/** Defaults of all modules. */
export interface Terms {
  readonly ready: ReadyMeans;
  readonly onFailure: OnFailure;
}

/** The read-only view of a module. Expensive parts are computed on demand. */
export function moduleView(record: ModuleRecord, values: ValuesView, terms: Terms): ModuleView {
  const { module, run, decided, enabled, enabledBy, enabledReason } = record;
  const { release, absent, deferred, drift, crdWork, unread, issues, files, requestedToken, leaves } = record;
  const [global, own] = [values.merged(GLOBAL), values.merged(module.valuesKey)];
  const basis = values.digests.basisOf(module);
  const sources = [values.sources.of(module.valuesKey), values.sources.of(GLOBAL)];
  return {
    ...run,
    name: module.name,
    module,
    decided,
    enabled,
    enabledBy,
    enabledReason,
    release,
    absent,
    deferred,
    health: knownHealth(record),
    drift,
    crdWork,
    unread,
    issues,
    files,
    requestedToken,
    leaves,
    ...values.settings(module),
    problem: problemOf(record),
    flag: values.flag(module).enabled,
    awaitsCrds: module.crdFiles.length > 0 && module !== record.withCrds,
    missingValues: sources.flatMap(({ missing }) => missing),
    staleValues: sources.flatMap(({ issues }) => issues),
    releaseMoved: releaseMoved(record),
    ...recordedFields(record),
    ...healthFields(record, terms),
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

/** Fields that are recorded or follow from the readiness probe alone. */
function recordedFields(
  record: ModuleRecord,
): Pick<ModuleView, "awaitsScript" | "endedConfirmations" | "unready" | "update"> {
  const { awaitsScript, endedConfirmations, update } = record;
  return { awaitsScript, endedConfirmations, update, unready: unreadyProbe(record) };
}

/** Whether health keeps the module from Ready, and whether the next run rolls back because of it. */
function healthFields(
  record: ModuleRecord,
  { ready, onFailure }: Terms,
): Pick<ModuleView, "unhealthy" | "goesBack"> {
  const unhealthy = ready === "healthy" ? unhealthyConditionOf(record) : undefined;
  const { module, run, release } = record;
  const rollsBack = retriesOf(module, onFailure) !== undefined;
  if (unhealthy?.status !== "False") return { unhealthy, goesBack: false };
  const goesBack = rollsBack && provesBroken(unhealthy) && run.foundUnhealthy !== release?.revision;
  const isStuck = run.withoutWayBack !== undefined && run.withoutWayBack === release?.revision;
  const message = `${unhealthy.message}; there is no good revision to go back to`;
  return { unhealthy: isStuck ? { ...unhealthy, message } : unhealthy, goesBack };
}
