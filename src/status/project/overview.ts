/** A short row per module, for tables and pages (docs/reference/commands.md, "All modules at a glance"). */

import { formatUtc, medianOf } from "../../lib/index.ts";
import { describeCause } from "../../model/index.ts";
import { describeRunBlocker } from "../../plan/index.ts";
import { collectWarnings, getReleaseVersion, type LastRun, type ModuleView } from "../../state/index.ts";
import type { ConditionStatus, ConvergeStatus, ModuleState, OperatorStateName } from "../models/kinds.ts";
import { omitUndefined, toConditionMessage, toStatusLine } from "../models/kinds.ts";
import { projectOperator } from "./operator-status.ts";
import { collectOperatorBlockers } from "../explain/operator-state.ts";
import { evaluateModule, getReadyStatus } from "../explain/module-state.ts";
import { describeDroppedTicks } from "../explain/failing-hooks.ts";
import { toDisplayedOrigin, type DisplayedOrigin } from "../explain/origin.ts";
import { collectWaits, type StateSnapshot } from "../explain/blockers.ts";

/** The last run of a module, or the one under way, which has no result yet. */
interface RunRow {
  readonly cause: string;
  readonly startedAt: string;
  /** Duration; so far, while it is in progress. */
  readonly seconds: number;
  readonly step: string;
  readonly attempts: number;
  readonly result?: "Succeeded" | "Failed";
}

/** Ready and Healthy of a module with the reason; `wait` polls it. */
export interface StateSummary {
  /** Usual duration of its runs, by the last ones. */
  readonly usualSeconds?: number;
  readonly state: ModuleState;
  /** Reason of the condition Ready. */
  readonly reason: string;
  readonly message: string;
  readonly ready: ConditionStatus;
  readonly healthy: ConditionStatus;
}

export interface OverviewRow extends StateSummary {
  readonly name: string;
  readonly order: number;
  readonly enabled: boolean;
  /** How many objects of its release others have changed. */
  readonly drifted: number;
  /** Why some of its hooks cannot run. */
  readonly warnings?: readonly string[];
  /** What it requires and waits for: a module, an object, Kubernetes. */
  readonly waitsFor?: string;
  readonly lastRun?: RunRow;
  /** Of a module that fails: when the first of its failures in a row was. */
  readonly failingSince?: string;
  readonly chartVersion?: string;
  /** The ModuleSource that it comes from, and newer content that waits. */
  readonly source?: DisplayedOrigin;
}

/** The operator, and all modules in the order of their numbers. */
export interface Overview {
  readonly state: OperatorStateName;
  readonly ready: ConditionStatus;
  /** Reason of the condition Ready. */
  readonly reason: string;
  readonly message: string;
  readonly converge: ConvergeStatus;
  /** Ticks of schedules of global hooks that were dropped. Only the memory of the operator has them. */
  readonly warnings?: readonly string[];
  readonly modules: readonly OverviewRow[];
  /** What is wrong with ModuleSources, one line for each. */
  readonly sources?: readonly string[];
}

/** Builds the overview of the operator and all modules at one moment; `now` in ms since the epoch. Texts are not redacted. */
export function buildOverview(snapshot: StateSnapshot, now: number): Overview {
  const facts = { now, ...collectOperatorBlockers(snapshot) };
  const { state, converge, conditions } = projectOperator(snapshot.view, facts);
  const ready = conditions.find(({ type }) => type === "Ready");
  const warnings = describeDroppedTicks(undefined, snapshot);
  return {
    state: state ?? "Pending",
    ready: ready?.status ?? "Unknown",
    reason: ready?.reason ?? "",
    message: ready?.message ?? "",
    converge: converge ?? {},
    ...(warnings.length > 0 && { warnings }),
    modules: [...snapshot.view.modules.values()].map((module) => buildModuleRow(module, snapshot, now)),
    ...(snapshot.view.sourceProblems.length > 0 && { sources: snapshot.view.sourceProblems }),
  };
}

/** Evaluates one module for tables and for `wait`: its state, Ready and Healthy with the reason. */
export function summarizeState(module: ModuleView, snapshot: StateSnapshot, now: number): StateSummary {
  const evaluation = evaluateModule(module, { now, ...collectWaits(module, snapshot) });
  const healthy = module.health?.status ?? "Unknown";
  return omitUndefined({
    state: evaluation.state,
    reason: evaluation.reason,
    message: toConditionMessage(evaluation.message),
    ready: getReadyStatus(evaluation),
    healthy,
    usualSeconds: medianOf(module.runSeconds),
  });
}

/** The row of a module in the overview. */
function buildModuleRow(module: ModuleView, snapshot: StateSnapshot, now: number): OverviewRow {
  const { name, enabled, drift, lastRun, retry } = module;
  const warningTexts = enabled ? [...collectWarnings(module), ...describeDroppedTicks(name, snapshot)] : [];
  const warnings = warningTexts.map((text) => toStatusLine(text));
  return omitUndefined({
    name,
    order: module.module.order,
    enabled,
    ...summarizeState(module, snapshot, now),
    drifted: drift.count,
    warnings: warnings.length === 0 ? undefined : warnings,
    waitsFor: describeRunBlocker(module, snapshot.view)?.awaitedName,
    lastRun: lastRun && buildRunRow(lastRun, now),
    failingSince: retry && formatUtc(retry.since),
    chartVersion: getReleaseVersion(module) ?? module.module.chartVersion,
    source: toDisplayedOrigin(module),
  });
}

/** The last run of a module in its row; the duration of a run in progress counts until `now`. */
function buildRunRow(run: LastRun, now: number): RunRow {
  const { trigger, startedAt, finishedAt, step, attempts, result } = run;
  const seconds = Math.max(0, (finishedAt ?? now) - startedAt) / 1000;
  const cause = toStatusLine(describeCause(trigger));
  return omitUndefined({ cause, startedAt: formatUtc(startedAt), seconds, step, attempts, result });
}
