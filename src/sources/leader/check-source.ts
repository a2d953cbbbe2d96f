/**
 * Checks one ModuleSource. The steps of each of its modules are in `#checkModule`: restore a lost entry of the lock, fetch locked
 * content that is missing on disk, roll a failed update back, choose the next content, and lock it or let it wait. The lock
 * records the content of each module that the operator uses; a waiting version is newer content that has to wait.
 */

import { isDeepStrictEqual } from "node:util";

import { oneLine, plainLine, sameJson } from "../../base/index.ts";
import type { Json } from "../../base/model/index.ts";
import { NotVerifiedError, RegistryError } from "../registry/index.ts";
import type { SourcesContext } from "../context.ts";
import type { RequestedContent, VerifiedContent } from "../disk/content.ts";
import type { RegistryAccess } from "../fetch/registry-access.ts";
import type { SourceEntry } from "../source-list.ts";
import { toChartContent } from "../source-spec.ts";
import type {
  Choice,
  LockEntry,
  ModuleError,
  ModuleRequest,
  WaitingVersion,
  ResolvedCandidate,
} from "../types.ts";
import { describeContentProblem } from "./check-content.ts";
import type { CheckState } from "./check-state.ts";
import { allowsVersion, chooseFromRegistry, toApproval } from "./choose.ts";
import {
  buildKeptEntry,
  buildRolledBackEntry,
  buildUpdatedEntry,
  describeBlockingUpdate,
  isSameChart,
  nameSigner,
  type SourceModule,
} from "./entry-marks.ts";
import { findRollbackReason, getApproval } from "./update-progress.ts";

/** What the check of one module has found. */
interface ModuleFinding {
  readonly error?: ModuleError | undefined;
  readonly waiting?: WaitingVersion | undefined;
}

/** Content that passes verification, but not the check with the values in force. */
class BlockedError extends Error {}

/** The registry has no version for the request. The locked content stays in use. */
class WithdrawnError extends Error {}

/**
 * Checks the modules of a source one after another, unless it is suspended, and records in `checkState` what it has found. A failure
 * of one module does not affect the others. Never throws.
 */
export async function checkSource(
  context: SourcesContext,
  source: SourceEntry,
  checkState: CheckState,
): Promise<void> {
  const { fetcher, reporter, sources } = context;
  const { name: sourceName, spec } = source;
  const isRequested = checkState.isRequested(source.object);
  const errors = new Map<string, ModuleError>();
  const waitingVersions = new Map<string, WaitingVersion>();
  let answerCode: string | undefined;
  if (isRequested && spec !== undefined) fetcher.endPauses(spec);
  if (spec !== undefined && !spec.suspend) {
    const registry = fetcher.open(spec, (code) => {
      reporter.onAnswer(sourceName, code);
      answerCode = code;
    });
    const check = new SourceCheck(context, source, registry, isRequested);
    const { waitingVersions: waitingBefore } = checkState.findings;
    try {
      for (const name of sources.listModules(sourceName)) {
        const request = spec.modules.get(name);
        if (request === undefined || !context.isStillRequested(source, name)) continue;
        const module = { source: sourceName, name, request, chart: toChartContent(spec, name, request) };
        const { error, waiting } = await check.run(module, waitingBefore.get(name));
        if (error !== undefined) errors.set(name, error);
        if (waiting !== undefined) waitingVersions.set(name, waiting);
      }
    } finally {
      await registry.close();
    }
  }
  checkState.record(context, source, { errors, waitingVersions, answerCode });
}

/** One check of a source, with its open registry. `before` is what waited for a module at the last check. */
class SourceCheck {
  readonly #context: SourcesContext;
  readonly #source: SourceEntry;
  readonly #registry: RegistryAccess;
  /** A user requests the check. */
  readonly #isRequested: boolean;

  constructor(context: SourcesContext, source: SourceEntry, registry: RegistryAccess, isRequested: boolean) {
    this.#context = context;
    this.#source = source;
    this.#registry = registry;
    this.#isRequested = isRequested;
  }

  /** Checks one module, and reports the result. Never throws. */
  async run(module: SourceModule, before: WaitingVersion | undefined): Promise<ModuleFinding> {
    const { lock, lockedModules, reporter } = this.#context;
    const { name, request } = module;
    let finding: ModuleFinding;
    try {
      const waiting = await this.#checkModule(module, before);
      finding = { waiting, error: findRollbackError(lock.entries.get(name), request, waiting) };
    } catch (error) {
      finding = { error: toModuleError(error) };
    }
    const isContentMissing = lockedModules.getContent(name)?.problem?.reason === "SourceUnavailable";
    reporter.onModuleChecked(name, finding.error, isContentMissing);
    return finding;
  }

  /**
   * Brings one module to the content that its source requests, as far as the update policy allows. Returns the newer content
   * that has to wait.
   */
  async #checkModule(
    module: SourceModule,
    before: WaitingVersion | undefined,
  ): Promise<WaitingVersion | undefined> {
    const { name, chart } = module;
    this.#context.blobStore.requireTrust(chart, this.#context.listKeys(name));
    await this.#restoreLostEntry(module);
    // The registry may have lost the locked content for good: a newer version can still replace it.
    const fetchFailure = await this.#fetchLockedContent(module).catch((error: unknown) => ({ error }));
    if (fetchFailure === undefined) await this.#rollBackFailedUpdate(module);
    const choice = await this.#chooseNext(module, before);
    if (choice.kind === "apply") {
      await this.#applyContent(module, choice.candidate);
      return undefined;
    }
    if (fetchFailure !== undefined) throw fetchFailure.error as Error;
    // The choice "keep" without a reason means that the locked content is the requested one.
    const withdrawal = choice.kind === "keep" ? choice.reason : undefined;
    await this.#keepContent(module, choice.kind === "keep" && withdrawal === undefined);
    const waiting = choice.kind === "wait" ? await this.#recordWaiting(name, choice, before) : undefined;
    this.#reportUnmatchedApproval(name, waiting);
    if (withdrawal !== undefined) throw new WithdrawnError(withdrawal);
    return waiting;
  }

  /**
   * Locks the content again from which the installed release was made, if the lock was lost: versions are not chosen again.
   * Does nothing if that content no longer exists.
   */
  async #restoreLostEntry(module: SourceModule): Promise<void> {
    const { options, lock, blobStore } = this.#context;
    const digest = options.releases.observed.getArtifactDigest(module.name);
    if (digest === undefined || lock.entries.has(module.name)) return;
    const installed = { version: undefined, digest, chart: module.chart };
    const content = await this.#fetch(module.name, installed).catch(ignoreMissingContent);
    if (content === undefined) return;
    const entry = buildUpdatedEntry(content, module, undefined, options.clock.now());
    await this.#lock(module.name, entry, await blobStore.unpack(content));
  }

  /** Fetches the locked content if it is missing on disk, for example after a restart with an empty volume. */
  async #fetchLockedContent(module: SourceModule): Promise<void> {
    const { lockedModules, reporter } = this.#context;
    const { name } = module;
    const hasContent = (): boolean => lockedModules.getContent(name)?.dir !== undefined;
    const locked = this.#findComparableEntry(module);
    if (locked === undefined || hasContent()) return;
    await this.#fetch(name, locked);
    await this.#context.commit(() => lockedModules.verifyAndUnpack(name));
    if (hasContent()) reporter.onRecovered(name);
  }

  /**
   * Rolls the lock back to the good content before a failed update, so that hooks and chart match the release, which helm has
   * rolled back. An update of a chart that the source does not name any more is not rolled back.
   */
  async #rollBackFailedUpdate(module: SourceModule): Promise<void> {
    const { name } = module;
    const failed = this.#findComparableEntry(module);
    const why = findRollbackReason(this.#context, name);
    if (failed?.previous === undefined || why === undefined) return;
    const { content, dir } = await this.#fetchAndTest(
      module,
      { ...failed.previous, chart: failed.chart },
      (version) => `${failed.version} failed, and ${version} cannot be used again`,
    );
    const next = buildRolledBackEntry(content, module, failed, this.#context.options.clock.now());
    if (await this.#lock(name, next, dir))
      this.#context.reporter.onUpdateRejected(name, next, { version: failed.version, why });
  }

  /** Chooses the content of a module from what the registry has, the request, the update policy and other updates in progress. */
  #chooseNext(module: SourceModule, before: WaitingVersion | undefined): Promise<Choice> {
    const { options, lock, reporter } = this.#context;
    const { name, source, request, chart } = module;
    const update = this.#source.spec?.update;
    const { entries } = lock;
    const locked = this.#findComparableEntry(module);
    // Verified before: they are not fetched again only to learn their version.
    const earlierContents = [locked, locked?.seen, before];
    return chooseFromRegistry({
      name,
      request,
      locked,
      update,
      registry: this.#registry,
      timeZone: options.timeZone,
      now: options.clock.now(),
      approved: getApproval(this.#context, name),
      // A first installation does not wait for other updates.
      blocker: entries.has(name) ? describeBlockingUpdate(entries, module, update?.parallel ?? 1) : undefined,
      verifiedContents: earlierContents.filter((each) => each !== undefined),
      onMirrorSkipped: (error) => reporter.onMirrorSkipped(source, name, oneLine(error)),
      fetchVersion: async (content) => (await this.#fetch(name, { ...content, chart })).version,
    });
  }

  /** Fetches and tests new content, and locks it, which puts it into use. The state then forgets a user's approval of it. */
  async #applyContent(module: SourceModule, candidate: ResolvedCandidate): Promise<void> {
    const { options, lock, reporter } = this.#context;
    const { name, chart } = module;
    const { version, digest } = candidate;
    const { content, dir } = await this.#fetchAndTest(module, { version, digest, chart });
    const locked = lock.entries.get(name);
    const next = buildUpdatedEntry(content, module, locked, options.clock.now());
    if (!(await this.#lock(name, next, dir))) return;
    const approval = toApproval(candidate);
    if (getApproval(this.#context, name) === approval) reporter.onApproved(name, next.version);
    reporter.onLocked(name, next, locked);
    options.state.recordModule(name, "confirmationEnded", "confirmedUpdate", approval);
  }

  /**
   * Updates the entry of a module whose content stays: order, flag and chart settings as the request has them now. New chart
   * settings pass the same tests as new content, because they change what the operator applies.
   */
  async #keepContent(module: SourceModule, isRequested: boolean): Promise<void> {
    const { name, chart } = module;
    const locked = this.#findComparableEntry(module);
    if (locked === undefined || this.#context.lockedModules.getContent(name)?.dir === undefined) return;
    const next = buildKeptEntry(locked, module, isRequested);
    if (isDeepStrictEqual(next, locked)) return;
    if (sameJson(chart as Json | undefined, locked.chart as Json | undefined)) {
      await this.#lock(name, next);
      return;
    }
    const { content, dir } = await this.#fetchAndTest(module, { ...locked, chart });
    await this.#lock(name, { ...next, verifiedBy: nameSigner(content) }, dir);
  }

  /**
   * Records newer content that has to wait, and reports it when it is found first. The lock keeps that time, because the age
   * may decide when the content is used; for a module that is not locked, only the findings of the last check have it.
   */
  async #recordWaiting(
    name: string,
    { candidate, waitsFor, reason, until }: Choice & { kind: "wait" },
    before: WaitingVersion | undefined,
  ): Promise<WaitingVersion> {
    const { options, lock, reporter } = this.#context;
    const { version, digest } = candidate;
    const locked = lock.entries.get(name);
    const seenBefore = locked === undefined ? before : locked.seen;
    const isKnown = seenBefore?.digest === digest;
    const since = isKnown ? seenBefore.since : options.clock.now();
    const waiting: WaitingVersion = { ...candidate, since, until, waitsFor, reason };
    if (isKnown) return waiting;
    if (locked !== undefined) await this.#lock(name, { ...locked, seen: { version, digest, since } });
    reporter.onUpdateWaits(name, waiting);
    return waiting;
  }

  /** Reports a user's approval of content that is neither in use nor waits, such as of an earlier update. */
  #reportUnmatchedApproval(name: string, waiting: WaitingVersion | undefined): void {
    const { lock, reporter } = this.#context;
    const approval = getApproval(this.#context, name);
    const locked = lock.entries.get(name);
    const known = [locked, waiting].filter((each) => each !== undefined).map(toApproval);
    if (approval === undefined || known.includes(approval)) reporter.onApprovalMatched(name);
    else reporter.onApprovalUnmatched(name, approval, waiting && toApproval(waiting));
  }

  /** The locked entry, unless the request names another chart: versions of different charts cannot be compared. */
  #findComparableEntry({ name, chart }: SourceModule): LockEntry | undefined {
    const locked = this.#context.lock.entries.get(name);
    return isSameChart(locked?.chart, chart) ? locked : undefined;
  }

  /** Verifies content with the keys of the source. Fetches what the disk does not have, unless it was refused before. */
  #fetch(name: string, { version, digest, chart }: Omit<RequestedContent, "name">): Promise<VerifiedContent> {
    const { fetcher, reporter } = this.#context;
    return fetcher.fetch(
      { name, version, digest, chart },
      {
        registry: this.#registry,
        isRequested: this.#isRequested,
        keys: this.#context.listKeys(name),
        onFetched: (bytes) => reporter.onFetched(bytes),
        onNotVerified: (message) => reporter.onNotVerified(this.#source.name, name, message),
      },
    );
  }

  /**
   * Fetches, verifies and unpacks content, and tests it with the values in force. Throws BlockedError if the operator cannot use
   * it; `describeFailure` begins its message.
   */
  async #fetchAndTest(
    { name, request }: SourceModule,
    wanted: Omit<RequestedContent, "name">,
    describeFailure = (version: string): string => `version ${version} is not used`,
  ): Promise<{ readonly content: VerifiedContent; readonly dir: string }> {
    const content = await this.#fetch(name, wanted);
    const dir = await this.#context.blobStore.unpack(content);
    const problem = await describeContentProblem(this.#context, { name, order: request.order, dir });
    if (problem !== undefined) throw new BlockedError(`${describeFailure(content.version)}: ${problem}`);
    return { content, dir };
  }

  /**
   * Writes the entry of a module into the lock, unless the source was edited meanwhile: then returns false, and the next check
   * decides for the new spec. `dir` has the unpacked content; without it, the content stays.
   */
  async #lock(name: string, entry: LockEntry, dir?: string): Promise<boolean> {
    let isWritten = false;
    await this.#context.commit(async () => {
      if (!this.#context.isStillRequested(this.#source, name)) return;
      await this.#context.lockedModules.writeEntry(name, entry, dir);
      isWritten = true;
    });
    return isWritten;
  }
}

/** Ignores that the registry no longer has the content, or that no key accepts it; throws all other errors again. */
function ignoreMissingContent(error: unknown): undefined {
  const isMissing = error instanceof RegistryError && error.status === 404;
  if (!isMissing && !(error instanceof NotVerifiedError)) throw error;
}

/** To wait is an error, too, if a failed update was rolled back to a version that the source does not request. */
function findRollbackError(
  locked: LockEntry | undefined,
  request: ModuleRequest,
  waiting: WaitingVersion | undefined,
): ModuleError | undefined {
  if (locked?.isBack !== true || waiting === undefined || allowsVersion(request, locked.version))
    return undefined;
  return { reason: "Blocked", message: `${waiting.reason}; ${locked.version} is in use again` };
}

/** Turns an error of a check into the reason and the line that the status displays. */
function toModuleError(error: unknown): ModuleError {
  // The error may quote what a registry answers: one line without control characters, of limited length.
  const message = plainLine(oneLine(error, 1000), 1000);
  if (error instanceof BlockedError) return { reason: "Blocked", message };
  if (error instanceof WithdrawnError) return { reason: "Withdrawn", message };
  return { reason: error instanceof NotVerifiedError ? "NotVerified" : "CheckFailed", message };
}
