/** Reports what checks of ModuleSources find as Events, log lines and metrics. Statuses are written elsewhere. */

import { plainLine, type Logger } from "../../base/index.ts";
import type { Metrics, Report } from "../../report/metrics/index.ts";
import { APPROVE_UPDATE } from "../../engine/state/index.ts";
import type { OperatorEvent } from "../../report/index.ts";
import type { Lock, LockEntry, ModuleError, WaitingVersion } from "../types.ts";

const MAX_MIRROR_ERRORS = 1000;

interface ReporterOptions {
  readonly metrics: Metrics;
  readonly report: Pick<Report, "announce">;
  readonly logger: Logger;
}

/** Functions that a check calls when something happened to a module or a registry answered. */
export class CheckReporter {
  readonly #options: ReporterOptions;
  readonly #lastReasons = new Map<string, string>();
  readonly #digestsInSeries = new Map<string, string>();
  readonly #failingSources = new Set<string>();
  readonly #mirrorErrors = new Map<string, string>();
  /** Of each module, the approval without effect that was reported last. */
  readonly #unmatchedApprovals = new Map<string, string>();

  constructor(options: ReporterOptions) {
    this.#options = options;
  }

  onAnswer(source: string, code: string): void {
    this.#options.metrics.add("sourceRequests", { source, code });
  }

  /** Keeps one series for each locked module, with its version and digest as labels. Called whenever the lock may have changed. */
  onLockChanged(lock: Lock): void {
    const { metrics } = this.#options;
    for (const [module, digest] of this.#digestsInSeries) {
      if (lock.get(module)?.digest === digest) continue;
      metrics.dropSeries({ module }, ["sourceModule"]);
      this.#digestsInSeries.delete(module);
    }
    for (const [module, { version, digest }] of lock) {
      if (this.#digestsInSeries.has(module)) continue;
      metrics.set("sourceModule", { module, version, digest }, 1);
      this.#digestsInSeries.set(module, digest);
    }
  }

  onFetched(bytes: number): void {
    this.#options.metrics.add("sourceFetched", {}, bytes);
  }

  onNotVerified(source: string, module: string, message: string): void {
    const { metrics, report, logger } = this.#options;
    metrics.add("sourceVerifyFailures", { source, module });
    report.announce({ module, reason: "NotVerified", note: message });
    logger.error("Content of a module is refused", { module, source, error: message });
  }

  /** The check of a source has ended; `failures` are modules whose newer content could not be looked up. Reported once while checks fail. */
  onSourceChecked(source: string, failures: ReadonlyMap<string, ModuleError>): void {
    const { metrics, report, logger } = this.#options;
    const wasFailing = this.#failingSources.delete(source);
    metrics.set("sourceCheckFailed", { source }, failures.size > 0 ? 1 : 0);
    const [first] = failures;
    if (first === undefined) {
      if (wasFailing) logger.info("A ModuleSource can be checked again", { source });
      return;
    }
    this.#failingSources.add(source);
    if (wasFailing) return;
    const [module, { message }] = first;
    const more = failures.size > 1 ? `, and ${failures.size - 1} more` : "";
    logger.warn("A ModuleSource cannot be checked", {
      source,
      modules: failures.size,
      module,
      error: message,
    });
    const note = `ModuleSource ${source} cannot be checked: ${module}${more}: ${message}`;
    report.announce({ module: undefined, reason: "SourceCheckFailed", note });
  }

  /** What a mirror offers cannot be used, and the next mirror or the registry is asked. Logged once for each error. */
  onMirrorSkipped(source: string, module: string, message: string): void {
    if (this.#mirrorErrors.get(`${source} ${module}`) === message) return;
    if (this.#mirrorErrors.size >= MAX_MIRROR_ERRORS) this.#mirrorErrors.clear();
    this.#mirrorErrors.set(`${source} ${module}`, message);
    const fields = { module, source, error: message };
    this.#options.logger.warn("What a mirror offers is not used; the next one is asked", fields);
  }

  /** New content is in use; `before` is the entry that it replaced, undefined at a first installation. */
  onLocked(module: string, { version, digest, source }: LockEntry, before: LockEntry | undefined): void {
    const from = before === undefined ? "" : `, before it ${before.version}`;
    const note = `version ${version} of ModuleSource ${source} is in place${from}`;
    this.#options.report.announce({ module, reason: "SourceUpdated", note });
    this.#options.logger.info("Content of a module is locked", { module, source, version, digest });
  }

  onUpdateWaits(module: string, { version, digest, reason }: WaitingVersion): void {
    this.#options.report.announce({ module, reason: "UpdateHeld", note: reason });
    this.#options.logger.info("An update of a module waits", { module, version, digest, reason });
  }

  onApproved(module: string, version: string): void {
    const note = `version ${version} is used now: it was approved`;
    this.#options.report.announce({ module, reason: "UpdateApproved", note });
  }

  /** A user's approval names content that does not wait. Reported once for each approval and waiting content. */
  onApprovalUnmatched(module: string, approval: string, waiting: string | undefined): void {
    const found = waiting === undefined ? "no update waits" : `${waiting} waits`;
    const note = `the annotation ${APPROVE_UPDATE} approves ${plainLine(approval)}, but ${found}`;
    if (this.#unmatchedApprovals.get(module) === note) return;
    this.#unmatchedApprovals.set(module, note);
    this.#options.report.announce({ module, reason: "ApprovalUnmatched", note });
    this.#options.logger.warn("An approval of an update matches nothing", { module, approval, waiting });
  }

  onApprovalMatched(module: string): void {
    this.#unmatchedApprovals.delete(module);
  }

  /** The update to the version `failed` was rolled back, and the lock has this earlier entry again. */
  onUpdateRejected(
    module: string,
    { version, source }: LockEntry,
    { version: failed, why }: { readonly version: string; readonly why: string },
  ): void {
    const note = `version ${failed} of ModuleSource ${source} failed, and ${version} is in use again: ${why}`;
    const fields = { module, source, failed, version };
    this.#options.report.announce({ module, reason: "UpdateRejected", note });
    this.#options.logger.warn(
      "An update of a module failed, and the content before it is in use again",
      fields,
    );
  }

  onRecovered(module: string): void {
    const note = "the locked content is in place again";
    this.#options.report.announce({ module, reason: "SourceRecovered", note });
  }

  /** `isContentMissing`: the locked content is not on disk, so the module has none. */
  onModuleChecked(module: string, error: ModuleError | undefined, isContentMissing: boolean): void {
    const event = toCheckEvent(error, isContentMissing);
    // Each check of a module without content has the same result: one Event is enough.
    if (event !== undefined && this.#lastReasons.get(module) !== event.reason)
      this.#options.report.announce({ module, ...event });
    this.#lastReasons.set(module, event?.reason ?? "");
  }
}

/** The Event for a module whose content is missing or withdrawn. Content that fails verification has its own Event. */
function toCheckEvent(
  error: ModuleError | undefined,
  isContentMissing: boolean,
): Pick<OperatorEvent, "reason" | "note"> | undefined {
  if (isContentMissing)
    return { reason: "SourceUnavailable", note: error?.message ?? "the locked content is not on disk" };
  return error?.reason === "Withdrawn" ? { reason: "Withdrawn", note: error.message } : undefined;
}
