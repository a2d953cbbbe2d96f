/** The ports through which tasks reach other rooms. */

import type { SnapshotSource, Source } from "../bindings/index.ts";
import type { OnWait, ReconcileRequest, ReleaseOutcome, UpcomingModule } from "../helm/index.ts";
import type {
  HookRunInput,
  HookRunResult,
  LoadedHook,
  MetricOperation,
  ObjectOperation,
} from "../hooks/index.ts";
import type { Clock, Limit, Logger } from "../lib/index.ts";
import type { Hook, HookFile, HookTask, Module, Task, Tree } from "../model/index.ts";
import type { Usage } from "../process/index.ts";
import type { Queues } from "../queue/index.ts";
import type { Decision, ReleaseView, State } from "../state/index.ts";
import type { Pieces } from "./hook/files.ts";
import type { PatchOperation } from "../values/index.ts";

/** Kubernetes bindings of hooks: watches, snapshots, buffered events. */
interface WatchesPort {
  /** Opens the watches of a hook; resolves when its objects are listed. Events stay locked. */
  enable(hook: Hook): Promise<void>;
  /** Tells the watches that a hook has now from those it had or will have; undefined while it has none. */
  opening(hook: Hook): number | undefined;
  /** Ids of bindings that could not be listed yet; their Synchronization comes as an event of its own. */
  waiting(hook: Hook): readonly string[];
  /** Releases the buffered events of these bindings; later ones are handed on at once. */
  unlock(hook: Hook, bindingIds: readonly string[]): void;
  disable(hook: Hook): void;
  snapshots(hook: Hook): SnapshotSource;
}

type ScriptAnswer =
  | { readonly enabled: boolean; readonly reason: string | undefined }
  | { readonly failure: string };

interface ReleasesPort {
  /**
   * Installs or upgrades the module's release if needed; throws on failure, ForeignReleaseError for a foreign one.
   */
  reconcile(request: ReconcileRequest): Promise<ReleaseOutcome>;
  /**
   * Announces what a reload is going to run, in order: helm may begin before their turn, and an object whose template
   * moved to one of them stays.
   */
  announce(modules: readonly UpcomingModule[]): void;
  /** What is known of a release now; complete also right after a start. */
  get(name: string): ReleaseView | undefined;
  /** Whether no module may have a release of this name: it is the operator's own, or one to be left alone. */
  isReserved(name: string): boolean;
  /** Whether this operator may delete a release of this name: it has its label or the Go operator's marks. */
  ownership(name: string): "ours" | "foreign" | "absent";
  /** Names of this operator's releases that are not uninstalled. */
  installed(): readonly string[];
  /** Whether there is any release of this operator. */
  anyOurs(): boolean;
  /** `helm uninstall --keep-history`: the record stays until the hooks it owes have run. */
  uninstall(name: string, signal: AbortSignal, onWait?: OnWait): Promise<void>;
  /** Removes the release's records. */
  forget(name: string): Promise<void>;
  /** Releases of this operator without a directory in the tree; decided by the purge policy alone. */
  withoutModule(tree: Tree): readonly string[];
  ensureCrds(files: readonly string[]): Promise<void>;
}

/** Writes to the ConfigMap (or the overlay); throws when the write failed. */
interface ConfigPort {
  write(key: string, operations: readonly PatchOperation[]): Promise<void>;
  /** Judges the last content again: keys of a new module directory have a meaning now. */
  judgeAgain(): void;
}

/** Tells metrics and Events what happened; every method is cheap and never throws. */
export interface Recorder {
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
  moduleRun(module: string, seconds: number, failed: boolean): void;
  moduleDeleteFailed(module: string): void;
  discoveryFailed(): void;
  released(module: string, outcome: ReleaseOutcome | undefined): void;
  removed(module: string): void;
  failed(module: string, reason: string, message: string): void;
  switched(module: string, decision: Decision): void;
  reloaded(seconds: number): void;
}

/** Everything that a task may use; put together when the operator starts. */
export interface Ports {
  readonly state: State;
  readonly queues: Queues<Task>;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly retryMinMs: number;
  /** `--delete-brake`: what one change may remove. */
  readonly deleteBrake: Limit;
  readonly watches: WatchesPort;
  /** What makes hooks run beside tasks and watches. */
  readonly sources: Pick<Source, "enable" | "disable">;
  readonly releases: ReleasesPort;
  readonly config: ConfigPort;
  readonly recorder: Recorder;
  /** Runs the process of a hook and reads what it leaves; never throws, applies nothing. */
  readonly runHook: (run: HookRunInput) => Promise<HookRunResult>;
  /** Applies object operations of a hook; throws with a message when one fails. */
  readonly applyObjects: (operations: readonly ObjectOperation[]) => Promise<void>;
  /** Applies metric operations of a hook; throws when one is refused. */
  readonly hookMetrics: {
    apply(
      operations: readonly MetricOperation[],
      owner: { readonly hook: string; readonly module: string | undefined },
    ): void;
  };
  readonly runScript: (script: {
    readonly module: Module;
    readonly values: Pieces;
    readonly configValues: Pieces;
    readonly signal: AbortSignal;
  }) => Promise<ScriptAnswer>;
  readonly loadHook: (file: HookFile, module: string | undefined) => Promise<LoadedHook>;
  /** Reads the directories again; what is broken or missing stays in force until it is mended or confirmed. */
  readonly readTree: (previous: Tree) => Promise<Tree>;
  /** Asks for another reload in `ms` milliseconds. */
  readonly lookAgain: (ms: number) => void;
  /**
   * Offers a hook task to its binding's queue; resolves when it is gone from the queue for any reason, or was
   * tried.
   */
  readonly awaitTask: (task: HookTask, until: "settled" | "tried") => Promise<void>;
}
