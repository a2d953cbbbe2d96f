/** The status of a ModuleSource (docs/guides/module-sources.md): what this process has locked, verified and put in place. */

import { canonicalJson, formatUtc } from "../../lib/index.ts";
import type { Json } from "../../model/index.ts";
import {
  toStatusLine,
  addTransitionTimes,
  type IModuleSource,
  type UntimedCondition,
} from "../../status/index.ts";
import { allowsVersion } from "../choose.ts";
import type { LockEntry, ModuleRequest } from "../types.ts";
import {
  REASONS_FOR_USER_ACTION,
  type CheckFindings,
  type PendingUpdate,
  type ModuleError,
} from "./entry/findings.ts";
import type { Source } from "../source-list.ts";
import type { LockedModules } from "../locked-modules.ts";
import { describePendingUpdate } from "../pending-updates.ts";

type Status = NonNullable<IModuleSource["status"]>;

/** What the checks of one source have found. */
export interface SourceFindings {
  /** Errors by module; undefined before the first check of this spec. */
  readonly errors: ReadonlyMap<string, ModuleError> | undefined;
  /** What waits, by module. */
  readonly pendingUpdates: CheckFindings["pendingUpdates"];
  /** Times in milliseconds since the epoch. */
  readonly lastCheck: number | undefined;
  readonly nextCheck: number | undefined;
  /** Whether the registry answered; undefined before the first request. */
  readonly isReachable: boolean | undefined;
  /** The token of the last request that was handled. */
  readonly handledToken: string | undefined;
}

/** Before the first check. */
export const FINDINGS_BEFORE_CHECK: SourceFindings = {
  errors: undefined,
  pendingUpdates: new Map(),
  lastCheck: undefined,
  nextCheck: undefined,
  isReachable: undefined,
  handledToken: undefined,
};

const MAX_LISTED_MODULES = 3;
const MAX_ERROR_CHARS = 1000;

/** What a status is built from. */
interface StatusInput {
  readonly source: Source;
  readonly lockedModules: Pick<LockedModules, "entries" | "getContent">;
  readonly findings: SourceFindings;
  readonly now: number;
  readonly namespace: string;
}

/** Builds the status of a ModuleSource. Pure. */
export function buildStatus(facts: StatusInput): Status {
  const { source, findings, now } = facts;
  const { object, spec } = source;
  const names = [...(spec?.modules.keys() ?? [])];
  const rows = names.map((name) => buildModuleRow(name, facts));
  const readyCount = rows.filter(({ error }) => error === undefined).length;
  const { generation = 0 } = object.metadata;
  const conditions = addTransitionTimes(buildConditions(facts, rows), object.status?.conditions, now);
  const { lastCheck, nextCheck, handledToken } = findings;
  return {
    observedGeneration: generation,
    summary: `${readyCount}/${names.length}`,
    waiting: rows.filter(({ next }) => next !== undefined).length,
    ...(lastCheck === undefined ? {} : { lastCheck: formatUtc(lastCheck) }),
    ...(nextCheck === undefined ? {} : { nextCheck: formatUtc(nextCheck) }),
    ...(handledToken === undefined ? {} : { lastHandledReconcileAt: handledToken }),
    modules: rows.toSorted((a, b) => Number(b.error !== undefined) - Number(a.error !== undefined)),
    conditions: conditions.map((condition) => ({ ...condition, observedGeneration: generation })),
  };
}

/** Whether two statuses are equal, including the transition times of their conditions. */
export function isSameStatus(a: Status | undefined, b: Status): boolean {
  return a !== undefined && canonicalJson(a as unknown as Json) === canonicalJson(b as unknown as Json);
}

type ModuleRow = NonNullable<Status["modules"]>[number];

/** Builds the row of one module: its locked content, its error, and its pending update. */
function buildModuleRow(name: string, facts: StatusInput): ModuleRow {
  const { source, lockedModules, findings, namespace } = facts;
  const entry = lockedModules.entries.get(name);
  const own = entry?.source === source.name ? entry : undefined;
  const held = findings.pendingUpdates.get(name);
  const next = held && toNextField(held, describePendingUpdate(held, namespace, name));
  const error =
    describeModuleError(name, facts, own) ?? (own === undefined ? describeMissingContent(next) : undefined);
  return {
    name,
    ...(own && toContentFields(own)),
    ...(error === undefined ? {} : { error: toStatusLine(error).slice(0, MAX_ERROR_CHARS) }),
    ...(next && { next }),
  };
}

function toContentFields({ version, digest, verifiedBy, rejected }: LockEntry): Partial<ModuleRow> {
  return { version, digest, verifiedBy, ...(rejected && { rejected }) };
}

/** Why a module has no content although its check found no error. */
function describeMissingContent(next: ModuleRow["next"]): string {
  return next?.held ?? "waits for its first check";
}

/**
 * Describes why the module does not have the requested content; undefined if it has. A failed check is no error while the
 * locked content satisfies the request.
 */
function describeModuleError(
  name: string,
  { source, lockedModules, findings }: StatusInput,
  own: LockEntry | undefined,
): string | undefined {
  const failure = findings.errors?.get(name);
  const request = source.spec?.modules.get(name);
  const problem = lockedModules.getContent(name)?.problem;
  if (failure === undefined) return problem?.message;
  if (!onlyDelaysUpdates(failure, own, request)) return failure.message;
  // Nothing is delayed where the content is missing: why it cannot be fetched is what helps.
  return problem?.reason === "SourceUnavailable"
    ? `${problem.message}: ${failure.message}`
    : problem?.message;
}

/** Whether an error only delays updates: the locked version satisfies the request. */
function onlyDelaysUpdates(
  { reason }: ModuleError,
  own: LockEntry | undefined,
  request: ModuleRequest | undefined,
): boolean {
  const isDelay = reason === "CheckFailed" || reason === "Withdrawn";
  return isDelay && own !== undefined && request !== undefined && allowsVersion(request, own.version);
}

/** The field `next` of a row: the pending update. */
function toNextField(
  { version, digest, since, until }: PendingUpdate,
  held: string,
): NonNullable<ModuleRow["next"]> {
  return {
    version,
    digest,
    since: formatUtc(since),
    held,
    ...(until === undefined ? {} : { until: formatUtc(until) }),
  };
}

/** Builds all conditions; Withdrawn and Rejected exist only while they are true. */
function buildConditions(facts: StatusInput, rows: readonly ModuleRow[]): UntimedCondition[] {
  const { source, findings } = facts;
  const ready = { type: "Ready", ...evaluateReady(source, rows, findings) } as const;
  const special = [...buildWithdrawnCondition(findings), ...buildRejectedCondition(rows, facts)];
  return [
    ready,
    ...buildProgressCondition(source, ready, findings),
    ...special,
    buildReachableCondition(findings),
  ];
}

/** The condition Rejected, while modules use earlier content again because an update failed. */
function buildRejectedCondition(
  rows: readonly ModuleRow[],
  { lockedModules, findings }: StatusInput,
): UntimedCondition[] {
  const back = rows.filter(
    ({ name, version }) => version && lockedModules.entries.get(name)?.isBack === true,
  );
  if (back.length === 0) return [];
  const texts = back.map(({ name, version }) => {
    const why = findings.pendingUpdates.get(name)?.reason ?? "the update failed, and was rolled back";
    return { name, error: `${version} is in use again: ${why}` };
  });
  return [
    { type: "Rejected", status: "True", reason: "RolledBack", message: toStatusLine(joinFirstErrors(texts)) },
  ];
}

/** The condition Withdrawn, while the registry no longer has requested versions. */
function buildWithdrawnCondition({ errors }: SourceFindings): UntimedCondition[] {
  const withdrawn = [...(errors ?? [])].filter(([, { reason }]) => reason === "Withdrawn");
  if (withdrawn.length === 0) return [];
  const message = toStatusLine(
    joinFirstErrors(withdrawn.map(([name, { message: error }]) => ({ name, error }))),
  );
  return [{ type: "Withdrawn", status: "True", reason: "Withdrawn", message }];
}

/** The condition Stalled if a user has to act, else Reconciling; none if the source is Ready (kstatus). */
function buildProgressCondition(
  { problem }: Source,
  { status, reason, message }: UntimedCondition,
  { errors }: SourceFindings,
): UntimedCondition[] {
  if (status === "True") return [];
  const isFinal = [...(errors?.values() ?? [])].some((each) => REASONS_FOR_USER_ACTION.has(each.reason));
  if (isFinal || problem !== undefined) return [{ type: "Stalled", status: "True", reason, message }];
  const progress = status === "Unknown" ? "Progressing" : "ProgressingWithRetry";
  return [{ type: "Reconciling", status: "True", reason: progress, message }];
}

const REACHABLE_BY_ANSWER = {
  undefined: { status: "Unknown", reason: "NotAsked", message: "No request was necessary" },
  true: { status: "True", reason: "Answered", message: "The registry answered" },
  false: {
    status: "False",
    reason: "NoAnswer",
    message: "The registry did not answer; what is locked stays in force",
  },
} as const;

/** The condition Reachable: whether the registry answered the last request. */
function buildReachableCondition({ isReachable }: SourceFindings): UntimedCondition {
  return { type: "Reachable", ...REACHABLE_BY_ANSWER[`${isReachable}`] };
}

/** Evaluates Ready: the spec is valid, and each module has its requested content. Unknown before the first check. */
function evaluateReady(
  { spec, problem }: Source,
  rows: readonly ModuleRow[],
  { errors }: SourceFindings,
): Pick<UntimedCondition, "status" | "reason" | "message"> {
  if (problem !== undefined) return { status: "False", reason: "Invalid", message: toStatusLine(problem) };
  const suspendedNote = spec?.suspend === true ? "; suspended: nothing is checked" : "";
  const failed = rows.filter(({ error }) => error !== undefined);
  if (failed.length === 0) {
    const message = `All ${rows.length} modules are verified and in place${suspendedNote}`;
    return { status: "True", reason: "Ready", message };
  }
  const message = toStatusLine(`${joinFirstErrors(failed)}${suspendedNote}`);
  if (errors === undefined) return { status: "Unknown", reason: "Progressing", message };
  return { status: "False", reason: findReason(failed[0], errors), message };
}

/** The reason of Ready=False: the error of the first module, or what its update waits for. */
function findReason(row: ModuleRow | undefined, errors: NonNullable<SourceFindings["errors"]>): string {
  const otherwise = row?.next === undefined ? "SourceUnavailable" : "UpdateHeld";
  return errors.get(row?.name ?? "")?.reason ?? otherwise;
}

/** The first modules with their errors, in one line. */
function joinFirstErrors(failed: readonly Pick<ModuleRow, "name" | "error">[]): string {
  const more = failed.length > MAX_LISTED_MODULES ? `; and ${failed.length - MAX_LISTED_MODULES} more` : "";
  const texts = failed.slice(0, MAX_LISTED_MODULES).map(({ name, error }) => `${name}: ${error}`);
  return `${texts.join("; ")}${more}`;
}
