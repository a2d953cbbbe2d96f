/** The ports by which tasks reach other packages. `main/wiring/` connects them. */

import type { KubeBindings, Triggers } from "../../hooks/bindings/index.ts";
import type { Release, ReleaseOutcome, Releases } from "../../helm/index.ts";
import type {
  HookLoader,
  MetricOperation,
  ModuleActor,
  PatcherOptions,
  RunSettings,
  AccountLimits,
  applyObjects,
  runEnabledScript,
  runHook,
} from "../../hooks/index.ts";
import type { Clock, Limit, Logger } from "../../base/index.ts";
import type { Hook, Module, Task } from "../../base/model/index.ts";
import type { TreeReader } from "../../modules/index.ts";
import type { Usage } from "../../base/process/index.ts";
import type { Queues, RunContext } from "../queue/index.ts";
import type { Enablement, State } from "../state/index.ts";
import type { Tracer } from "../../base/trace/index.ts";
import type { PatchOperation } from "../../values/index.ts";

/** Kubernetes bindings of hooks: watches, snapshots, buffered events. */
type WatchesPort = Pick<
  KubeBindings,
  "enable" | "watchGeneration" | "listUnlistedBindings" | "unlock" | "disable" | "snapshots"
>;

type ReleasesPort = Pick<
  Releases,
  | "prepareNamespace"
  | "reconcile"
  | "rollBack"
  | "restoreObjects"
  | "announceModules"
  | "uninstall"
  | "forgetRelease"
  | "ensureCrds"
> & {
  readonly observed: Pick<
    Releases["observed"],
    | "isReserved"
    | "ownership"
    | "findMove"
    | "readMovingReleases"
    | "installed"
    | "hasOwnReleases"
    | "withoutModule"
    | "identity"
  > & { get(name: string): Release | undefined };
};

/** A run of a hook that has ended. */
export interface HookRunReport {
  readonly hook: Hook;
  readonly binding: string;
  readonly queue: string;
  /** `Schedule`, `Kubernetes`, or the lifecycle binding. */
  readonly activation: string;
  readonly seconds: number;
  readonly usage?: Usage | undefined;
  readonly result: "success" | "allowed" | "failed";
}

/** Reports what happened as metrics, Events and log lines. Every method is cheap and never throws. */
export interface TaskReport {
  taskBegan(task: Task | undefined, context: RunContext): void;
  hookRun(run: HookRunReport): void;
  /** A hook failed outside of a module's run and is retried; its queue waits. */
  hookFailed(module: string | undefined, message: string): void;
  moduleRun(module: string, seconds: number, failed: boolean): void;
  moduleDeleteFailed(module: string): void;
  discoveryFailed(): void;
  /** A person requested to go back to an earlier revision, and the release has done so. */
  rolledBackByHand(module: string, release: ReleaseOutcome["release"]): void;
  moduleReleased(module: string, outcome: ReleaseOutcome | undefined): void;
  moduleRemoved(module: string): void;
  /** A release without a module was removed. */
  releasePurged(release: string): void;
  /** Its CRDs are broken, or would break something. */
  crdRefused(module: string, problem: string): void;
  failed(module: string, reason: string, message: string): void;
  moduleSwitched(module: string, decision: Enablement): void;
  convergeEnded(seconds: number): void;
}

interface WebhooksPort {
  /** Serves and registers the webhooks of a hook. */
  enable(hook: Hook): void;
  /** Resolves when the webhooks of all enabled hooks are served, or cannot be. */
  whenServed(): Promise<void>;
  /** Resolves when the API server knows which webhooks are served. Throws ApiError, ConnectionError. */
  flush(): Promise<void>;
}

/** The ConfigMap, and the overlay if there is one. */
interface ConfigPort {
  /** Reads them from the server and records their content. Resolves to false if the ConfigMap is missing. */
  refresh(): Promise<boolean>;
  /** Validates the last content again, after the modules or their schemas have changed. */
  validateAgain(): void;
  /** Applies the patches of a hook to the values of `key`, a module or `global`. */
  write(key: string, operations: readonly PatchOperation[]): Promise<void>;
}

/** Everything that a task may use. `main/wiring/` builds it. */
export interface Ports {
  readonly state: State;
  readonly queues: Queues<Task>;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly tracer: Tracer;
  /** `--retry-delay-min`. */
  readonly retryMinMs: number;
  /** `--delete-brake`: what one change may remove. */
  readonly deleteBrake: Limit;
  readonly watches: WatchesPort;
  /** Schedules and webhooks of hooks. */
  readonly triggers: Pick<Triggers, "enable" | "disable">;
  /** Webhooks of hooks, which `triggers` also enables and disables. Undefined in tests without webhooks. */
  readonly webhooks?: WebhooksPort | undefined;
  readonly releases: ReleasesPort;
  readonly config: ConfigPort;
  readonly report: TaskReport;
  /** Settings and environment of hooks and scripts. */
  readonly runs: RunSettings;
  /** The account under which the hooks of a module run and its object patches are applied; undefined = the operator's service account. */
  readonly actorOf?: ((module: string) => ModuleActor | undefined) | undefined;
  /** What limits a module by its account; undefined = nothing does, because the module has no account. */
  readonly accountLimitsOf?: ((module: string) => AccountLimits | undefined) | undefined;
  /** Unpacks a chart archive again if its temp directory was cleaned. Call it before reading files of a chart. */
  readonly restoreChart: (chartDir: string) => Promise<void>;
  readonly runHook: typeof runHook;
  readonly runScript: typeof runEnabledScript;
  readonly loader: Pick<HookLoader, "load">;
  readonly applyObjects: typeof applyObjects;
  readonly patcher: PatcherOptions;
  /** Applies metric operations of a hook; throws if one is invalid. */
  readonly hookMetrics: {
    apply(
      operations: readonly MetricOperation[],
      owner: { readonly hook: string; readonly module: string | undefined },
    ): void;
  };
  /** Reads the API server's version. Throws ApiError, ConnectionError. */
  readonly serverVersion: (signal: AbortSignal) => Promise<string>;
  readonly reader: Pick<TreeReader, "readTree" | "rereadModule">;
  readonly contentOf: (modules: readonly Module[]) => string;
}
