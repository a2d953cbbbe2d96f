/** Checks one ModuleSource: fetches, verifies and tests the content of its modules, and locks content that passes. */

import { isDeepStrictEqual } from "node:util";

import { oneLine, plainLine } from "../../lib/index.ts";
import { NotVerifiedError, type Signer } from "../../registry/index.ts";
import { Access, type AccessOptions } from "../fetch/registry-access.ts";
import { obtain, type Obtained, type Refused } from "../fetch/fetch-content.ts";
import { entryOf } from "../disk/module-links.ts";
import { RefusedError, type Wanted } from "../disk/content.ts";
import type { BlobStore } from "../disk/blob-store.ts";
import { approvalOf } from "../choose.ts";
import { chartOf, isSameChart, isSamePlace } from "../fetch/location.ts";
import { keysFor, type Source } from "../source-list.ts";
import type { Stock } from "../locked-modules.ts";
import type { Checked, Held, ModuleError } from "./entry/findings.ts";
import { contentOf, stayed, taken, unrequestedReturn } from "./entry/next-entry.ts";
import { BlockedError, goBack, relock, type Returning, type CandidateContent } from "./entry/roll-back.ts";
import type { ChartContent, Choice, Complete, Lock, LockEntry, ModuleRequest } from "../types.ts";
import { chooseNext } from "./choose-from-registry.ts";
import { updatesBefore } from "./update-progress.ts";

/** What a check needs. */
export interface CheckTools {
  readonly stock: Stock;
  readonly store: BlobStore;
  readonly access: AccessOptions;
  /** All keys of the installer. */
  readonly keys: () => readonly Signer[];
  /** Most bytes of blobs on disk. */
  readonly mostBytes: number;
  /** Why the content must not be used, in one line. */
  readonly problemOf: (content: CandidateContent) => Promise<string | undefined>;
  /** Whether the source still names the module in this way: it may have changed during the check. */
  readonly isCurrent: (source: Source, name: string) => boolean;
  /** Changes lock and content, while nothing else does, and then publishes both. */
  readonly commit: (work: () => Promise<void>) => Promise<void>;
  /** Digests that were refused, with the keys at that time. */
  readonly refused: Refused;
  readonly report: {
    answered(source: string, code: string): void;
    /** Called with the lock whenever that may have changed. */
    contents(lock: Lock): void;
    fetched(bytes: number): void;
    notVerified(source: string, module: string, message: string): void;
    locked(module: string, entry: LockEntry, before: LockEntry | undefined): void;
    recovered(module: string): void;
    held(module: string, held: Held): void;
    approved(module: string, version: string): void;
    rejected(
      module: string,
      now: LockEntry,
      failed: { readonly version: string; readonly why: string },
    ): void;
    /** `isWithout`: the locked content cannot be used, because it is not on disk. */
    checked(module: string, error: ModuleError | undefined, isWithout: boolean): void;
  };
  /** The digest from which the installed release was made, if that is known. */
  readonly installedOf: (module: string) => string | undefined;
  /** Why the update that is in use has failed; undefined if it has not. */
  readonly failureOf: (module: string) => string | undefined;
  /** What a user has approved: `VERSION@DIGEST`. */
  readonly approvedOf: (module: string) => string | undefined;
  /** Ends an approval whose content is in force. */
  readonly approvalUsed: (module: string, approval: string) => void;
  /** What waited for the module at the last check. */
  readonly heldOf: (source: string, module: string) => Held | undefined;
  /** The operator's time zone. */
  readonly zone: string;
  readonly now: () => number;
}

/** Checks all modules that this source provides. A failure of one does not affect the others. Never throws. */
export async function checkSource(
  tools: CheckTools,
  source: Source,
  names: readonly string[],
): Promise<Checked> {
  const found = { errors: new Map<string, ModuleError>(), held: new Map<string, Held>() };
  const { spec } = source;
  if (spec === undefined) return found;
  const access = new Access(tools.access, spec, (code) => tools.report.answered(source.name, code));
  try {
    for (const name of names) {
      const request = spec.modules.get(name);
      if (request === undefined || !tools.isCurrent(source, name)) continue;
      const chart = chartOf(spec, name, request);
      const check = { ...tools, source, name, request, chart, registry: access };
      await recordModule(check, found);
    }
  } finally {
    await access.close();
  }
  return found;
}

/** Checks one module, and records the result. Never throws. */
async function recordModule(
  check: Check,
  { errors, held }: { readonly errors: Map<string, ModuleError>; readonly held: Map<string, Held> },
): Promise<void> {
  const { name, request, stock, report } = check;
  try {
    const waiting = await checkModule(check);
    if (waiting !== undefined) held.set(name, waiting);
    const back = unrequestedReturn(stock.entries.get(name), request);
    if (waiting !== undefined && back !== undefined)
      errors.set(name, { reason: "Blocked", message: `${waiting.reason}; ${back} is in use again` });
  } catch (error) {
    errors.set(name, errorOf(error));
  }
  const isWithout = stock.content(name)?.problem?.reason === "SourceUnavailable";
  report.checked(name, errors.get(name), isWithout);
}

/** The registry does not have what is requested; what is locked stays. */
class WithdrawnError extends Error {}

function errorOf(error: unknown): ModuleError {
  // What a registry answers may be quoted in it.
  const message = plainLine(oneLine(error, 1000), 1000);
  if (error instanceof BlockedError) return { reason: "Blocked", message };
  if (error instanceof WithdrawnError) return { reason: "Withdrawn", message };
  const isRefused = error instanceof NotVerifiedError || error instanceof RefusedError;
  return { reason: isRefused ? "NotVerified" : "CheckFailed", message };
}

/** One module of a check. */
interface Check extends CheckTools {
  readonly source: Source;
  readonly name: string;
  readonly request: ModuleRequest;
  /** The chart that the request names, if it names one. */
  readonly chart: ChartContent | undefined;
  readonly registry: Access;
}

/** Throws NotVerifiedError if no key or identity of the installer counts for this source. */
function requireTrust(check: Check): void {
  check.store.requireTrust(check.chart);
  if (check.chart?.unsigned !== true && keysOf(check).length === 0)
    throw new NotVerifiedError(
      "the installer names no key or identity for this source, so no module is accepted (--source-keys)",
    );
}

/** Returns what waits. */
async function checkModule(check: Check): Promise<Held | undefined> {
  requireTrust(check);
  const returning: Returning = {
    ...check,
    obtain: (wanted, chart) => obtainFor(check, wanted, chart),
    commit: (entry, dir) => commitEntry(check, entry, dir),
  };
  await relock(returning);
  // Locked content may be lost for good: other content may come into force nevertheless.
  const incomplete = await completeLocked(check).catch((error: unknown) => ({ error }));
  if (incomplete === undefined && lockedOf(check) !== undefined) await goBack(returning);
  const choice = withParallelLimit(check, await nextOf(check));
  if (choice.kind === "take") {
    await take(check, choice.candidate);
    return undefined;
  }
  if (incomplete !== undefined) throw incomplete.error as Error;
  await takeTerms(check, choice);
  if (choice.kind === "hold") return hold(check, choice);
  if (choice.kind === "keep" && choice.reason !== undefined) throw new WithdrawnError(choice.reason);
  return undefined;
}

/** Defers an update while another one of the source is under way, unless it is approved. */
function withParallelLimit(check: Check, choice: Choice): Choice {
  const { name, stock, source, approvedOf } = check;
  if (choice.kind !== "take" || !stock.entries.has(name)) return choice;
  const { candidate } = choice;
  if (approvedOf(name) === approvalOf(candidate)) return choice;
  const parallel = source.spec?.update?.parallel ?? 1;
  const before = updatesBefore(stock.entries, { module: name, source: source.name, parallel });
  return before === undefined
    ? choice
    : { kind: "hold", candidate, waitsFor: "turn", reason: `${candidate.version} waits ${before}` };
}

function nextOf(check: Check): Promise<Choice> {
  const { name, source, request, registry, zone, heldOf, approvedOf } = check;
  const locked = lockedOf(check);
  return chooseNext({
    name,
    request,
    registry,
    zone,
    locked,
    now: check.now(),
    update: source.spec?.update,
    approved: approvedOf(name),
    known: [locked ?? [], locked?.seen ?? [], heldOf(source.name, name) ?? []].flat(),
    verify: async (content) => (await obtainFor(check, content, check.chart)).version,
  });
}

/** What is locked, unless it is another chart than the request names: versions of different charts cannot be compared. */
function lockedOf({ stock, name, chart }: Check): LockEntry | undefined {
  const locked = stock.entries.get(name);
  return isSamePlace(locked?.chart, chart) ? locked : undefined;
}

/** Records when newer content was first seen. */
async function hold(
  check: Check,
  { candidate, waitsFor, reason, until }: Choice & { kind: "hold" },
): Promise<Held> {
  const { name, source, stock, heldOf, now } = check;
  const { version, digest } = candidate;
  const locked = stock.entries.get(name);
  const before = locked === undefined ? heldOf(source.name, name) : locked.seen;
  const since = before?.digest === digest ? before.since : now();
  const held: Held = { ...candidate, since, until, waitsFor, reason };
  if (before?.digest === digest) return held;
  if (locked !== undefined) await commitEntry(check, { ...locked, seen: { version, digest, since } });
  check.report.held(name, held);
  return held;
}

/** Takes over order, flag and settings of a module whose content stays. */
async function takeTerms(check: Check, choice: Choice): Promise<void> {
  const { stock, source, name, request, chart } = check;
  const locked = lockedOf(check);
  if (locked === undefined || stock.content(name)?.dir === undefined) return;
  const isRequested = choice.kind === "keep" && choice.reason === undefined;
  const next = stayed(locked, { source: source.name, request, chart, isRequested });
  if (isDeepStrictEqual(next, locked)) return;
  if (isSameChart(next.chart, locked.chart)) return commitEntry(check, next);
  const { found, dir } = await tried(check, locked);
  const { verifiedBy } = contentOf(found, { source: source.name, at: locked.at });
  await commitEntry(check, { ...next, verifiedBy }, dir);
}

/** Fetches the content that is locked and not on disk. */
async function completeLocked(check: Check): Promise<void> {
  const { stock, name } = check;
  const locked = lockedOf(check);
  if (locked === undefined || stock.content(name)?.dir !== undefined) return;
  await obtainFor(check, locked, locked.chart);
  await check.commit(() => stock.stage(name, keysOf(check)));
  if (stock.content(name)?.dir !== undefined) check.report.recovered(name);
}

/** Puts new content into use, after it was verified, fetched, tested and locked. */
async function take(check: Check, candidate: Complete): Promise<void> {
  const { name, stock, approvedOf, report } = check;
  const { found, dir } = await tried(check, candidate);
  const locked = stock.entries.get(name);
  const next = taken(contentOf(found, { source: check.source.name, at: check.now() }), check.request, locked);
  await commitEntry(check, next, dir);
  const approval = approvalOf(candidate);
  if (approvedOf(name) === approval) report.approved(name, next.version);
  report.locked(name, next, locked);
  check.approvalUsed(name, approval);
}

/** Content that has passed verification and the check with the values in force. */
async function tried(
  check: Check,
  { version, digest }: Complete | LockEntry,
): Promise<{ readonly found: Obtained; readonly dir: string }> {
  const { name, stock, store, request } = check;
  const found = await obtainFor(check, { version, digest }, check.chart);
  const dir = await store.unpack(found);
  const entry = entryOf({ name, order: request.order });
  const problem = await check.problemOf({ name, entry, dir, isUpdate: stock.entries.has(name) });
  if (problem !== undefined) throw new BlockedError(`version ${found.version} is not used: ${problem}`);
  return { found, dir };
}

async function commitEntry(check: Check, entry: LockEntry, dir?: string): Promise<void> {
  await check.commit(async () => {
    if (check.isCurrent(check.source, check.name)) await check.stock.lock(check.name, entry, dir);
  });
}

function obtainFor(
  check: Check,
  { version, digest }: Pick<Wanted, "version" | "digest">,
  chart: ChartContent | undefined,
): Promise<Obtained> {
  const { name, source, report } = check;
  const fetching = {
    ...check,
    keys: keysOf(check),
    fetched: (bytes: number) => report.fetched(bytes),
    notVerified: (message: string) => report.notVerified(source.name, name, message),
  };
  return obtain(fetching, { name, version, digest, ...(chart && { chart }) }, check.refused);
}

function keysOf({ keys, source }: Check): readonly Signer[] {
  return keysFor(keys(), source.spec);
}
