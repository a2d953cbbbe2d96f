/** Runs tasks, one function for each kind, and says by which ports these reach other rooms. */

import { MAIN_QUEUE, describeTask, moduleOf, queueOf } from "../model/index.ts";
import type { Hook, HookTask, Module, RunModuleTask, Task, Tree } from "../model/index.ts";
import { TURN_LIMIT_MS, turnsLeft } from "../plan/index.ts";
import { Queues, type Outcome, type QueuesOptions, type RunContext } from "../queue/index.ts";
import type { KubeBindings, Source } from "../bindings/index.ts";
import type { ReleaseOutcome, Releases } from "../helm/index.ts";
import type {
  HookLoader,
  MetricOperation,
  PatcherOptions,
  RunSettings,
  applyObjects,
  runEnabledScript,
  runHook,
} from "../hooks/index.ts";
import { breathe, type Clock, type Limit, type Logger, type Timer } from "../lib/index.ts";
import type { Usage } from "../process/index.ts";
import type { Enablement, ReleaseView, State } from "../state/index.ts";
import type { Tracer } from "../trace/index.ts";
import type { FollowedConfig } from "../triggers/index.ts";
import { boot, reload } from "./reload.ts";
import { deleteModule, purgeRelease } from "./delete-module.ts";
import { ensureCrds } from "./discover.ts";
import { readModules } from "./read-modules.ts";
import { runHookTask } from "./execute-hook.ts";
import { restoreModule } from "./restore-module.ts";
import { runModule } from "./run-module.ts";

/** The queues whose tasks are run here; the ports are there when the first one runs. */
export function taskQueues(ports: () => Ports, options: Omit<QueuesOptions<Task>, "run">): Queues<Task> {
  return new Queues<Task>({
    ...options,
    run: async (batch, context) => {
      ports().recorder.waited(batch[0], context);
      // A thousand tasks that wait for nothing must not keep the lease from being renewed.
      await breathe();
      return runTask(ports(), batch, context);
    },
  });
}

/** Runs a batch of tasks as one span: hook tasks of one hook together, every other kind alone. */
export async function runTask(
  ports: Ports,
  batch: readonly Task[],
  context: RunContext,
): Promise<Outcome<Task>> {
  const task = batch[0];
  if (task === undefined) return { kind: "done" };
  const { queue, failures, from, waitingSince } = context;
  const module = moduleOf(task);
  const attributes = {
    kind: task.kind,
    module,
    queue,
    about: describeTask(task),
    tasks: batch.length,
    attempt: failures + 1,
  };
  return ports.tracer.task({ name: nameOf(task), attributes, module, from, waitingSince }, async (span) => {
    const outcome = await inTurn(ports, { task, queue }, () => runKind(ports, { task, batch }, context));
    if (task.kind === "run-module") count(ports, task, outcome);
    else if (task.kind === "converge" || task.group === "reload") noteStep(ports, outcome);
    if (outcome.kind !== "retry") endRemoval(ports, task);
    span.set({ outcome: outcome.kind });
    if (outcome.kind === "retry") span.fail(outcome.message);
    return outcome;
  });
}

function runKind(
  ports: Ports,
  { task, batch }: { readonly task: Task; readonly batch: readonly Task[] },
  context: RunContext,
): Promise<Outcome<Task>> {
  switch (task.kind) {
    case "boot":
      return boot(ports, context);
    case "converge":
      return reload(ports, task, context);
    case "hook":
      return runHookTask(ports, batch as readonly HookTask[], context);
    case "run-module":
      return runModule(ports, task, context);
    case "restore-objects":
      return restoreModule(ports, task, context);
    case "read-modules":
      return readModules(ports);
    case "delete-module":
      return deleteModule(ports, task, context);
    case "purge-release":
      return purgeRelease(ports, task, context);
    case "ensure-crds":
      return ensureCrds(ports, task);
  }
}

/**
 * Notes of a task in a module's own queue whether it keeps the module from its turn: a hook that failed, or anything that
 * takes too long. A run that failed had its turn.
 */
async function inTurn(
  { state, clock }: Ports,
  { task, queue }: { readonly task: Task; readonly queue: string },
  work: () => Promise<Outcome<Task>>,
): Promise<Outcome<Task>> {
  const module = moduleOf(task);
  const isOwn = module !== undefined && queue === queueOf(state.view.moduleQueues, module);
  if (!isOwn || queue === MAIN_QUEUE) return work();
  const note = (isStuck: boolean): void => {
    if (state.module(module)?.run.isStuck !== isStuck) state.noteRun(module, "stuck", isStuck);
  };
  const later = (): Timer =>
    clock.setTimer(TURN_LIMIT_MS, () => {
      note(true);
      // A reload may give the module its next turn meanwhile.
      timer = later();
    });
  let timer = later();
  let isStuck = false;
  try {
    const outcome = await work();
    isStuck = outcome.kind === "retry" && task.kind === "hook";
    return outcome;
  } finally {
    timer.cancel();
    note(isStuck);
  }
}

/** A step of the reload in `main` has ended: one that failed holds the reload up. */
function noteStep({ state }: Ports, { kind }: Outcome<Task>): void {
  const heldUp = kind === "retry";
  if (state.view.reload.heldUp !== heldUp) state.recordReload({ heldUp });
}

/** A removal that was carried out, or is not due any more, is not ahead. */
function endRemoval({ state }: Ports, task: Task): void {
  const name =
    task.kind === "delete-module" ? task.module : task.kind === "purge-release" ? task.release : undefined;
  const { removing } = state.view;
  if (name !== undefined && removing.includes(name))
    state.record({ removing: removing.filter((each) => each !== name) });
}

/** A module that is done within a reload is progress of that reload. */
function count({ state }: Ports, task: RunModuleTask, outcome: Outcome<Task>): void {
  const { phase, remaining } = state.view.reload;
  if (phase === "turns") state.recordReload({ remaining: turnsLeft(state.view) });
  // None remain when the reload was reset.
  if (outcome.kind === "done" && task.group === "reload" && remaining.includes(task.module))
    state.recordReload({ remaining: remaining.filter((name) => name !== task.module) });
}

/** Few names, so that runs can be compared. */
function nameOf(task: Task): string {
  const of = task.kind === "hook" ? task.hook.id : moduleOf(task);
  return of === undefined ? task.kind : `${task.kind} ${of}`;
}

/** Kubernetes bindings of hooks: watches, snapshots, buffered events. */
type WatchesPort = Pick<
  KubeBindings,
  "enable" | "generation" | "waiting" | "unlock" | "disable" | "snapshots"
>;

/** Releases of helm. */
type ReleasesPort = Pick<
  Releases,
  | "reconcile"
  | "rollBack"
  | "restore"
  | "announce"
  | "isReserved"
  | "ownership"
  | "installed"
  | "identity"
  | "anyOurs"
  | "uninstall"
  | "forget"
  | "withoutModule"
  | "ensureCrds"
> & { get(name: string): ReleaseView | undefined };

/** Tells metrics and Events what happened; every method is cheap and never throws. */
export interface Recorder {
  /** A task begins to run. */
  waited(task: Task | undefined, context: RunContext): void;
  hookRun(run: {
    hook: Hook;
    binding: string;
    queue: string;
    /** `Schedule`, `Kubernetes`, or the lifecycle binding. */
    activation: string;
    seconds: number;
    usage?: Usage | undefined;
    result: "success" | "allowed" | "failed";
  }): void;
  /** A hook failed outside of a module's run, and is tried again: all that waits in its queue waits for it. */
  hookFailed(module: string | undefined, message: string): void;
  moduleRun(module: string, seconds: number, failed: boolean): void;
  moduleDeleteFailed(module: string): void;
  discoveryFailed(): void;
  released(module: string, outcome: ReleaseOutcome | undefined): void;
  removed(module: string): void;
  /** Its CRDs are broken, or would break something. */
  crdRefused(module: string, problem: string): void;
  failed(module: string, reason: string, message: string): void;
  switched(module: string, decision: Enablement): void;
  reloaded(seconds: number): void;
}

/** Everything that a task may use; put together when the operator starts. */
export interface Ports {
  readonly state: State;
  readonly queues: Queues<Task>;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly tracer: Tracer;
  readonly retryMinMs: number;
  /** `--delete-brake`: what one change may remove. */
  readonly deleteBrake: Limit;
  readonly watches: WatchesPort;
  /** What makes hooks run beside tasks and watches. */
  readonly sources: Pick<Source, "enable" | "disable">;
  readonly releases: ReleasesPort;
  readonly config: Pick<FollowedConfig, "write" | "judgeAgain" | "refresh">;
  readonly recorder: Recorder;
  /** With what hooks and scripts run. */
  readonly runs: RunSettings;
  /** To be called before files of a chart are read: temp directories, where archives are unpacked, are cleaned. */
  readonly restoreChart: (chartDir: string) => Promise<void>;
  readonly runHook: typeof runHook;
  readonly runScript: typeof runEnabledScript;
  readonly loader: Pick<HookLoader, "load">;
  readonly applyObjects: typeof applyObjects;
  /** With what object operations of hooks are applied. */
  readonly patcher: PatcherOptions;
  /** Applies metric operations of a hook; throws when one is refused. */
  readonly hookMetrics: {
    apply(
      operations: readonly MetricOperation[],
      owner: { readonly hook: string; readonly module: string | undefined },
    ): void;
  };
  /** What the API server says of its version. Throws ApiError, ConnectionError. */
  readonly serverVersion: (signal: AbortSignal) => Promise<string>;
  /**
   * Reads the directories again; what is broken or missing stays in force until it is mended or confirmed. With
   * `names`, files of these modules alone.
   */
  readonly readTree: (previous: Tree, names?: ReadonlySet<string>) => Promise<Tree>;
  /** The tree with one module as it is on disk now; `previous` itself where nothing of it has changed. */
  readonly rereadModule: (previous: Tree, name: string) => Promise<Tree>;
  /** The digest of all files that modules consist of. */
  readonly contentOf: (modules: readonly Module[]) => string;
}
