/** What the leader remembers of a ModuleSource between its checks: what the last one has found, and when the next one is due. */

import { exponentialDelay } from "../../base/index.ts";
import { REQUESTED_AT } from "../../base/model/index.ts";
import type { IModuleSource } from "../../report/index.ts";
import type { SourcesContext } from "../context.ts";
import { isForLackOfKeys } from "../disk/blob-store.ts";
import { identifySpec, type SourceEntry } from "../source-list.ts";
import type { CheckFindings, ModuleError, WaitingVersion } from "../types.ts";
import {
  FINDINGS_BEFORE_CHECK,
  parseStoredErrors,
  readStoredErrors,
  type RegistryAnswerKind,
  type SourceFindings,
} from "./source-status.ts";

/** The delays after failed checks in a row. */
export const CHECK_RETRY = { firstMs: 5000, maxMs: 600_000 };
/** An interval varies by this share, so that operators do not ask a registry at the same moment. */
const JITTER = 0.1;
const MIN_WAIT_MS = 1000;
/**
 * The first check of a source waits until the first converge has ended, at most for this time: a restart runs modules with
 * the locked content, and neither requests to registries nor their results delay it.
 */
export const MAX_START_DELAY_MS = 10_000;

const MAX_TOKEN_CHARS = 256;

/** What a check of a source has found. */
interface CheckResult extends CheckFindings {
  /** The status of the last answer of the registry, `error` without an answer; undefined if it got no request. */
  readonly answerCode: string | undefined;
}

/** What the last check of a source has found, and about what. */
export class CheckState {
  findings = FINDINGS_BEFORE_CHECK;
  /** The spec that was checked last (`identifySpec`). */
  checkedSpec: string | undefined;
  /** The modules that the source provides, as text; undefined before it was seen. */
  modules: string | undefined;
  /** Checks in a row that failed. */
  #failures = 0;

  /**
   * Whether a user requests a check by an annotation. A token of the annotation was handled if this process or, as the status
   * says, an earlier leader has checked for it.
   */
  isRequested(object: IModuleSource): boolean {
    const token = readCheckToken(object);
    const handled = [this.findings.handledToken, object.status?.lastHandledReconcileAt];
    return token !== undefined && !handled.includes(token);
  }

  /**
   * Records what a check has found, the time of the next one, the checked spec, and the token of the annotation by which a user
   * requested this check. Reports whether the source could be checked.
   */
  record(context: SourcesContext, source: SourceEntry, found: CheckResult): void {
    const { options, lockedModules, fetcher, reporter } = context;
    const { object, spec, name } = source;
    const { waitingVersions, answerCode } = found;
    const checkedSpec = identifySpec(object);
    const failures = new Map([...found.errors].filter(([, { reason }]) => reason === "CheckFailed"));
    const errors =
      spec?.suspend === true
        ? findSuspendedErrors(context, source, this.findings)
        : keepConfirmedErrors(context, found.errors, this.#findEarlierErrors(object, checkedSpec));
    const isFailed = failures.size > 0;
    this.#failures = isFailed ? this.#failures + 1 : 0;
    const now = options.clock.now();
    reporter.onSourceChecked(name, failures);
    if (!isFailed) options.metrics.set("sourceLastSuccess", { source: name }, now / 1000);
    for (const [module, { reason }] of waitingVersions) lockedModules.recordError(module, reason);
    for (const [module, { message }] of errors) lockedModules.recordError(module, message);
    const nextCheck = computeNextCheck({
      intervalMs: spec?.intervalMs,
      failures: this.#failures,
      pausedUntil: isFailed && spec !== undefined ? fetcher.findPauseEnd(spec) : undefined,
      waitingVersions: waitingVersions.values(),
      now,
    });
    this.findings = {
      errors: new Map([...findOverriddenModules(context, source), ...errors]),
      failures,
      waitingVersions,
      lastCheck: now,
      nextCheck,
      answer: answerCode === undefined ? this.findings.answer : classifyAnswer(answerCode),
      handledToken: readCheckToken(object) ?? object.status?.lastHandledReconcileAt,
    };
    this.checkedSpec = checkedSpec;
  }

  /** The errors of the last check of this spec: by this process, or by an earlier one, which wrote them into the status. */
  #findEarlierErrors(object: IModuleSource, checkedSpec: string): ReadonlyMap<string, ModuleError> {
    if (this.checkedSpec === undefined) return readStoredErrors(object);
    return this.checkedSpec === checkedSpec ? (this.findings.errors ?? new Map()) : new Map();
  }
}

/** The value of the annotation with which a user requests a check; the status repeats it once the check is done. */
function readCheckToken({ metadata }: IModuleSource): string | undefined {
  return metadata.annotations?.[REQUESTED_AT]?.slice(0, MAX_TOKEN_CHARS);
}

/** The errors that the registry confirmed before the source was suspended: without a check, nothing shows that they have ended. */
function findSuspendedErrors(
  context: SourcesContext,
  { name: source, object }: SourceEntry,
  findings: SourceFindings,
): ReadonlyMap<string, ModuleError> {
  const modules = context.sources.listModules(source);
  const earlier = findings.errors ?? parseStoredErrors(object);
  return new Map(
    [...earlier].filter(([name, error]) => modules.includes(name) && isConfirmed(context, name, error)),
  );
}

/** What an answer of a registry says about it: with a 5xx status it does not work. `code` is `error` without an answer. */
function classifyAnswer(code: string): RegistryAnswerKind {
  if (code === "error" || code.startsWith("5")) return "none";
  return REFUSAL_CODES.has(code) ? "refused" : "answered";
}

/** Statuses with which a registry refuses all requests of a user or an address. */
const REFUSAL_CODES: ReadonlySet<string> = new Set(["401", "403", "407", "429"]);

/** Errors by which the registry has confirmed that newer content cannot be used. */
const CONFIRMED_REASONS: ReadonlySet<ModuleError["reason"]> = new Set([
  "NotVerified",
  "Blocked",
  "Withdrawn",
]);

/** Whether an error stays until a check finds another result. One for lack of keys ends as soon as the installer names some. */
function isConfirmed(context: SourcesContext, module: string, { reason, message }: ModuleError): boolean {
  const isOutdated = isForLackOfKeys(message) && context.listKeys(module).length > 0;
  return CONFIRMED_REASONS.has(reason) && !isOutdated;
}

/**
 * Keeps an error that the registry has confirmed while checks fail: a registry that is away has not taken back the content
 * that was refused.
 */
function keepConfirmedErrors(
  context: SourcesContext,
  errors: ReadonlyMap<string, ModuleError>,
  earlierErrors: ReadonlyMap<string, ModuleError>,
): ReadonlyMap<string, ModuleError> {
  return new Map(
    [...errors].map(([name, error]) => {
      const earlier = earlierErrors.get(name);
      const isKept =
        error.reason === "CheckFailed" && earlier !== undefined && isConfirmed(context, name, earlier);
      return [name, isKept ? earlier : error];
    }),
  );
}

/**
 * Finds the modules that a source names, but that a modules directory or an older source provides. The status of the source
 * reports them, because their entry in the source has no effect.
 */
function findOverriddenModules(
  { sources, options }: SourcesContext,
  { name, spec }: SourceEntry,
): [module: string, error: ModuleError][] {
  const errors: [string, ModuleError][] = [];
  for (const module of spec?.modules.keys() ?? []) {
    const provider = sources.requested.get(module)?.source;
    const isInDirectory = options.state.tree.modules.some(
      (each) => each.name === module && each.origin === undefined,
    );
    const isNamedByOlder = provider !== undefined && provider !== name;
    if (!isInDirectory && !isNamedByOlder) continue;
    const message = isInDirectory
      ? "a modules directory has a module of this name, which comes first"
      : `the older ModuleSource ${provider} names it, too`;
    errors.push([module, { reason: "Overridden", message }]);
  }
  return errors;
}

/** What the time of the next check depends on. */
interface NextCheckInput {
  /** Undefined while the spec is invalid. */
  readonly intervalMs: number | undefined;
  /** Checks in a row that failed. */
  readonly failures: number;
  /** When a pause ends that the registry asks for; undefined without one. */
  readonly pausedUntil?: number | undefined;
  readonly waitingVersions: Iterable<Pick<WaitingVersion, "until">>;
  /** Milliseconds since the epoch. */
  readonly now: number;
}

/**
 * Computes the time of the next check, in milliseconds since the epoch. The regular check follows after the interval, or after
 * failures in growing steps, but not in a pause that the registry asks for. A check runs earlier if a waiting version may be
 * used before that, but not within a second.
 */
export function computeNextCheck({
  intervalMs = CHECK_RETRY.maxMs,
  failures,
  pausedUntil = 0,
  waitingVersions,
  now,
}: NextCheckInput): number {
  const intervalWithJitter = intervalMs * (1 + JITTER * (2 * Math.random() - 1));
  const regularCheck =
    now +
    (failures === 0
      ? intervalWithJitter
      : Math.min(intervalWithJitter, exponentialDelay(failures, CHECK_RETRY)));
  const useTimes = [...waitingVersions].flatMap(({ until }) =>
    until === undefined ? [] : [Math.max(until, now + MIN_WAIT_MS)],
  );
  return Math.min(Math.max(regularCheck, pausedUntil), ...useTimes);
}
