/**
 * The status of a ModuleSource (docs/guides/module-sources.md): what this process has locked, verified and put in place. It
 * has a row for each module that the source names. The lock entry of such a module may still belong to another source.
 */

import { formatUtc } from "../../base/index.ts";
import { toStatusLine, omitUndefined, addTransitionTimes } from "../../report/index.ts";
import type { IModuleSource, SourceStatus, UntimedCondition } from "../../report/index.ts";
import { APPROVE_UPDATE } from "../../engine/state/index.ts";
import { allowsVersion, toApproval } from "./choose.ts";
import type { LockConfigMap } from "../lock.ts";
import type { LockedModules } from "../locked-modules.ts";
import type { SourceEntry } from "../source-list.ts";
import type { CheckFindings, LockEntry, ModuleError, ModuleRequest, WaitingVersion } from "../types.ts";

/** An answer of a registry: `refused` is one for the credentials or the number of requests, and `none` includes 5xx. */
export type RegistryAnswerKind = "answered" | "refused" | "none";

/** What the checks of one source have found. */
export interface SourceFindings {
  /** Errors by module; undefined before the first check of this spec. */
  readonly errors: ReadonlyMap<string, ModuleError> | undefined;
  /** What waits, by module. */
  readonly waitingVersions: CheckFindings["waitingVersions"];
  /** Times in milliseconds since the epoch. */
  readonly lastCheck: number | undefined;
  readonly nextCheck: number | undefined;
  /** Why newer content could not be looked up, by module. */
  readonly failures: ReadonlyMap<string, ModuleError>;
  /** The last answer of the registry; undefined before the first request. */
  readonly answer: RegistryAnswerKind | undefined;
  /** The token of the last request that was handled. */
  readonly handledToken: string | undefined;
}

/** Before the first check. */
export const FINDINGS_BEFORE_CHECK: SourceFindings = {
  errors: undefined,
  failures: new Map(),
  waitingVersions: new Map(),
  lastCheck: undefined,
  nextCheck: undefined,
  answer: undefined,
  handledToken: undefined,
};

/** Reasons that need a user's action: a retry does not help. */
const REASONS_FOR_USER_ACTION: ReadonlySet<ModuleError["reason"]> = new Set(["NotVerified", "Blocked"]);
const MAX_LISTED_MODULES = 3;

/** What a status is built from. */
interface StatusInput {
  readonly source: SourceEntry;
  readonly lock: Pick<LockConfigMap, "entries">;
  readonly lockedModules: Pick<LockedModules, "getContent">;
  readonly findings: SourceFindings;
  readonly now: number;
  readonly namespace: string;
}

/** Builds the status of a ModuleSource. Modules with an error come first. Pure. */
export function buildStatus(facts: StatusInput): SourceStatus {
  const { source, findings, now } = facts;
  const names = [...(source.spec?.modules.keys() ?? [])];
  const rows = names.map((name) => buildModuleRow(name, facts));
  const readyCount = rows.filter(({ error }) => error === undefined).length;
  const { lastCheck, nextCheck, handledToken } = findings;
  return {
    summary: `${readyCount}/${names.length}`,
    waiting: rows.filter(({ next }) => next !== undefined).length,
    ...omitUndefined({
      lastCheck: formatIfKnown(lastCheck),
      nextCheck: formatIfKnown(nextCheck),
      lastHandledReconcileAt: handledToken,
    }),
    modules: rows.toSorted((a, b) => Number(b.error !== undefined) - Number(a.error !== undefined)),
    conditions: addTransitionTimes(buildConditions(facts, rows), [], now),
  };
}

type ModuleRow = NonNullable<SourceStatus["modules"]>[number];

/**
 * Builds the row of one module: the content that is locked for this source, its error, and its waiting version. Before a
 * first installation, the waiting version is also the error: the module has no content.
 */
function buildModuleRow(name: string, facts: StatusInput): ModuleRow {
  const { source, lock, findings, namespace } = facts;
  const entry = lock.entries.get(name);
  const locked = entry?.source === source.name ? entry : undefined;
  const waiting = findings.waitingVersions.get(name);
  const next = waiting && toNextField(waiting, describeWaitingVersion(waiting, namespace, name));
  const error =
    describeModuleError(name, facts, locked) ?? (locked === undefined ? describeWait(next) : undefined);
  const { version, digest, verifiedBy, rejected }: Partial<LockEntry> = locked ?? {};
  const check = buildCheckField(findings.errors?.get(name), error);
  return {
    name,
    ...omitUndefined({ version, digest, verifiedBy, rejected, check }),
    ...(error === undefined ? {} : { error: toStatusLine(error) }),
    ...(next && { next }),
  };
}

/** The field `check` of a row: the error of the last check, whose message is omitted if it is that of the row. */
function buildCheckField(failure: ModuleError | undefined, rowError: string | undefined): ModuleRow["check"] {
  if (failure === undefined) return undefined;
  const { reason } = failure;
  const message = toStatusLine(failure.message);
  return failure.message === rowError ? { reason } : { reason, message };
}

/** Reads the errors of modules from a status that describes the current spec; the inverse of `buildCheckField`. */
export function readStoredErrors(object: IModuleSource): ReadonlyMap<string, ModuleError> {
  const { metadata, status } = object;
  return status?.observedGeneration === metadata.generation ? parseStoredErrors(object) : new Map();
}

/** As `readStoredErrors`, also of a status that describes an earlier spec. */
export function parseStoredErrors({ status }: IModuleSource): ReadonlyMap<string, ModuleError> {
  return new Map(
    (status?.modules ?? []).flatMap(({ name, error = "", check }) =>
      check === undefined ? [] : [[name, { reason: check.reason, message: check.message ?? error }]],
    ),
  );
}

/** Describes what a module without content waits for, if its check found no error. */
function describeWait(next: ModuleRow["next"]): string {
  return next?.held ?? "waits for its first check";
}

/** Describes why an update is not used yet, with the command that approves it. */
export function describeWaitingVersion(waiting: WaitingVersion, namespace: string, module: string): string {
  const target = `-n ${namespace} addonmodule/${module}`;
  const command = `kubectl annotate --overwrite ${target} ${APPROVE_UPDATE}=${toApproval(waiting)}`;
  return toStatusLine(`${waiting.reason}; to use it now: ${command}`);
}

const formatIfKnown = (time: number | undefined): string | undefined =>
  time === undefined ? undefined : formatUtc(time);

/**
 * Describes why the module does not have the requested content; undefined if it has. A failed check is no error while the
 * locked content satisfies the request.
 */
function describeModuleError(
  name: string,
  { source, lockedModules, findings }: StatusInput,
  locked: LockEntry | undefined,
): string | undefined {
  const failure = findings.errors?.get(name);
  const request = source.spec?.modules.get(name);
  const problem = lockedModules.getContent(name)?.problem;
  if (failure === undefined) return problem?.message;
  if (!onlyDelaysUpdates(failure, locked, request)) return failure.message;
  // The locked content is not on disk, and the failed check says why it cannot be fetched.
  return problem?.reason === "SourceUnavailable"
    ? `${problem.message}: ${failure.message}`
    : problem?.message;
}

/** Whether an error only delays updates: the locked version satisfies the request. */
function onlyDelaysUpdates(
  { reason }: ModuleError,
  locked: LockEntry | undefined,
  request: ModuleRequest | undefined,
): boolean {
  const isDelay = reason === "CheckFailed" || reason === "Withdrawn";
  return isDelay && locked !== undefined && request !== undefined && allowsVersion(request, locked.version);
}

/** The field `next` of a row: the waiting version. `held` says why the update waits. */
function toNextField(
  { version, digest, since, until }: WaitingVersion,
  held: string,
): NonNullable<ModuleRow["next"]> {
  return omitUndefined({ version, digest, since: formatUtc(since), held, until: formatIfKnown(until) });
}

/** Builds all conditions; Withdrawn, Rejected and CheckFailed exist only while they are true. */
function buildConditions(facts: StatusInput, rows: readonly ModuleRow[]): UntimedCondition[] {
  const { source, findings } = facts;
  const ready = { type: "Ready", ...evaluateReady(source, rows, findings) } as const;
  return [
    ready,
    ...buildProgressCondition(source, ready, findings),
    ...buildWithdrawnCondition(findings),
    ...buildRejectedCondition(rows, facts),
    ...buildModulesCondition({ type: "CheckFailed", reason: "CheckFailed" }, toErrorTexts(findings.failures)),
    { type: "Reachable", ...REACHABLE_BY_ANSWER[findings.answer ?? "unasked"] },
  ];
}

/** The condition Rejected, while modules use earlier content again because an update failed. */
function buildRejectedCondition(
  rows: readonly ModuleRow[],
  { lock, findings }: StatusInput,
): UntimedCondition[] {
  // A row has a version only if the lock entry belongs to this source.
  const rolledBack = rows.filter(({ name, version }) => version && lock.entries.get(name)?.isBack === true);
  const texts = rolledBack.map(({ name, version }) => {
    const why = findings.waitingVersions.get(name)?.reason ?? "the update failed, and was rolled back";
    return { name, error: `${version} is in use again: ${why}` };
  });
  return buildModulesCondition({ type: "Rejected", reason: "RolledBack" }, texts);
}

/** The condition Withdrawn, while the registry no longer has requested versions. */
function buildWithdrawnCondition({ errors }: SourceFindings): UntimedCondition[] {
  const withdrawn = new Map([...(errors ?? [])].filter(([, { reason }]) => reason === "Withdrawn"));
  return buildModulesCondition({ type: "Withdrawn", reason: "Withdrawn" }, toErrorTexts(withdrawn));
}

/** The modules of a condition that lists them. */
function toErrorTexts(errors: ReadonlyMap<string, ModuleError>): Pick<ModuleRow, "name" | "error">[] {
  return [...errors].map(([name, { message: error }]) => ({ name, error }));
}

/** A condition that lists modules, and exists only while there are any. */
function buildModulesCondition(
  condition: Pick<UntimedCondition, "type" | "reason">,
  modules: readonly Pick<ModuleRow, "name" | "error">[],
): UntimedCondition[] {
  if (modules.length === 0) return [];
  return [{ ...condition, status: "True", message: toStatusLine(joinFirstErrors(modules)) }];
}

/** The condition Stalled if a user has to act, else Reconciling; none if the source is Ready (kstatus). */
function buildProgressCondition(
  { problem }: SourceEntry,
  { status, reason, message }: UntimedCondition,
  { errors }: SourceFindings,
): UntimedCondition[] {
  if (status === "True") return [];
  const isFinal = [...(errors?.values() ?? [])].some((each) => REASONS_FOR_USER_ACTION.has(each.reason));
  if (isFinal || problem !== undefined) return [{ type: "Stalled", status: "True", reason, message }];
  const progress = status === "Unknown" ? "Progressing" : "ProgressingWithRetry";
  return [{ type: "Reconciling", status: "True", reason: progress, message }];
}

/** The condition Reachable: whether the registry answered the last request. */
const REACHABLE_BY_ANSWER = {
  unasked: { status: "Unknown", reason: "NotAsked", message: "No request was necessary" },
  answered: { status: "True", reason: "Answered", message: "The registry answered" },
  refused: {
    status: "False",
    reason: "Refused",
    message:
      "The registry refuses requests, because of the credentials or their number; what is locked stays in force",
  },
  none: {
    status: "False",
    reason: "NoAnswer",
    message: "The registry did not answer; what is locked stays in force",
  },
} as const;

/** Evaluates Ready: the spec is valid, and each module has its requested content. Unknown before the first check. */
function evaluateReady(
  { spec, problem }: SourceEntry,
  rows: readonly ModuleRow[],
  { errors, failures }: SourceFindings,
): Pick<UntimedCondition, "status" | "reason" | "message"> {
  if (problem !== undefined) return { status: "False", reason: "Invalid", message: toStatusLine(problem) };
  const suspendedNote = spec?.suspend === true ? "; suspended: nothing is checked" : "";
  const failed = rows.filter(({ error }) => error !== undefined);
  if (failed.length === 0) {
    const subject = rows.length === 1 ? "The module is" : `All ${rows.length} modules are`;
    const failureNote = failures.size === 0 ? "" : "; newer versions cannot be looked up: ";
    const failureText = joinFirstErrors(toErrorTexts(failures));
    const message = toStatusLine(
      `${subject} verified and in place${suspendedNote}${failureNote}${failureText}`,
    );
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
