/** What is recorded of one module, and how a decision of discovery changes it. */

import { NO_DRIFT, type Drift } from "../drift/index.ts";
import type { Health } from "../health/index.ts";
import { crdsInForce, type CrdRequest } from "../helm/index.ts";
import type { EnabledBy, Hook, Module, Problem } from "../model/index.ts";
import { helmInput, type ValuesView } from "../values/index.ts";
import { NEVER_RAN, startedOver, type RunRecord } from "./run-record.ts";
import type { ReleaseView } from "./view.ts";

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
  /** What a person has to decide: protected but off, a release that is somebody else's, values or CRDs that are refused. */
  decisionProblem: Problem | undefined;
  enabled: boolean;
  enabledBy: EnabledBy;
  enabledReason: string | undefined;
  run: RunRecord;
  release: ReleaseView | undefined;
  /** Objects of the release that are absent, as `namespace/Kind/name`, or `Kind/name`. */
  absent: readonly string[];
  /** Absent objects that disappear again and again: they become `absent` when their back-off ends. */
  deferred: readonly string[];
  /** How the objects of its release are; undefined while none are followed. */
  health: RevisionHealth | undefined;
  /** What the last run of its readiness probe came to; undefined until the first one since it became enabled. */
  probe: { readonly failure: string | undefined } | undefined;
  /** What others have changed of what helm set. */
  drift: Drift;
  /** Why the record of its release cannot be read; its objects are unknown then. */
  unread: string | undefined;
  /** Why some of its hooks' kubernetes bindings cannot work, in words. */
  troubles: readonly string[];
  requestedToken: string | undefined;
  /** A person wants the release to go back: to this revision, or to the last that was in force before. */
  wayBack: { readonly revision: number | undefined } | undefined;
  /** The change of its CRDs that a person has confirmed. */
  confirmedCrds: string | undefined;
  /** The existing objects that a person allows the release to take over, by their token. */
  confirmedTakeover: string | undefined;
  /**
   * Ids of bindings whose Synchronization succeeded in this first run; it is not repeated when the run is retried.
   */
  synchronized: Set<string>;
  /** Ids of the hooks whose watches and schedules are active. */
  active: Set<string>;
  /** A hook or helm ran for this module in this process, so a delete has to run its hooks. */
  ranHere: boolean;
  /** It is off, and discovery has decided on its removal, which is not done yet. */
  leaves: boolean;
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
    deferred: [],
    health: undefined,
    probe: undefined,
    drift: NO_DRIFT,
    unread: undefined,
    troubles: [],
    requestedToken: undefined,
    wayBack: undefined,
    confirmedCrds: undefined,
    confirmedTakeover: undefined,
    synchronized: new Set(),
    active: new Set(),
    ranHere: false,
    leaves: false,
    decided: false,
  };
}

/** Resets to the state before a first run: after a delete, and when the module becomes enabled again. */
export function startOver(record: ModuleRecord): void {
  record.run = startedOver(record.run);
  record.absent = [];
  record.probe = undefined;
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
  record.leaves = false;
  record.decided = true;
}

/** The CRDs of a module with these values. */
export function crdRequest(
  values: ValuesView,
  { module, confirmedCrds }: Readonly<Pick<ModuleRecord, "module" | "confirmedCrds">>,
): CrdRequest {
  return { files: crdsInForce(module, () => helmInput(values, module).values), confirmed: confirmedCrds };
}
