/** What is recorded of one module, and the view that is made of it. */

import { NO_DRIFT } from "../drift/index.ts";
import type { Drift } from "../drift/index.ts";
import type { Health, HealthVerdict } from "../health/index.ts";
import { retriesOf } from "../helm/index.ts";
import { digest } from "../lib/index.ts";
import { GLOBAL } from "../model/index.ts";
import type { EnabledBy, Hook, Module, OnFailure, Problem } from "../model/index.ts";
import { NEVER_RAN, startedOver } from "./run-record.ts";
import type { RunBasis, RunRecord } from "./run-record.ts";
import type { ValuesView } from "../values/index.ts";
import type { ModuleView, ReleaseView } from "./view.ts";

/** A decision of modules discovery about one module. */
export interface Enablement {
  readonly enabled: boolean;
  readonly by: EnabledBy;
  readonly reason?: string | undefined;
  readonly problem?: Problem;
}

/** The health of that revision. */
export interface RevisionHealth extends Health {
  readonly revision: number | undefined;
}

/** What is recorded of one module; what can be derived is left out. */
export interface ModuleRecord {
  module: Module;
  hooks: readonly Hook[];
  /** The module as it was when its hooks and schemas were last loaded. */
  loaded: Module | undefined;
  /** How often its files were read again by themselves; undefined where they never were. */
  files: number | undefined;
  /** The module as it was when its CRDs were last applied. */
  withCrds: Module | undefined;
  /** What the work on objects of its CRDs has come to, in words; undefined while there is none. */
  crdWork: string | undefined;
  /** Set when hooks could not be configured or schemas not compiled. */
  loadProblem: Problem | undefined;
  /** Set by discovery: protected but disabled, a foreign release, values refused. */
  decisionProblem: Problem | undefined;
  enabled: boolean;
  enabledBy: EnabledBy;
  enabledReason: string | undefined;
  run: RunRecord;
  release: ReleaseView | undefined;
  /** Objects of the release that are absent, as `namespace/Kind/name`, or `Kind/name`. */
  absent: readonly string[];
  /** How the objects of its release are; undefined while none are followed. */
  health: RevisionHealth | undefined;
  /** What others have changed of what helm set. */
  drift: Drift;
  /** Why the record of its release cannot be read; its objects are unknown then. */
  unread: string | undefined;
  /** Why some of its hooks' kubernetes bindings cannot work, in words. */
  troubles: readonly string[];
  requestedToken: string | undefined;
  /** The change of its CRDs that a person has confirmed. */
  confirmedCrds: string | undefined;
  /**
   * Ids of bindings whose Synchronization succeeded in this first run; it is not repeated when the run is retried.
   */
  synchronized: Set<string>;
  /** Ids of the hooks whose watches and schedules are active. */
  active: Set<string>;
  /** A hook or helm ran for this module in this process, so a delete has to run its hooks. */
  ranHere: boolean;
  /** False until discovery has looked at it: `enabled` means nothing yet. */
  decided: boolean;
}

export function newModuleRecord(module: Module): ModuleRecord {
  return {
    module,
    hooks: [],
    loaded: undefined,
    files: undefined,
    withCrds: undefined,
    crdWork: undefined,
    loadProblem: undefined,
    decisionProblem: undefined,
    enabled: false,
    enabledBy: "none",
    enabledReason: undefined,
    run: NEVER_RAN,
    release: undefined,
    absent: [],
    health: undefined,
    drift: NO_DRIFT,
    unread: undefined,
    troubles: [],
    requestedToken: undefined,
    confirmedCrds: undefined,
    synchronized: new Set(),
    active: new Set(),
    ranHere: false,
    decided: false,
  };
}

/** What a run of the module takes into account if it looks now. */
export function runBasis({ module, files, requestedToken }: ModuleRecord, values: ValuesView): RunBasis {
  return {
    section: values.digests.section(module),
    given: values.digests.given(module),
    config: values.digests.config(module),
    values: values.merged(module.valuesKey).digest,
    token: requestedToken,
    files,
    version: module.chartVersion,
  };
}

/** Resets to the state before a first run: after a delete, and when the module becomes enabled again. */
export function startOver(record: ModuleRecord): void {
  record.run = startedOver(record.run);
  record.absent = [];
  record.synchronized = new Set();
}

/** Takes a decision of discovery over. */
export function applyDecision(record: ModuleRecord, decision: Enablement): void {
  if (decision.enabled && !record.enabled) startOver(record);
  // There is a decision: a failure of its script, or of a module that is disabled now, is over.
  if (!decision.enabled || record.run.retry?.reason === "ScriptFailed")
    record.run = { ...record.run, retry: undefined };
  if (!decision.enabled) record.run = { ...record.run, heldSince: undefined };
  record.enabled = decision.enabled;
  record.enabledBy = decision.by;
  record.enabledReason = decision.reason;
  record.decisionProblem = decision.problem;
  record.decided = true;
}

/** The problem of files, hooks or schemas that cannot be used. */
export function brokenFiles(record: Readonly<ModuleRecord>): boolean {
  return record.module.problem !== undefined || record.loadProblem !== undefined;
}

/** Whether the CRDs of its files as they were last read are still to be applied: no run of it begins before. */
function awaitsCrds({ module, withCrds }: Readonly<ModuleRecord>): boolean {
  return module.crdFiles.length > 0 && module !== withCrds;
}

/** The problem that a person has to solve: broken files, or a decision that cannot be carried out. */
export function problemOf(record: ModuleRecord): Problem | undefined {
  return record.module.problem ?? record.loadProblem ?? record.decisionProblem;
}

/**
 * The release on the server is newer than what the last run left, not deployed, or gone: somebody changed it by
 * hand, or deleted the record of what was in force.
 */
export function releaseMoved({ run, release }: ModuleRecord): boolean {
  const { phase, leftRevision: left } = run;
  if (left === undefined || phase !== "ready") return false;
  if (release === undefined) return true;
  return release.revision > left || release.status !== "deployed";
}

/** A release that was not looked at since it was applied. */
const UNSEEN: HealthVerdict = {
  status: "Unknown",
  reason: "Progressing",
  message: "Its objects were not looked at yet",
};

/** What is known of the health of its release; of another revision, nothing is. */
function knownHealth({ release, health }: ModuleRecord): RevisionHealth | undefined {
  return health === undefined || health.revision === release?.revision ? health : { ...health, ...UNSEEN };
}

/** Why a release is not known to be healthy; undefined where it is, and where there is none. */
function ailingOf(record: ModuleRecord): HealthVerdict | undefined {
  if (record.release === undefined) return undefined;
  const health = knownHealth(record) ?? UNSEEN;
  return health.status === "True" ? undefined : health;
}

/** What Ready of a module takes: that its release is applied, or that it is healthy, too. */
type ReadyMeans = "applied" | "healthy";

/** What holds for all modules, unless they say otherwise. */
export interface Terms {
  readonly ready: ReadyMeans;
  readonly onFailure: OnFailure;
}

/** What the rest of the program sees of a module; expensive parts are computed on demand, from what holds now. */
export function moduleView(record: ModuleRecord, values: ValuesView, terms: Terms): ModuleView {
  const { module, run, decided, enabled, enabledBy, enabledReason } = record;
  const { release, absent, drift, crdWork, unread, troubles, files, requestedToken } = record;
  const [global, own] = [values.merged(GLOBAL), values.merged(module.valuesKey)];
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
    health: knownHealth(record),
    drift,
    crdWork,
    unread,
    troubles,
    files,
    requestedToken,
    ...values.settings(module),
    problem: problemOf(record),
    flag: values.flag(module).enabled,
    awaitsCrds: awaitsCrds(record),
    releaseMoved: releaseMoved(record),
    ...ailments(record, terms),
    sectionDigest: values.digests.section(module),
    givenDigest: values.digests.given(module),
    configDigest: values.digests.config(module),
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

function ailments(
  record: ModuleRecord,
  { ready, onFailure }: Terms,
): Pick<ModuleView, "ailing" | "goesBack"> {
  const ailing = ready === "healthy" ? ailingOf(record) : undefined;
  const { module, run, release } = record;
  const rollsBack = retriesOf(module, onFailure) !== undefined;
  if (ailing?.status !== "False") return { ailing, goesBack: false };
  const goesBack = rollsBack && run.foundUnhealthy !== release?.revision;
  const isStuck = run.withoutWayBack !== undefined && run.withoutWayBack === release?.revision;
  const message = `${ailing.message}; there is no good revision to go back to`;
  return { ailing: isStuck ? { ...ailing, message } : ailing, goesBack };
}
