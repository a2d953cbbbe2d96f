/** The checks of one ModuleSource: what the leader remembers between them, and when the next one is due. */

import { exponentialDelay, type Timer } from "../../lib/index.ts";
import { REQUESTED_AT } from "../../model/index.ts";
import type { IModuleSource } from "../../status/index.ts";
import type { SourcesContext } from "../context.ts";
import type { SourceEntry } from "../source-list.ts";
import type { ModuleError, PendingUpdate } from "../types.ts";
import { checkSource } from "./check-source.ts";
import type { ModuleCheckTools } from "./module-check.ts";
import { FINDINGS_BEFORE_CHECK } from "./source-status.ts";

const RETRY = { firstMs: 5000, maxMs: 600_000 };
/** An interval varies by this share, so that operators do not ask a registry at the same moment. */
const JITTER = 0.1;
const MIN_WAIT_MS = 1000;
/**
 * The first check of a source waits until the first converge has ended, at most for this time: a restart runs modules with
 * the locked content, and neither requests to registries nor their results delay it.
 */
export const MAX_START_DELAY_MS = 10_000;

const MAX_TOKEN_CHARS = 256;

/** Findings of the last check of a source, and when the next one runs. */
export class CheckState {
  findings = FINDINGS_BEFORE_CHECK;
  timer: Timer | undefined;
  isRunning = false;
  /** Another check was requested while one was running: it starts when the running check ends. */
  isCheckDue = false;
  /** uid and generation of the spec that was checked last. */
  checkedSpec: string | undefined;
  /** Checks in a row that failed. */
  failures = 0;
}

/** The value of the annotation with which a user requests a check; the status repeats it once the check is done. */
export function readCheckToken({ metadata }: IModuleSource): string | undefined {
  return metadata.annotations?.[REQUESTED_AT]?.slice(0, MAX_TOKEN_CHARS);
}

/**
 * Checks the modules of a source, unless it is suspended. Records in `checkState` the findings, the time of the next check,
 * the checked spec, and the token of the annotation by which a user requested this check.
 */
export async function runCheck(
  checkTools: ModuleCheckTools,
  source: SourceEntry,
  checkState: CheckState,
): Promise<void> {
  const { context } = checkTools;
  const { options, lockedModules, sources } = context;
  const { object, spec, name } = source;
  const { uid, generation } = object.metadata;
  let { isReachable } = checkState.findings;
  const onAnswer = (code: string): void => {
    checkTools.reporter.onAnswer(name, code);
    // The last answer counts: "error" means none, and with 5xx the registry does not work.
    isReachable = code !== "error" && !code.startsWith("5");
  };
  const isSuspended = spec === undefined || spec.suspend;
  const names = isSuspended ? [] : sources.listModules(name);
  const { errors, pendingUpdates } = await checkSource(checkTools, source, { names, onAnswer });
  const isFailed = [...errors.values()].some(({ reason }) => reason === "CheckFailed");
  checkState.failures = isFailed ? checkState.failures + 1 : 0;
  const now = options.clock.now();
  if (!isFailed) options.metrics.set("sourceLastSuccess", { source: name }, now / 1000);
  for (const [module, { reason }] of pendingUpdates) lockedModules.recordError(module, reason);
  for (const [module, { message }] of errors) lockedModules.recordError(module, message);
  const timing = { intervalMs: spec?.intervalMs, failures: checkState.failures };
  checkState.findings = {
    errors: new Map([...findOverriddenModules(context, source), ...errors]),
    pendingUpdates,
    lastCheck: now,
    nextCheck: computeNextCheck({ ...timing, pendingUpdates: pendingUpdates.values(), now }),
    isReachable,
    handledToken: readCheckToken(object) ?? object.status?.lastHandledReconcileAt,
  };
  checkState.checkedSpec = `${uid} ${generation}`;
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
  readonly pendingUpdates: Iterable<Pick<PendingUpdate, "until">>;
  /** Milliseconds since the epoch. */
  readonly now: number;
}

/**
 * Computes the time of the next check, in milliseconds since the epoch. The regular check follows after the interval, or after
 * failures in growing steps. A check runs earlier if a pending update may be used before that, but not within a second.
 */
export function computeNextCheck({
  intervalMs = RETRY.maxMs,
  failures,
  pendingUpdates,
  now,
}: NextCheckInput): number {
  const intervalWithJitter = intervalMs * (1 + JITTER * (2 * Math.random() - 1));
  const regularCheck =
    now +
    (failures === 0 ? intervalWithJitter : Math.min(intervalWithJitter, exponentialDelay(failures, RETRY)));
  const useTimes = [...pendingUpdates].flatMap(({ until }) =>
    until === undefined ? [] : [Math.max(until, now + MIN_WAIT_MS)],
  );
  return Math.min(regularCheck, ...useTimes);
}
