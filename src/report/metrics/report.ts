/**
 * The report: the one way by which the parts of the operator say what happened, besides events of the state. It writes series, log lines and
 * Kubernetes Events, and records in the state what packages below `engine/` find out.
 */

import type { BindingReport, BindingTimes } from "../../hooks/bindings/index.ts";
import { describeObject, type DriftedObject } from "../../kube/drift/index.ts";
import type { Health } from "../../kube/health/index.ts";
import type { HelmReport, ReleaseOutcome } from "../../helm/index.ts";
import type { Debounce, Logger } from "../../base/index.ts";
import type { Hook, KubernetesBinding, Task } from "../../base/model/index.ts";
import type { QueueAction, QueueReport, RunContext } from "../../engine/queue/index.ts";
import type { Enablement, State, View } from "../../engine/state/index.ts";
import { HOW_TO_END_HANGING_HOOK, describeEnablement, describeAwaitedTask } from "../index.ts";
import type { EventReason, OperatorEvent, StatusReport } from "../index.ts";
import type { HookRunReport, TaskReport } from "../../engine/tasks/index.ts";
import type { TriggerReport, WatchHealth, WatchIssues } from "../../config/index.ts";
import type { WebhookReport } from "../../webhooks/index.ts";
import { getActivationLabel } from "./activation.ts";
import { recordHookRun } from "./inventory.ts";
import { toTaskLabels } from "./measure.ts";
import type { Metrics } from "./metrics.ts";

/** A failed run counts under both names. */
const RUN_ERRORS = ["moduleRunErrors", "moduleRunErrorsShort"] as const;

/** What the report writes to, and what it reads. */
export interface ReportParts {
  readonly metrics: Metrics;
  readonly logger: Logger;
  readonly state: State;
  readonly watchIssues: WatchIssues;
  /** Collects garbage after a pause without work. */
  readonly idleCollector: Pick<Debounce, "restart">;
  /** Publishes a Kubernetes Event. */
  readonly announce: (event: OperatorEvent) => void;
  /** Lists why bindings and webhooks of the module's hooks (undefined: of global hooks) do not work. */
  readonly listHookIssues: (module: string | undefined) => readonly string[];
}

const EVENT_REASON_BY_ACTION: Readonly<Partial<Record<ReleaseOutcome["action"], EventReason>>> = {
  installed: "ReleaseInstalled",
  upgraded: "ReleaseUpgraded",
  restored: "Healed",
  rolledBack: "RolledBack",
};

const EVENT_REASON_BY_REMOVAL = {
  delete: "RemovalHeld",
  move: "RemovalHeld",
  purge: "PurgeRefused",
} as const;

/** Reports what happened. Every method is cheap and never throws. */
export class Report
  implements
    BindingReport,
    HelmReport,
    QueueReport<Task>,
    StatusReport,
    TaskReport,
    TriggerReport,
    WebhookReport
{
  readonly #parts: ReportParts;
  readonly #unhealthyModules = new Set<string>();
  /** Texts of the blockers of removals that were announced. */
  #announcedBlockers = new Set<string>();

  constructor(parts: ReportParts) {
    this.#parts = parts;
  }

  /** Publishes a Kubernetes Event. */
  announce(event: OperatorEvent): void {
    this.#parts.announce(event);
  }

  // Tasks and queues.

  taskBegan(task: Task | undefined, { queue, waitedMs }: RunContext): void {
    if (task !== undefined) this.#parts.metrics.add("taskWait", toTaskLabels(queue, task), waitedMs / 1000);
  }

  /** Only ticks of schedules are dropped. */
  taskDropped(queue: string, task: Task): void {
    this.#parts.metrics.add("ticksDropped", toTaskLabels(queue, task));
  }

  queueChanged(queue: string, action: QueueAction, ms: number): void {
    this.#parts.metrics.observe("queueAction", { queue_name: queue, queue_action: action }, ms / 1000);
  }

  /**
   * A run has taken `LONG_RUN_MS`. Reports a hook: one that hangs blocks its queue, and nothing else shows that. Other long runs are visible
   * in the states of modules.
   */
  runHangs(queue: string, task: Task): void {
    if (task.kind !== "hook") return;
    const { name: hook, module } = task.hook;
    const { logger, announce } = this.#parts;
    logger.warn("A hook hangs: its run takes longer than five minutes", { hook, module, queue });
    const note = `${describeAwaitedTask(task)} runs for five minutes in queue ${queue}, and blocks what waits there; ${HOW_TO_END_HANGING_HOOK}`;
    announce({ module, reason: "HookHangs", note });
  }

  hookRun({ hook, binding, queue, activation, seconds, usage, result }: HookRunReport): void {
    const labels = { module: hook.module, hook: hook.name, binding, queue, activation };
    recordHookRun(this.#parts.metrics, { ...labels, outcome: result, seconds, usage });
  }

  hookFailed(module: string | undefined, note: string): void {
    this.#parts.announce({ module, reason: "HookFailed", note });
  }

  moduleRun(module: string, seconds: number, failed: boolean): void {
    const { metrics } = this.#parts;
    const activation = this.#getModuleActivation(module);
    metrics.observe("moduleRun", { module, activation }, seconds);
    if (failed) for (const name of RUN_ERRORS) metrics.add(name, { module });
    if (activation === "HelmReleaseUnexpectedStatus") metrics.add("redeployed", { module });
  }

  failed(module: string, reason: string, message: string): void {
    const isAboutValues = reason === "ValuesIncomplete" || reason === "ValuesInvalid";
    const eventReason = isAboutValues ? "ValuesInvalid" : "RunFailed";
    this.#parts.announce({ module, reason: eventReason, note: `${reason}: ${message}` });
  }

  moduleSwitched(module: string, { enabled, by, reason }: Enablement): void {
    const { announce, logger } = this.#parts;
    const note = describeEnablement({ enabled, enabledBy: by, enabledReason: reason });
    announce({ module, reason: enabled ? "ModuleEnabled" : "ModuleDisabled", note });
    logger.info(enabled ? "Module enabled" : "Module disabled", { module, by: reason ?? by });
  }

  moduleRemoved(module: string): void {
    this.#parts.announce({ module, reason: "ReleaseRemoved", note: "the release was removed" });
  }

  moduleDeleteFailed(module: string): void {
    this.#parts.metrics.add("moduleDeleteErrors", { module });
  }

  /** The Event is about the operator, because the AddonModule is deleted with its directory. */
  releasePurged(release: string): void {
    const note = `release ${release}, which has no module directory any more, was removed`;
    this.#parts.announce({ module: undefined, reason: "ReleaseRemoved", note });
  }

  discoveryFailed(): void {
    this.#parts.metrics.add("discoverErrors", {});
  }

  convergeEnded(seconds: number): void {
    const { metrics, state } = this.#parts;
    const activation = getActivationLabel(state.view.converge.cause, "converge");
    metrics.add("convergenceSeconds", { activation }, seconds);
    metrics.add("convergenceTotal", { activation });
  }

  /** Logs and announces each blocker of a removal once, although every converge finds it again. At the end of a converge it forgets those that have disappeared. */
  removalsBlocked({ removalBlockers, converge }: Pick<View, "removalBlockers" | "converge">): void {
    for (const { action, text } of removalBlockers) {
      if (this.#announcedBlockers.has(text)) continue;
      this.#announcedBlockers.add(text);
      this.#parts.logger.warn("A removal is blocked", { hold: text });
      this.#parts.announce({ module: undefined, reason: EVENT_REASON_BY_REMOVAL[action], note: text });
    }
    // While a converge runs, it has not found all blockers again yet.
    if (converge.phase === "idle") this.#announcedBlockers = new Set(removalBlockers.map(({ text }) => text));
  }

  // Releases and their objects.

  /** Announces what helm did with a release; nothing if the release is unchanged, so that Events show changes only. */
  moduleReleased(module: string, outcome: ReleaseOutcome | undefined): void {
    if (outcome === undefined) return;
    const { metrics, announce } = this.#parts;
    const { action, release, wasRecovered, rollbackReason } = outcome;
    const note = describeRelease(module, release);
    const reason = EVENT_REASON_BY_ACTION[action];
    if (wasRecovered) announce({ module, reason: "PendingReleaseRecovered", note });
    if (reason !== undefined) announce({ module, reason, note: rollbackReason ?? note });
    if (action === "rolledBack") metrics.add("rollbacks", { module });
    if (wasRecovered) metrics.add("helmFallback", { module, operation: "upgrade", error_type: "pending" });
  }

  rolledBackByHand(module: string, release: ReleaseOutcome["release"]): void {
    const note = `on request: ${describeRelease(module, release)}`;
    this.#parts.announce({ module, reason: "RolledBack", note });
  }

  crdRefused(module: string, note: string): void {
    this.#parts.announce({ module, reason: "CrdRefused", note });
  }

  adopted(module: string): void {
    const note = "a release that a user installed with helm is adopted";
    this.#parts.announce({ module, reason: "ReleaseAdopted", note });
  }

  tookOver(module: string, objects: readonly string[]): void {
    this.#parts.announce({ module, reason: "ObjectsTakenOver", note: objects.join(", ") });
  }

  forgotKinds(module: string, objects: readonly string[]): void {
    this.#parts.announce({ module, reason: "KindsGone", note: objects.join(", ") });
  }

  ran({ release: module, operation, seconds }: Parameters<HelmReport["ran"]>[0]): void {
    const activation = this.#getModuleActivation(module);
    this.#parts.metrics.observe("helmOperation", { module, activation, operation }, seconds);
  }

  reconciled(module: string, seconds: number): void {
    const activation = this.#getModuleActivation(module);
    this.#parts.metrics.observe("moduleHelm", { module, activation }, seconds);
  }

  leftoversChanged(module: string, objects: readonly string[]): void {
    this.#parts.state.recordModule(module, "leftoversObserved", objects);
  }

  objectMissing(module: string, object: string): void {
    this.#parts.metrics.add("absent", { module, resource: object });
  }

  objectDrifted(module: string, object: DriftedObject, isRepaired: boolean): void {
    const { logger, metrics, announce } = this.#parts;
    const note = describeObject(object);
    const message = isRepaired ? "An object was changed, and is put back" : "An object was changed";
    logger.warn(message, { module, drift: note });
    metrics.add(isRepaired ? "repairs" : "drifts", { module });
    announce({ module, reason: isRepaired ? "Repaired" : "Drifted", note });
  }

  /** Announces when a release becomes unhealthy, and when it is healthy again, but no progress in between. */
  healthChanged(module: string, health: Health | undefined): void {
    const unhealthy = this.#unhealthyModules;
    if (health === undefined) unhealthy.delete(module);
    else if (health.status === "False" && !unhealthy.has(module)) {
      unhealthy.add(module);
      this.#parts.announce({ module, reason: "Unhealthy", note: health.message });
    } else if (health.status === "True" && unhealthy.has(module)) {
      unhealthy.delete(module);
      this.#parts.announce({ module, reason: "Recovered", note: health.message });
    }
  }

  // The operator itself.

  leaseIssueChanged(issue: string | undefined): void {
    this.#parts.state.record("leaseIssueChanged", issue);
  }

  configUnusable(reason: "ConfigMapInvalid" | "ConfigMapMissing", message: string): void {
    const { logger, metrics, announce } = this.#parts;
    logger.error(message, { reason });
    if (reason === "ConfigMapInvalid") metrics.add("configErrors", {});
    announce({ module: undefined, reason, note: message });
  }

  statusWritten(kind: string, result: "written" | "failed"): void {
    this.#parts.idleCollector.restart();
    this.#parts.metrics.add("statusWrites", { kind, result });
  }

  runSecondsRead(module: string, runSeconds: readonly unknown[]): void {
    this.#parts.state.recordModule(module, "runSecondsRestored", runSeconds);
  }

  ownWatchChanged(what: string, error: Error | undefined): void {
    this.#parts.watchIssues.report(what, error);
  }

  dirsScanned({ watchCount, isPolling }: WatchHealth): void {
    this.#parts.metrics.set("watchedDirs", {}, watchCount);
    this.#parts.metrics.set("polledDirs", {}, isPolling ? 1 : 0);
  }

  bindingTimes(hook: Hook, binding: KubernetesBinding): BindingTimes {
    const { metrics } = this.#parts;
    const { kind, queue } = binding;
    const labels = { module: hook.module ?? "", hook: hook.name, binding: binding.name, queue, kind };
    return {
      recordFilter: (seconds) => metrics.observe("filterDuration", labels, seconds),
      recordEvent: (seconds) => metrics.observe("eventDuration", labels, seconds),
    };
  }

  bindingIssueChanged(hook: Hook, binding: KubernetesBinding, issue: string | undefined): void {
    if (issue !== undefined) this.#parts.metrics.add("bindingMissing", { binding: binding.name });
    this.hookIssuesChanged(hook.module);
  }

  hookIssuesChanged(module: string | undefined): void {
    const { state, listHookIssues } = this.#parts;
    const issues = listHookIssues(module);
    if (module === undefined) state.record("hookIssuesChanged", issues);
    else state.recordModule(module, "hookIssuesChanged", issues);
  }

  webhookRequested({ status, seconds }: Parameters<WebhookReport["webhookRequested"]>[0]): void {
    this.#parts.metrics.observe("webhookRequest", { code: String(status) }, seconds);
  }

  webhookIssuesChanged(issues: readonly string[]): void {
    this.#parts.metrics.set("webhookIssues", {}, issues.length);
    this.#parts.state.record("webhookIssuesChanged", issues);
  }

  /** The operator lacks these permissions. */
  permissionsChecked(missing: readonly string[]): void {
    this.#parts.metrics.set("missingRights", {}, missing.length);
    this.#parts.state.record("permissionsChecked", missing);
  }

  /** The label `activation` of the current or last run of a module. */
  #getModuleActivation(module: string): string {
    return getActivationLabel(this.#parts.state.view.modules.get(module)?.lastRun?.cause, "module");
  }
}

function describeRelease(module: string, release: ReleaseOutcome["release"]): string {
  return `release ${release?.name ?? module}, revision ${release?.revision ?? 0}`;
}
