/** The AddonModule of a module: its state, what it requires, and its values (docs/STATUS.md). */

import { KnownSecrets, shownDigest } from "../../lib/index.ts";
import { describeDrift } from "../../drift/index.ts";
import type { Drift } from "../../drift/index.ts";
import type { Health } from "../../health/index.ts";
import { type Json, describeCause, isJsonObject } from "../../model/index.ts";
import { enabledText, type Requirement } from "../../plan/index.ts";
import { annotationToken, missingObjects } from "../../state/index.ts";
import type { LastRun, ModuleView, ReleaseView } from "../../state/index.ts";
import { defined, line, timestamp } from "../models/kinds.ts";
import type {
  LastRunStatus,
  ModuleSpec,
  ModuleStatus,
  ReleaseStatus,
  RequirementStatus,
} from "../models/kinds.ts";
import { failingHooksAspects, isHidden, judge, progress, timed } from "./verdict.ts";
import type { Aspect, JudgeContext, Transitions, Verdict } from "./verdict.ts";

/** An AddonModule as it should be. */
export interface ModuleProjection {
  readonly spec: ModuleSpec;
  readonly status: ModuleStatus;
}

/** What is shown of a module beside its own view. */
export interface ShowContext extends JudgeContext {
  /** Transition times of the status before. */
  readonly before: Transitions;
  /**
   * The status as shown before: its `lastRun` stays while the present run is too young to be announced, and the times of
   * what is required.
   */
  readonly shownBefore?: ModuleStatus | undefined;
  readonly required?: readonly Requirement[];
  readonly shown: ShownValues;
  /** When a failure is tried again, in ms since the epoch. */
  readonly nextTryAt?: number | undefined;
}

const MOST_ABSENT = 20;

/** The AddonModule of one module. Pure: every time and every text comes from the arguments. */
export function projectModule(view: ModuleView, facts: ShowContext): ModuleProjection {
  const verdict = judge(view, facts);
  const missing = missingObjects(view);
  return {
    spec: { enabled: view.enabled, order: view.module.order, configDigest: shownDigest(view.configDigest) },
    status: defined({
      state: verdict.state,
      enabledBy: view.enabledBy,
      enabledReason: optional(view.enabledReason, line),
      valuesDigest: shownDigest(view.wholeDigest),
      ...facts.shown,
      lastRun: isHidden(view, facts.now) ? facts.shownBefore?.lastRun : optional(view.lastRun, projectRun),
      runSeconds: view.runSeconds.length === 0 ? undefined : view.runSeconds,
      release: optional(view.release, projectRelease),
      absent: missing.length === 0 ? undefined : missing.slice(0, MOST_ABSENT),
      ...projectRequires(facts.required, facts.shownBefore?.requires, facts.now),
      ...optional(view.health, projectHealth),
      drift: projectDrift(view.drift),
      failures: view.retry?.failures ?? 0,
      nextRetryAt: optional(facts.nextTryAt, timestamp),
      lastHandledReconcileAt: annotationToken(view.handled.token),
      conditions: timed(aspects(view, verdict, facts), facts.before, facts.now),
    }),
  };
}

function aspects(view: ModuleView, verdict: Verdict, { lost, failing }: JudgeContext): Aspect[] {
  const list = progress(verdict);
  if (view.health !== undefined)
    list.push({
      type: "Healthy",
      status: view.health.status,
      reason: view.health.reason,
      message: line(view.health.message),
    });
  list.push(...driftedAspects(view.drift), ...failingHooksAspects(failing));
  if (lost !== undefined)
    list.push({ type: "DependencyLost", status: "True", reason: lost.reason, message: line(lost.message) });
  list.push({
    type: "Enabled",
    status: view.enabled ? "True" : "False",
    reason: ENABLED_REASON[view.enabledBy],
    message: line(enabledText(view)),
  });
  if (view.suspended) {
    const message = "The ConfigMap asks for NoResourceReconciliation: helm is left alone";
    list.push({ type: "Suspended", status: "True", reason: "NoResourceReconciliation", message });
  }
  return list;
}

function driftedAspects(drift: Drift): Aspect[] {
  const type = "Drifted";
  if (drift.count > 0)
    return [{ type, status: "True", reason: "Drifted", message: line(describeDrift(drift)) }];
  if (drift.trouble === undefined) return [];
  return [{ type, status: "Unknown", reason: "NotCompared", message: line(drift.trouble) }];
}

const ENABLED_REASON: Readonly<Record<ModuleView["enabledBy"], string>> = {
  values: "Values",
  "module-values": "ModuleValues",
  hook: "Hook",
  configmap: "ConfigMap",
  script: "EnabledScript",
  none: "NotSwitchedOn",
};

function projectRun(run: LastRun): LastRunStatus {
  const { finishedAt, startedAt } = run;
  return defined({
    trigger: line(describeCause(run.trigger)),
    startedAt: timestamp(startedAt),
    finishedAt: optional(finishedAt, timestamp),
    durationSeconds: finishedAt === undefined ? undefined : (finishedAt - startedAt) / 1000,
    result: run.result,
    step: run.step,
    hook: run.hook,
    message: optional(run.message, line),
    attempts: run.attempts,
  });
}

/** How many objects have which status, and those that are not Current. */
function projectHealth({ counts, ailments }: Health): Pick<ModuleStatus, "health" | "objects"> {
  const health = ailments.map(({ object, status, reason, message }) => ({
    object,
    status,
    reason: line(reason),
    message: line(message),
  }));
  return health.length === 0 ? { objects: counts } : { objects: counts, health };
}

const MOST_FIELDS = 20;

/** The fields that others have changed, of all objects together. */
function projectDrift({ objects }: Drift): ModuleStatus["drift"] {
  const fields = objects.flatMap(({ object, fields: own }) =>
    own.map(({ field, manager, at }) =>
      defined({
        object,
        field: line(field),
        manager: optional(manager, line),
        since: optional(at, timestamp),
      }),
    ),
  );
  return fields.length === 0 ? undefined : fields.slice(0, MOST_FIELDS);
}

function projectRelease(release: ReleaseView): ReleaseStatus {
  return defined({
    ...release,
    lastDeployed: optional(release.lastDeployed, timestamp),
    manifestChecksum: optional(release.manifestChecksum, shownDigest),
  });
}

function optional<T, R>(value: T | undefined, map: (value: T) => R): R | undefined {
  return value === undefined ? undefined : map(value);
}

const MOST_REQUIRED = 20;

/** What is not met first; each keeps its time of `before` while it stays met or not. */
function projectRequires(
  all: readonly Requirement[] = [],
  before: ModuleStatus["requires"] = [],
  now: number,
): Pick<ModuleStatus, "requires" | "requiresMet"> {
  if (all.length === 0) return {};
  const met = all.filter(({ unmet }) => unmet === undefined);
  const listed = [...all.filter((each) => !met.includes(each)), ...met].slice(0, MOST_REQUIRED);
  const sinceOf = (each: Requirement): string | undefined =>
    before.find(({ of, name, met: was }) => of === each.of && name === each.name && was === isMet(each))
      ?.since;
  return {
    requires: listed.map((each) => ({ ...requirement(each), since: sinceOf(each) ?? timestamp(now) })),
    requiresMet: `${met.length}/${all.length}`,
  };
}

function isMet({ unmet }: Requirement): boolean {
  return unmet === undefined;
}

function requirement(each: Requirement): Omit<RequirementStatus, "since"> {
  const { of, name, range, unmet } = each;
  const why = unmet && { reason: unmet.reason, message: line(unmet.message) };
  return defined({ of, name: line(name), range, met: isMet(each), ...why });
}

/** `--status-values`. */
export type StatusValues = "redacted" | "full" | "none";

/** Merged values as they may be shown. */
export interface ShownValues {
  readonly values?: Json;
  readonly valuesTruncated?: boolean;
}

/** What is known to be secret: paths from the schemas of the values, and texts. */
export interface SecretMarks {
  readonly secretPaths?: ReadonlySet<string> | undefined;
  readonly secrets?: KnownSecrets;
}

/** Most bytes of JSON that the values in a status may have. */
export const VALUES_LIMIT = 32 * 1024;

/**
 * The merged values as they may be shown: in mode `redacted` without secrets, in every mode but `none` cut to 32
 * KiB, with a note in place of what was cut.
 */
export function showValues(values: Json, mode: StatusValues, marks: SecretMarks = {}): ShownValues {
  if (mode === "none") return {};
  const { secrets = new KnownSecrets(), secretPaths } = marks;
  const shown = mode === "full" ? values : secrets.redactValues(values, secretPaths);
  if (sizeOf(shown) <= VALUES_LIMIT) return { values: shown };
  return { values: cut(shown, VALUES_LIMIT), valuesTruncated: true };
}

/** Bytes of `value` as JSON. */
function sizeOf(value: Json): number {
  return Buffer.byteLength(JSON.stringify(value));
}

/** `value` in at most `budget` bytes: small members are kept whole, then large ones are cut, the rest is left out. */
function cut(value: Json, budget: number): Json {
  const size = sizeOf(value);
  if (size <= budget) return value;
  if (Array.isArray(value)) return cutList(value, budget - 2);
  if (isJsonObject(value)) return cutMap(value, budget - 2);
  return note(size);
}

function note(size: number): string {
  return `<cut: ${size} bytes>`;
}
const NOTE_SIZE = 24;

function cutMap(value: Readonly<Record<string, Json | undefined>>, budget: number): Json {
  const members = Object.entries(value).map(([key, member]) => ({ key, member: member ?? null }));
  const sized = members.map((member) => ({ ...member, size: sizeOf(member.member) }));
  const kept = new Map<string, Json>();
  let left = budget - 2 * NOTE_SIZE;
  for (const { key, member, size } of sized.toSorted((a, b) => a.size - b.size)) {
    const room = left - Buffer.byteLength(JSON.stringify(key)) - 2;
    if (room < Math.min(size, NOTE_SIZE)) continue;
    const shown = cut(member, room);
    kept.set(key, shown);
    left = room - sizeOf(shown);
  }
  // In the order in which the user wrote them.
  const shown: [string, Json][] = members.flatMap(({ key }) =>
    kept.has(key) ? [[key, kept.get(key) ?? null]] : [],
  );
  const dropped = members.length - kept.size;
  if (dropped > 0) shown.push(["…", `<cut: ${dropped} keys>`]);
  return Object.fromEntries(shown);
}

function cutList(value: readonly Json[], budget: number): Json {
  const kept: Json[] = [];
  let left = budget - NOTE_SIZE;
  for (const item of value) {
    left -= sizeOf(item) + 1;
    if (left < 0) break;
    kept.push(item);
  }
  return [...kept, `<cut: ${value.length - kept.length} items>`];
}
