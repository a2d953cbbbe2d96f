/** The ports through which tasks reach other rooms. */

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
import type { Clock, Limit, Logger } from "../lib/index.ts";
import type { Hook, Task, Tree } from "../model/index.ts";
import type { Usage } from "../process/index.ts";
import type { Queues } from "../queue/index.ts";
import type { Enablement, ReleaseView, State } from "../state/index.ts";
import type { Tracer } from "../trace/index.ts";
import type { FollowedConfig } from "../triggers/index.ts";

/** Kubernetes bindings of hooks: watches, snapshots, buffered events. */
type WatchesPort = Pick<
  KubeBindings,
  "enable" | "generation" | "waiting" | "unlock" | "disable" | "snapshots"
>;

/** Releases of helm. */
type ReleasesPort = Pick<
  Releases,
  | "reconcile"
  | "announce"
  | "isReserved"
  | "ownership"
  | "installed"
  | "anyOurs"
  | "uninstall"
  | "forget"
  | "withoutModule"
  | "ensureCrds"
> & { get(name: string): ReleaseView | undefined };

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
  readonly config: Pick<FollowedConfig, "write" | "judgeAgain">;
  readonly recorder: Recorder;
  /** With what hooks and scripts run. */
  readonly runs: RunSettings;
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
}
