/** What AddonOperator and AddonModules say, in the form in which a running operator tells it: pure. */

import { usual } from "../../lib/index.ts";
import type { IAddonModule, IAddonOperator, ModuleRow, Overview } from "../../status/index.ts";

type Conditions = readonly { readonly type: string; readonly status: string; readonly message?: string }[];
type ModuleStatus = NonNullable<IAddonModule["status"]>;

/** All modules at a glance; `now` in ms since the epoch. */
export function overviewFrom(
  operator: IAddonOperator | undefined,
  modules: readonly IAddonModule[],
  now: number,
): Overview {
  const { state = "Pending", converge = {}, conditions } = operator?.status ?? {};
  const { status, message } = conditionOf(conditions, "Ready");
  const rows = modules.map((module) => rowFrom(module, now));
  return {
    state,
    ready: status,
    message: operator === undefined ? "there is no AddonOperator" : message,
    converge,
    modules: rows.toSorted((a, b) => a.order - b.order || a.name.localeCompare(b.name)),
  };
}

function conditionOf(
  conditions: Conditions = [],
  type: string,
): { status: ModuleRow["ready"]; message: string } {
  const found = conditions.find((each) => each.type === type);
  const status = found?.status === "True" || found?.status === "False" ? found.status : "Unknown";
  return { status, message: found?.message ?? "" };
}

/** One module at a glance. */
export function rowFrom({ metadata, spec, status = {} }: IAddonModule, now: number): ModuleRow {
  const { conditions, drift = [], requires = [], state = "Pending" } = status;
  const ready = conditionOf(conditions, "Ready");
  const waitsFor = state === "Pending" ? requires.find(({ met }) => !met)?.name : undefined;
  return {
    ...namedBy(metadata, spec),
    state,
    ready: ready.status,
    healthy: conditionOf(conditions, "Healthy").status,
    message: ready.message,
    drifted: new Set(drift.map(({ object }) => object)).size,
    ...(waitsFor !== undefined && { waitsFor }),
    ...madeBy(status, now),
    ...usuallyTaking(status),
  };
}

function usuallyTaking({ runSeconds = [] }: ModuleStatus): Pick<ModuleRow, "usualSeconds"> {
  const usualSeconds = usual(runSeconds);
  return usualSeconds === undefined ? {} : { usualSeconds };
}

function namedBy(
  metadata: IAddonModule["metadata"],
  spec: IAddonModule["spec"] = {},
): Pick<ModuleRow, "name" | "order" | "enabled"> {
  const { order = 0, enabled = false } = spec;
  return { name: metadata?.name ?? "", order, enabled };
}

function madeBy(
  { lastRun, release }: ModuleStatus,
  now: number,
): Pick<ModuleRow, "lastRun" | "chartVersion"> {
  const chartVersion = release?.chartVersion;
  return {
    ...(lastRun !== undefined && { lastRun: runFrom(lastRun, now) }),
    ...(chartVersion !== undefined && { chartVersion }),
  };
}

function runFrom(run: NonNullable<ModuleStatus["lastRun"]>, now: number): NonNullable<ModuleRow["lastRun"]> {
  const { trigger = "", startedAt = "", durationSeconds, step = "", attempts = 1, result } = run;
  const seconds = durationSeconds ?? Math.max(0, now - Date.parse(startedAt)) / 1000;
  return { cause: trigger, startedAt, seconds, step, attempts, ...(result !== undefined && { result }) };
}

/** Why a module is as it is, a line for each thing that its AddonModule says. */
export function explanationFrom({ metadata, status = {} }: IAddonModule): string[] {
  const { state = "Pending", enabledReason, conditions = [], absent = [], nextRetryAt } = status;
  return [
    `${metadata?.name ?? ""}: ${state}: ${conditionOf(conditions, "Ready").message}`,
    ...conditions.filter(isTelling).map(({ type, status: is, message }) => `${type} is ${is}: ${message}`),
    ...(enabledReason === undefined ? [] : [`enabled: ${enabledReason}`]),
    ...listed(status),
    ...(absent.length === 0 ? [] : [`objects that are gone: ${absent.join(", ")}`]),
    ...(nextRetryAt === undefined ? [] : [`next try: ${nextRetryAt}`]),
  ];
}

/** What is required and not there, what ails, and what others have changed. */
function listed({ requires = [], health = [], drift = [] }: ModuleStatus): string[] {
  const unmet = requires.filter(({ met }) => !met);
  return [
    ...unmet.map(({ name, message = "is not there" }) => `it requires ${name}, which ${message}`),
    ...health.map(({ object, reason = "", message = "" }) => `${object}: ${reason}: ${message}`),
    ...drift.map(({ object, field, manager = "somebody" }) => `${object}: ${manager} changed ${field}`),
  ];
}

/** Ready is told before; what is as it should be is not told. */
function isTelling({ type, status }: { readonly type: string; readonly status: string }): boolean {
  if (type === "Ready" || type === "Reconciling" || type === "Stalled") return false;
  return ["Healthy", "Enabled"].includes(type) ? status !== "True" : status !== "False";
}
