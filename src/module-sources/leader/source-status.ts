/** The status of a ModuleSource (docs/guides/module-sources.md): what this process has locked, verified and put in place. */

import { canonicalJson, formatUtc } from "../../lib/index.ts";
import type { Json } from "../../model/index.ts";
import {
  line,
  transitionsOf,
  withTimes,
  type IModuleSource,
  type UntimedCondition,
} from "../../status/index.ts";
import { fits } from "../choose.ts";
import type { LockEntry, ModuleRequest } from "../types.ts";
import { FINAL, type Checked, type Held, type ModuleError } from "./entry/findings.ts";
import type { Source } from "../source-list.ts";
import type { Stock } from "../locked-modules.ts";
import { describeHeld } from "../pending-updates.ts";

type Status = NonNullable<IModuleSource["status"]>;

/** What the checks of one source have found. */
export interface Findings {
  /** Errors by module; undefined before the first check of this spec. */
  readonly errors: ReadonlyMap<string, ModuleError> | undefined;
  /** What waits, by module. */
  readonly held: Checked["held"];
  /** Times in milliseconds since the epoch. */
  readonly lastCheck: number | undefined;
  readonly nextCheck: number | undefined;
  /** Whether the registry answered; undefined before the first request. */
  readonly reachable: boolean | undefined;
  /** The token of the last request that was handled. */
  readonly token: string | undefined;
}

/** Before the first check. */
export const NOTHING_FOUND: Findings = {
  errors: undefined,
  held: new Map(),
  lastCheck: undefined,
  nextCheck: undefined,
  reachable: undefined,
  token: undefined,
};

const MOST_NAMED = 3;
const LONGEST_ERROR = 1000;

/** What a status is made from. */
interface Facts {
  readonly source: Source;
  readonly stock: Pick<Stock, "entries" | "content">;
  readonly findings: Findings;
  readonly now: number;
  readonly namespace: string;
}

/** The status of a source. Pure. */
export function statusOf(facts: Facts): Status {
  const { source, findings, now } = facts;
  const { object, spec } = source;
  const names = [...(spec?.modules.keys() ?? [])];
  const rows = names.map((name) => rowOf(name, facts));
  const inPlace = rows.filter(({ error }) => error === undefined).length;
  const { generation = 0 } = object.metadata;
  const before = transitionsOf(object.status?.conditions ?? []);
  const conditions = withTimes(conditionsOf(facts, rows), before, now);
  const { lastCheck, nextCheck, token } = findings;
  return {
    observedGeneration: generation,
    summary: `${inPlace}/${names.length}`,
    waiting: rows.filter(({ next }) => next !== undefined).length,
    ...(lastCheck === undefined ? {} : { lastCheck: formatUtc(lastCheck) }),
    ...(nextCheck === undefined ? {} : { nextCheck: formatUtc(nextCheck) }),
    ...(token === undefined ? {} : { lastHandledReconcileAt: token }),
    modules: rows.toSorted((a, b) => Number(b.error !== undefined) - Number(a.error !== undefined)),
    conditions: conditions.map((condition) => ({ ...condition, observedGeneration: generation })),
  };
}

/** Whether two statuses say the same; the transition times count too. */
export function sameStatus(a: Status | undefined, b: Status): boolean {
  return a !== undefined && canonicalJson(a as unknown as Json) === canonicalJson(b as unknown as Json);
}

type Row = NonNullable<Status["modules"]>[number];

function rowOf(name: string, facts: Facts): Row {
  const { source, stock, findings, namespace } = facts;
  const entry = stock.entries.get(name);
  const own = entry?.source === source.name ? entry : undefined;
  const held = findings.held.get(name);
  const next = held && nextOf(held, describeHeld(held, namespace, name));
  const error = errorOf(name, facts, own) ?? (own === undefined ? notYet(next) : undefined);
  return {
    name,
    ...(own && contentOf(own)),
    ...(error === undefined ? {} : { error: line(error).slice(0, LONGEST_ERROR) }),
    ...(next && { next }),
  };
}

function contentOf({ version, digest, verifiedBy, rejected }: LockEntry): Partial<Row> {
  return { version, digest, verifiedBy, ...(rejected && { rejected }) };
}

function notYet(next: Row["next"]): string {
  return next?.held ?? "waits for its first check";
}

/** Why the wanted content is not in place. */
function errorOf(
  name: string,
  { source, stock, findings }: Facts,
  own: LockEntry | undefined,
): string | undefined {
  const failure = findings.errors?.get(name);
  const request = source.spec?.modules.get(name);
  const problem = stock.content(name)?.problem;
  if (failure === undefined) return problem?.message;
  if (!onlyDelays(failure, own, request)) return failure.message;
  // Nothing is delayed where the content is missing: why it cannot be fetched is what helps.
  return problem?.reason === "SourceUnavailable"
    ? `${problem.message}: ${failure.message}`
    : problem?.message;
}

/** Whether a failure only delays news: what is locked is what the request may have. */
function onlyDelays(
  { reason }: ModuleError,
  own: LockEntry | undefined,
  request: ModuleRequest | undefined,
): boolean {
  const isDelay = reason === "CheckFailed" || reason === "Withdrawn";
  return isDelay && own !== undefined && request !== undefined && fits(request, own.version);
}

/** What waits. */
function nextOf({ version, digest, since, until }: Held, held: string): NonNullable<Row["next"]> {
  return {
    version,
    digest,
    since: formatUtc(since),
    held,
    ...(until === undefined ? {} : { until: formatUtc(until) }),
  };
}

function conditionsOf(facts: Facts, rows: readonly Row[]): UntimedCondition[] {
  const { source, findings } = facts;
  const ready = { type: "Ready", ...readyOf(source, rows, findings) } as const;
  const special = [...withdrawnOf(findings), ...rejectedOf(rows, facts)];
  return [ready, ...progressOf(source, ready, findings), ...special, reachableOf(findings)];
}

/** Modules that are back on the content before an update, because that failed. */
function rejectedOf(rows: readonly Row[], { stock, findings }: Facts): UntimedCondition[] {
  const back = rows.filter(({ name, version }) => version && stock.entries.get(name)?.isBack === true);
  if (back.length === 0) return [];
  const texts = back.map(({ name, version }) => {
    const why = findings.held.get(name)?.reason ?? "the update failed, and was rolled back";
    return { name, error: `${version} is in use again: ${why}` };
  });
  return [{ type: "Rejected", status: "True", reason: "RolledBack", message: line(listed(texts)) }];
}

/** What the registry does not have any more. */
function withdrawnOf({ errors }: Findings): UntimedCondition[] {
  const withdrawn = [...(errors ?? [])].filter(([, { reason }]) => reason === "Withdrawn");
  if (withdrawn.length === 0) return [];
  const message = line(listed(withdrawn.map(([name, { message: error }]) => ({ name, error }))));
  return [{ type: "Withdrawn", status: "True", reason: "Withdrawn", message }];
}

/** Stalled if a user has to act, else Reconciling; none if it is Ready. */
function progressOf(
  { problem }: Source,
  { status, reason, message }: UntimedCondition,
  { errors }: Findings,
): UntimedCondition[] {
  if (status === "True") return [];
  const isFinal = [...(errors?.values() ?? [])].some((each) => FINAL.has(each.reason));
  if (isFinal || problem !== undefined) return [{ type: "Stalled", status: "True", reason, message }];
  const progress = status === "Unknown" ? "Progressing" : "ProgressingWithRetry";
  return [{ type: "Reconciling", status: "True", reason: progress, message }];
}

const REACHABLE = {
  undefined: { status: "Unknown", reason: "NotAsked", message: "No request was necessary" },
  true: { status: "True", reason: "Answered", message: "The registry answered" },
  false: {
    status: "False",
    reason: "NoAnswer",
    message: "The registry did not answer; what is locked stays in force",
  },
} as const;

function reachableOf({ reachable }: Findings): UntimedCondition {
  return { type: "Reachable", ...REACHABLE[`${reachable}`] };
}

function readyOf(
  { spec, problem }: Source,
  rows: readonly Row[],
  { errors }: Findings,
): Pick<UntimedCondition, "status" | "reason" | "message"> {
  if (problem !== undefined) return { status: "False", reason: "Invalid", message: line(problem) };
  const suspended = spec?.suspend === true ? "; suspended: nothing is checked" : "";
  const bad = rows.filter(({ error }) => error !== undefined);
  if (bad.length === 0) {
    const message = `All ${rows.length} modules are verified and in place${suspended}`;
    return { status: "True", reason: "Ready", message };
  }
  const message = line(`${listed(bad)}${suspended}`);
  if (errors === undefined) return { status: "Unknown", reason: "Progressing", message };
  return { status: "False", reason: reasonOf(bad[0], errors), message };
}

/** The reason of a module that is not in place. */
function reasonOf(row: Row | undefined, errors: NonNullable<Findings["errors"]>): string {
  const otherwise = row?.next === undefined ? "SourceUnavailable" : "UpdateHeld";
  return errors.get(row?.name ?? "")?.reason ?? otherwise;
}

/** The first modules with their errors, in one line. */
function listed(bad: readonly Pick<Row, "name" | "error">[]): string {
  const more = bad.length > MOST_NAMED ? `; and ${bad.length - MOST_NAMED} more` : "";
  const texts = bad.slice(0, MOST_NAMED).map(({ name, error }) => `${name}: ${error}`);
  return `${texts.join("; ")}${more}`;
}
