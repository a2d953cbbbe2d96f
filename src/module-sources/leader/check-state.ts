/** The checks of one ModuleSource, and what the leader remembers between them. */

import type { Timer } from "../../lib/index.ts";
import { REQUESTED_AT } from "../../model/index.ts";
import type { IModuleSource } from "../../status/index.ts";
import type { SourcesContext } from "../context.ts";
import type { Source } from "../source-list.ts";
import { checkSource } from "./check-source.ts";
import type { CheckTools } from "./check-tools.ts";
import { findOverriddenModules } from "./entry/findings.ts";
import { computeNextCheck } from "./next-check.ts";
import { FINDINGS_BEFORE_CHECK, type SourceFindings } from "./source-status.ts";

const MAX_TOKEN_CHARS = 256;

/** Findings of the last check, and when the next one runs. */
export interface CheckState {
  findings: SourceFindings;
  timer: Timer | undefined;
  isRunning: boolean;
  /** Another check was requested while one was running: it starts when the running check ends. */
  isCheckDue: boolean;
  /** uid and generation of the spec that was checked last. */
  checkedSpec: string | undefined;
  /** Checks in a row that failed. */
  failures: number;
}

/** A source before its first check. */
export function newCheckState(): CheckState {
  return {
    findings: FINDINGS_BEFORE_CHECK,
    timer: undefined,
    isRunning: false,
    isCheckDue: false,
    checkedSpec: undefined,
    failures: 0,
  };
}

/** The value of the annotation with which a user requests a check; the status repeats it once the check is done. */
export function readCheckToken({ metadata }: IModuleSource): string | undefined {
  return metadata.annotations?.[REQUESTED_AT]?.slice(0, MAX_TOKEN_CHARS);
}

/** Checks the modules of a source, unless it is suspended. Records findings and the next check. */
export async function runCheck(
  { context, checkTools }: { readonly context: SourcesContext; readonly checkTools: CheckTools },
  source: Source,
  checkState: CheckState,
): Promise<void> {
  const { options, lockedModules, currentSources } = context;
  const { object, spec, name } = source;
  const { uid, generation } = object.metadata;
  let { isReachable } = checkState.findings;
  const reporter = {
    ...checkTools.reporter,
    onAnswer: (from: string, code: string): void => {
      checkTools.reporter.onAnswer(from, code);
      isReachable = code !== "error" && !code.startsWith("5");
    },
  };
  const isSuspended = spec === undefined || spec.suspend;
  const names = isSuspended ? [] : currentSources().listModules(name);
  const { errors, pendingUpdates } = await checkSource({ ...checkTools, reporter }, source, names);
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
