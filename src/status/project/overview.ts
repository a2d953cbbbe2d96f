/** All modules at a glance: one short row for each, for tables and pages (docs/DEBUG.md, "All modules at a glance"). */

import { usual } from "../../lib/index.ts";
import { describeCause } from "../../model/index.ts";
import { explainHold, failingOf, heldBy, reloadHold, type Moment } from "../../plan/index.ts";
import type { LastRun, ModuleView } from "../../state/index.ts";
import type { ConditionStatus, ConvergeStatus, ModuleState, OperatorState } from "../models/kinds.ts";
import { defined, line, timestamp } from "../models/kinds.ts";
import { projectOperator } from "./operator-status.ts";
import { judge, readyOf, warningsOf } from "./verdict.ts";

/** The last run of a module, or the one under way, which has no result yet. */
interface RunRow {
  readonly cause: string;
  readonly startedAt: string;
  /** So far, while it is under way. */
  readonly seconds: number;
  readonly step: string;
  readonly attempts: number;
  readonly result?: "Succeeded" | "Failed";
}

/** What `wait` waits for: Ready and Healthy of a module, and why. */
export interface Standing {
  /** How long its runs usually take, by the last ones. */
  readonly usualSeconds?: number;
  readonly state: ModuleState;
  readonly message: string;
  readonly ready: ConditionStatus;
  readonly healthy: ConditionStatus;
}

/** One module. */
export interface ModuleRow extends Standing {
  readonly name: string;
  readonly order: number;
  readonly enabled: boolean;
  /** How many objects of its release others have changed. */
  readonly drifted: number;
  /** What keeps hooks of it from running, in words. */
  readonly warnings?: readonly string[];
  /** What it requires and waits for: a module, an object, Kubernetes. */
  readonly waitsFor?: string;
  readonly lastRun?: RunRow;
  readonly chartVersion?: string;
}

/** The operator, and all modules in the order of their numbers. */
export interface Overview {
  readonly state: OperatorState;
  readonly ready: ConditionStatus;
  readonly message: string;
  readonly converge: ConvergeStatus;
  readonly modules: readonly ModuleRow[];
}

/** All modules at one moment; `now` in ms since the epoch. What is secret is still in the texts. */
export function overviewOf(at: Moment, now: number): Overview {
  const facts = { now, before: new Map(), hold: reloadHold(at), failing: failingOf(undefined, at) };
  const { state, converge, conditions } = projectOperator(at.view, facts).status;
  const ready = conditions.find(({ type }) => type === "Ready");
  return {
    state: state ?? "Pending",
    ready: ready?.status ?? "Unknown",
    message: ready?.message ?? "",
    converge: converge ?? {},
    modules: [...at.view.modules.values()].map((module) => rowOf(module, at, now)),
  };
}

/** Where a module stands. */
export function standingOf(module: ModuleView, at: Moment, now: number): Standing {
  const hold = explainHold(module, at);
  const verdict = judge(module, {
    now,
    wait: heldBy(module, at.view),
    hold,
    failing: failingOf(module.name, at),
  });
  const healthy = module.health?.status ?? "Unknown";
  return defined({
    state: verdict.state,
    message: line(verdict.message),
    ready: readyOf(verdict),
    healthy,
    usualSeconds: usual(module.runSeconds),
  });
}

function rowOf(module: ModuleView, at: Moment, now: number): ModuleRow {
  const { name, enabled, drift, lastRun, release } = module;
  const warnings = enabled ? warningsOf(module).map((text) => line(text)) : [];
  return defined({
    name,
    order: module.module.order,
    enabled,
    ...standingOf(module, at, now),
    drifted: drift.count,
    warnings: warnings.length === 0 ? undefined : warnings,
    waitsFor: heldBy(module, at.view)?.on,
    lastRun: lastRun && runOf(lastRun, now),
    chartVersion: release?.chartVersion ?? module.module.chartVersion,
  });
}

function runOf({ trigger, startedAt, finishedAt, step, attempts, result }: LastRun, now: number): RunRow {
  const seconds = Math.max(0, (finishedAt ?? now) - startedAt) / 1000;
  const cause = line(describeCause(trigger));
  return defined({ cause, startedAt: timestamp(startedAt), seconds, step, attempts, result });
}
