/**
 * Converts AddonOperator and AddonModules, which `kubectl addon` reads from the cluster, to the data that a running operator returns.
 * The Lease of the leader election shows whether the operator runs, so that its last status is still true.
 */

import type { LeaseSpec } from "../../kube/index.ts";
import { medianOf } from "../../lib/index.ts";
import { describeSourceProblem, omitUndefined } from "../../status/index.ts";
import type {
  IAddonModule,
  IAddonOperator,
  IModuleSource,
  OverviewRow,
  Overview,
} from "../../status/index.ts";
import { describeHealth, describeOrigin, describeReasons, type Reasons } from "../../status/index.ts";

type ModuleStatus = NonNullable<IAddonModule["status"]>;

/** The resources of one operator. */
export interface Resources {
  readonly operator: IAddonOperator | undefined;
  /** Undefined without the right to read it. */
  readonly lease?: LeaseSpec | undefined;
  /** Their statuses lack the values. */
  readonly modules: readonly IAddonModule[];
  /** Undefined without the right to read them. */
  readonly sources?: readonly IModuleSource[] | undefined;
}

/** The clocks of the operator and of this machine may differ by this much. */
const CLOCK_SKEW_MS = 30_000;

/** Says that the operator does not renew its Lease, as the begin of a message that goes on with its last status; undefined while it does. */
function describeStoppedOperator(lease: LeaseSpec, now: number): string | undefined {
  const { holderIdentity, renewTime, leaseDurationSeconds = 0 } = lease;
  // The identity is `NAME/RANDOM`.
  const [holder = ""] = (holderIdentity ?? "").split("/");
  // Without the microseconds: `2026-01-02T03:04:05Z`.
  const since = renewTime === undefined ? "" : ` since ${renewTime.slice(0, 19)}Z`;
  const isRenewed = now <= Date.parse(renewTime ?? "") + leaseDurationSeconds * 1000 + CLOCK_SKEW_MS;
  if (holder !== "" && isRenewed) return undefined;
  const evidence =
    holder === "" ? `its Lease has no holder${since}` : `${holder} has not renewed its Lease${since}`;
  return `The operator is not running: ${evidence}. Its last status: `;
}

/** A lease is renewed several times in its duration: after this share of it, a renewal is overdue. */
const LATE_SHARE = 0.5;

/** Says that the operator has stopped or renews its Lease late, as the begin of a message with its last status; undefined while it is in time. */
export function describeStaleLease(lease: LeaseSpec, now: number): string | undefined {
  const stopped = describeStoppedOperator(lease, now);
  if (stopped !== undefined) return stopped;
  const { renewTime = "", leaseDurationSeconds = 0 } = lease;
  const ageMs = now - Date.parse(renewTime);
  if (ageMs <= leaseDurationSeconds * 1000 * LATE_SHARE) return undefined;
  const seconds = Math.floor(ageMs / 1000);
  return `The operator last renewed its Lease ${seconds} s ago, at ${renewTime.slice(0, 19)}Z: this status may be outdated. `;
}

const NO_OPERATOR = {
  status: "Unknown",
  reason: "NotRunning",
  message: "the AddonOperator does not exist",
} as const;

/** The condition Ready of the operator; Unknown without an AddonOperator. */
function operatorReadiness(operator: IAddonOperator | undefined): ReturnType<typeof findCondition> {
  return operator === undefined ? NO_OPERATOR : findCondition(operator.status?.conditions, "Ready");
}

/**
 * The overview that `status` and `list` display, from the resources of a cluster; `now` in ms since the epoch. If the operator has
 * stopped, it is Invalid. If its renewal of the Lease is only late, its state stays, and the message begins with a note.
 */
export function toOverview({ operator, modules, lease, sources }: Resources, now: number): Overview {
  const { state = "Pending", converge = {} } = operator?.status ?? {};
  const { status, message, reason } = operatorReadiness(operator);
  const rows = modules.map((module) => toModuleRow(module, now));
  const isStopped = lease !== undefined && describeStoppedOperator(lease, now) !== undefined;
  const leaseNote = operator && lease && describeStaleLease(lease, now);
  const headline = isStopped
    ? { state: "Invalid" as const, ready: "False" as const, reason: "NotRunning" }
    : { state, ready: status, reason };
  return {
    ...headline,
    message: `${leaseNote ?? ""}${message}`,
    converge,
    modules: rows.toSorted((a, b) => a.order - b.order || a.name.localeCompare(b.name)),
    ...toSourcesField(sources),
  };
}

/** The field of the overview about ModuleSources; none if all is well. */
function toSourcesField(sources: readonly IModuleSource[] = []): Pick<Overview, "sources"> {
  const problems = sources.flatMap((source) => describeSourceProblem(source) ?? []);
  return problems.length > 0 ? { sources: problems } : {};
}

/** A condition by its type. A missing condition is Unknown. */
function findCondition(
  conditions: NonNullable<ModuleStatus["conditions"]> = [],
  type: string,
): { status: OverviewRow["ready"]; reason: string; message: string } {
  const condition = conditions.find((each) => each.type === type);
  const { status = "Unknown", reason = "", message = "" } = condition ?? {};
  return { status: status === "True" || status === "False" ? status : "Unknown", reason, message };
}

/** As `toModuleRow`, but with Unknown conditions if the operator has stopped: its last status may no longer be true. */
export function toCurrentModuleRow(
  module: IAddonModule,
  lease: LeaseSpec | undefined,
  now: number,
): OverviewRow {
  const row = toModuleRow(module, now);
  const stopped = lease && describeStoppedOperator(lease, now);
  if (stopped === undefined) return row;
  return { ...row, ready: "Unknown", healthy: "Unknown", message: `${stopped}${row.message}` };
}

/** The row of a module, from its AddonModule. */
function toModuleRow(module: IAddonModule, now: number): OverviewRow {
  const { status = {} } = module;
  const { conditions, drift = [], requires = [], state = "Pending" } = status;
  const ready = findCondition(conditions, "Ready");
  const unmet = requires.find(({ met }) => !met);
  return omitUndefined({
    ...toNameAndSpec(module),
    state,
    reason: ready.reason,
    ready: ready.status,
    healthy: findCondition(conditions, "Healthy").status,
    message: ready.message,
    drifted: new Set(drift.map(({ object }) => object)).size,
    waitsFor: state === "Pending" ? unmet?.name : undefined,
    lastRun: status.lastRun && toLastRun(status.lastRun, now),
    chartVersion: status.release?.chartVersion,
    usualSeconds: medianOf(status.runSeconds ?? []),
    source: status.source,
  });
}

/** The fields of a row that come from metadata and spec. */
function toNameAndSpec({
  metadata,
  spec = {},
}: IAddonModule): Pick<OverviewRow, "name" | "order" | "enabled"> {
  const { order = 0, enabled = false } = spec;
  return { name: metadata.name, order, enabled };
}

/** The last run of a module. The duration of a run that is not over is counted until `now`. */
function toLastRun(
  run: NonNullable<ModuleStatus["lastRun"]>,
  now: number,
): NonNullable<OverviewRow["lastRun"]> {
  const { trigger = "", startedAt = "", durationSeconds, step = "", attempts = 1, result } = run;
  const seconds = durationSeconds ?? Math.max(0, now - Date.parse(startedAt)) / 1000;
  return omitUndefined({ cause: trigger, startedAt, seconds, step, attempts, result });
}

/** Reasons of the AddonOperator that concern each module: its configuration is not in force. */
const CONFIG_REASONS: ReadonlySet<string> = new Set(["ConfigMapInvalid", "ConfigMapMissing"]);

/** Why the ConfigMap is not in force, from the AddonOperator; undefined if it is. */
export function describeConfigProblem(operator: IAddonOperator | undefined): string | undefined {
  const { reason, message } = operatorReadiness(operator);
  return CONFIG_REASONS.has(reason) ? message : undefined;
}

/** Why a module has its state, from its AddonModule: a line with the state and the message of Ready, then the sentences of `module why`, each once. */
export function explainState({ metadata, status = {} }: IAddonModule): string[] {
  const { state = "Pending", conditions } = status;
  const headline = `${metadata.name}: ${state}: ${findCondition(conditions, "Ready").message}`;
  const enabledReason = findCondition(conditions, "Enabled").message;
  const facts = [
    enabledReason,
    ...describeReasons(toReasons(status)),
    ...describeObjects(status),
    ...describeOrigin(status.source),
  ];
  return [headline, ...new Set(facts.filter((fact) => fact !== "" && !headline.includes(fact)))];
}

/** Reads from a status what `module why` reads from the operator's own state, so that both explain it in the same words. */
function toReasons(status: ModuleStatus): Reasons {
  const { state, conditions, requires = [], absent = [], failures = 0, nextRetryAt } = status;
  const messageIfTrue = (type: string): string | undefined => {
    const condition = findCondition(conditions, type);
    return condition.status === "True" ? condition.message : undefined;
  };
  const unmet = requires.filter(({ met }) => !met);
  const drift = messageIfTrue("Drifted");
  const { reason } = findCondition(conditions, "Ready");
  return {
    blockers: [
      messageIfTrue("HooksFailing"),
      messageIfTrue("DependencyLost"),
      ...unmet.map(({ name, message = "does not exist" }) => `it requires ${name}, which ${message}`),
    ],
    isSuspended: state !== "Suspended" && messageIfTrue("Suspended") !== undefined,
    // Without the message of the failure, which the caller prints first as the message of Ready.
    retry: state === "Retrying" ? { failures, reason, nextTry: nextRetryAt } : undefined,
    missing: absent,
    unhealthy: [describeHealth(findCondition(conditions, "Healthy"))],
    drift: drift && `changed by others: ${drift}`,
  };
}

/** Objects that are unhealthy, and fields that others have changed. */
function describeObjects({ health = [], drift = [] }: ModuleStatus): string[] {
  return [
    ...health.map(({ object, reason = "", message = "" }) => `${object}: ${reason}: ${message}`),
    ...drift.map(
      ({ object, field, manager = "an unknown field manager" }) => `${object}: ${manager} changed ${field}`,
    ),
  ];
}
