/** Reads the objects of the operator into a short row per module, for commands and pages (docs/reference/commands.md, "All modules at a glance"). */

import { medianOf } from "../../base/index.ts";
import type { IAddonModule } from "../models/addon-module.ts";
import type { IAddonOperator } from "../models/addon-operator.ts";
import type { ConditionStatus, ConvergeStatus, ModuleState, OperatorStateName } from "../models/kinds.ts";
import { omitUndefined, toStatusLine } from "../models/kinds.ts";
import type { DisplayedOrigin } from "../explain/origin.ts";
import type { Projection } from "./projector.ts";

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

export interface OverviewRow {
  readonly name: string;
  readonly order: number;
  readonly enabled: boolean;
  readonly state: ModuleState;
  /** Reason of the condition Ready. */
  readonly reason: string;
  readonly message: string;
  readonly ready: ConditionStatus;
  readonly healthy: ConditionStatus;
  /** Usual duration of its runs, by the last ones. */
  readonly usualSeconds?: number;
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

/** The content of an AddonModule, as the operator projects it or as a cluster has it. */
export type ModuleObject = Pick<IAddonModule, "spec" | "status">;

/** The content of an AddonOperator and of its AddonModules, by name. */
interface StatusObjects {
  readonly operator: IAddonOperator["status"];
  readonly modules: ReadonlyMap<string, ModuleObject>;
}

/** The overview of a running operator; `now` in ms since the epoch. Only its memory knows of dropped ticks of schedules. */
export function buildOverview({ operatorStatus, modules, explanation }: Projection, now: number): Overview {
  const overview = toOverview({ operator: operatorStatus, modules }, now);
  const { view, droppedTicks } = explanation;
  const addDroppedTicks = (row: OverviewRow): OverviewRow => {
    const ticks = row.enabled ? (explanation.module(row.name)?.droppedTicks ?? []) : [];
    return ticks.length === 0
      ? row
      : { ...row, warnings: [...(row.warnings ?? []), ...ticks.map(toStatusLine)] };
  };
  return {
    ...overview,
    modules: overview.modules.map(addDroppedTicks),
    ...(droppedTicks.length > 0 && { warnings: droppedTicks }),
    ...(view.sourceProblems.length > 0 && { sources: view.sourceProblems }),
  };
}

type StateSummary = Pick<OverviewRow, "state" | "reason" | "message" | "ready" | "healthy" | "usualSeconds">;

/** The state of a module of a running operator, which `wait` polls; empty if there is no such module. */
export function summarizeState({ modules }: Projection, name: string): Partial<StateSummary> {
  const object = modules.get(name);
  if (object === undefined) return {};
  const { state, reason, message, ready, healthy, usualSeconds } = toModuleRow(name, object, 0);
  return omitUndefined({ state, reason, message, ready, healthy, usualSeconds });
}

/** Reads the overview from statuses; `now` in ms since the epoch. */
export function toOverview({ operator = {}, modules }: StatusObjects, now: number): Overview {
  const { state = "Pending", converge = {}, conditions } = operator;
  const { status: ready, reason, message } = findCondition(conditions, "Ready");
  const rows = [...modules].map(([name, object]) => toModuleRow(name, object, now));
  return { state, ready, reason, message, converge, modules: rows };
}

/** The row of a module, from its AddonModule; `now` in ms since the epoch. A field that an older CRD does not have is left out. */
export function toModuleRow(
  name: string,
  { spec = {}, status = {} }: ModuleObject,
  now: number,
): OverviewRow {
  const { conditions, drift = [], lastRun, state = "Pending" } = status;
  const ready = findCondition(conditions, "Ready");
  return omitUndefined({
    name,
    order: spec.order ?? 0,
    enabled: spec.enabled ?? false,
    state,
    reason: ready.reason,
    message: ready.message,
    ready: ready.status,
    healthy: findCondition(conditions, "Healthy").status,
    usualSeconds: medianOf(status.runSeconds ?? []),
    drifted: status.driftedObjects ?? new Set(drift.map(({ object }) => object)).size,
    warnings: status.warnings,
    waitsFor: status.waitsFor,
    lastRun: lastRun && toRunRow(lastRun, now),
    failingSince: status.failingSince,
    chartVersion: status.release?.chartVersion ?? status.chartVersion,
    source: status.source,
  });
}

/** A condition by its type. A missing condition is Unknown. */
export function findCondition(
  conditions: NonNullable<ModuleObject["status"]>["conditions"] = [],
  type: string,
): { status: ConditionStatus; reason: string; message: string } {
  const {
    status = "Unknown",
    reason = "",
    message = "",
  } = conditions.find((each) => each.type === type) ?? {};
  return { status, reason, message };
}

/** The last run of a module in its row; the duration of a run in progress counts until `now`. */
function toRunRow(run: NonNullable<NonNullable<ModuleObject["status"]>["lastRun"]>, now: number): RunRow {
  const { trigger = "", startedAt = "", durationSeconds, step = "", attempts = 1, result } = run;
  const seconds = durationSeconds ?? Math.max(0, now - Date.parse(startedAt)) / 1000;
  return omitUndefined({ cause: trigger, startedAt, seconds, step, attempts, result });
}
