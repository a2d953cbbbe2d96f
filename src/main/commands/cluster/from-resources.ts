/**
 * What `kubectl addon` displays of the resources of a cluster. The Lease of the leader election shows whether the operator runs, so that
 * its last status is still true.
 */

import type { LeaseSpec } from "../../../kube/index.ts";
import {
  describeSourceProblem,
  explainModule,
  findCondition,
  toModuleRow,
  toOverview,
  type IAddonModule,
  type IAddonOperator,
  type IModuleSource,
  type Overview,
  type OverviewRow,
} from "../../../report/index.ts";

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

/**
 * The overview that `status` and `list` display, from the resources of a cluster; `now` in ms since the epoch. If the operator has
 * stopped, it is Invalid. If its renewal of the Lease is only late, its state stays, and the message begins with a note.
 */
export function readResources({ operator, modules, lease, sources }: Resources, now: number): Overview {
  const byName = new Map(modules.map((module) => [module.metadata.name, module]));
  const overview = toOverview({ operator: operator?.status, modules: byName }, now);
  const rows = overview.modules.toSorted((a, b) => a.order - b.order || a.name.localeCompare(b.name));
  const problems = (sources ?? []).flatMap((source) => describeSourceProblem(source) ?? []);
  const all = { ...overview, modules: rows, ...(problems.length > 0 && { sources: problems }) };
  if (operator === undefined)
    return { ...all, reason: "NotRunning", message: "the AddonOperator does not exist" };
  const message = `${(lease && describeStaleLease(lease, now)) ?? ""}${overview.message}`;
  const isStopped = lease !== undefined && describeStoppedOperator(lease, now) !== undefined;
  if (!isStopped) return { ...all, message };
  return { ...all, state: "Invalid", ready: "False", reason: "NotRunning", message };
}

/** The row of a module, with Unknown conditions if the operator has stopped: its last status may no longer be true. */
export function readModuleRow(module: IAddonModule, lease: LeaseSpec | undefined, now: number): OverviewRow {
  const row = toModuleRow(module.metadata.name, module, now);
  const stopped = lease && describeStoppedOperator(lease, now);
  if (stopped === undefined) return row;
  return { ...row, ready: "Unknown", healthy: "Unknown", message: `${stopped}${row.message}` };
}

/** Reasons of the AddonOperator that concern each module: its configuration is not in force. */
const CONFIG_REASONS: ReadonlySet<string> = new Set(["ConfigMapInvalid", "ConfigMapMissing"]);

/** Why the ConfigMap is not in force, from the AddonOperator; undefined if it is. */
export function describeConfigProblem(operator: IAddonOperator | undefined): string | undefined {
  const { reason, message } = findCondition(operator?.status?.conditions, "Ready");
  return CONFIG_REASONS.has(reason) ? message : undefined;
}

/** Why the module `name` has its state, from the AddonModules: a line with the state and the message of Ready, then the sentences of `module why`, each once. */
export function explainState(name: string, modules: ReadonlyMap<string, IAddonModule>): string[] {
  const { status = {} } = modules.get(name) ?? {};
  const headline = `${name}: ${status.state ?? "Pending"}: ${findCondition(status.conditions, "Ready").message}`;
  const sentences = explainModule(name, { object: (each) => modules.get(each) });
  const facts = [...sentences, ...describeObjects(status)];
  return [headline, ...new Set(facts.filter((fact) => fact !== "" && !headline.includes(fact)))];
}

/** Objects that are unhealthy, and fields that others have changed. */
function describeObjects({ health = [], drift = [] }: NonNullable<IAddonModule["status"]>): string[] {
  return [
    ...health.map(({ object, reason = "", message = "" }) => `${object}: ${reason}: ${message}`),
    ...drift.map(
      ({ object, field, manager = "an unknown field manager" }) => `${object}: ${manager} changed ${field}`,
    ),
  ];
}
