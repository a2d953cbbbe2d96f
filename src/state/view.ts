import type { EnabledBy, Json, LifecycleBinding, Module, Problem, Tree } from "../model/index.ts";

/** How far start-up is; `converging` until the first reload has ended, then `running`. */
export type BootPhase = "loading" | "waiting" | "onStartup" | "synchronization" | "converging" | "running";

/** Phase of *reload all modules*. */
export type ConvergePhase = "idle" | "beforeAll" | "discovery" | "modules" | "afterAll";

/** Whether the ConfigMap on the server can be used; anything but `ok` leaves the last good content in force. */
export type ConfigCondition = "ok" | "invalid" | "missing";

interface ConfigView {
  readonly condition: ConfigCondition;
  readonly problems: readonly Problem[];
  /** resourceVersion of the ConfigMap last looked at. */
  readonly resourceVersion: string | undefined;
  /** Keys that match no module, each with the one that was probably meant. */
  readonly unknownKeys: readonly string[];
  /** Digest of the content in force. */
  readonly digest: string;
}

export interface ConvergeView {
  readonly phase: ConvergePhase;
  /** Why the running (or last) reload was started. */
  readonly cause: string;
  readonly startedAt: number | undefined;
  readonly finishedAt: number | undefined;
  /** Modules still to run in the reload under way. */
  readonly remaining: number;
  /** What the running (or last) reload took into account; undefined before its discovery. */
  readonly covered: Coverage | undefined;
  /** Reloads in a row that afterAll hooks asked for by changing globals (livelock guard). */
  readonly rounds: number;
}

/** Digests of everything a reload depends on. */
export interface Coverage {
  /** `global` section and flags as the ConfigMap has them. */
  readonly config: string;
  /** Merged global values and merged flags; undefined until discovery. */
  readonly globals: string | undefined;
}

/** Why something is owed, and where in `main` it goes: configuration goes to the front. */
export interface Cause {
  readonly text: string;
  readonly place: "front" | "back";
  /** Binding of the lifecycle hook that made the change. */
  readonly binding?: LifecycleBinding;
}

/** How far a module's first run since it became enabled is; `ready` = later runs start from beforeHelm. */
export type ModulePhase = "new" | "onStartup" | "synchronization" | "ready";

/** What is going on with a module right now. */
export type ModuleActivity = "none" | "running" | "healing" | "deleting";

export type RetryReason =
  | "HookFailed"
  | "HelmFailed"
  | "ScriptFailed"
  | "ValuesIncomplete"
  | "Unstable"
  | "ApiFailed";

export interface RetryView {
  readonly reason: RetryReason;
  readonly message: string;
  readonly failures: number;
  /** Milliseconds since the epoch; undefined while the retry is being executed. */
  readonly nextAt: number | undefined;
}

/** The last run of a module, for people. Times in ms since the epoch. */
export interface LastRun {
  readonly trigger: string;
  readonly startedAt: number;
  readonly finishedAt: number | undefined;
  readonly result: "Succeeded" | "Failed" | undefined;
  /** onStartup | synchronization | beforeHelm | helm | afterHelm | beforeDeleteHelm | uninstall | afterDeleteHelm | enabled */
  readonly step: string;
  /** A hook of the module; in the step helm or uninstall one of the chart, as `Job/migrate (pre-upgrade)`. */
  readonly hook: string | undefined;
  /** Since when helm waits for a hook of the chart. */
  readonly hookSince?: number | undefined;
  readonly message: string | undefined;
  readonly attempts: number;
}

/** What the release Secrets say. */
export interface ReleaseView {
  readonly name: string;
  readonly revision: number;
  readonly status: string;
  readonly chartVersion: string | undefined;
  readonly manifestChecksum: string | undefined;
  readonly lastDeployed: number | undefined;
}

/** Everything known of one module directory. */
export interface ModuleView {
  readonly name: string;
  readonly module: Module;
  /** False until discovery has looked at it: `enabled` means nothing yet. */
  readonly decided?: boolean;
  readonly enabled: boolean;
  readonly enabledBy: EnabledBy;
  readonly enabledReason: string | undefined;
  readonly phase: ModulePhase;
  readonly activity: ModuleActivity;
  /** `<camel>Maintenance: NoResourceReconciliation`: helm is left alone. */
  readonly suspended: boolean;
  /** `<camel>Protected: "true"`: never deleted or purged. */
  readonly protected: boolean;
  /** Set when a person is needed: state Invalid. */
  readonly problem: Problem | undefined;
  readonly retry: RetryView | undefined;
  readonly lastRun: LastRun | undefined;
  readonly release: ReleaseView | undefined;
  /** Objects of the release that are gone, as `namespace/Kind/name`, or `Kind/name`. */
  readonly absent: readonly string[];
  /** Why the record of its release cannot be read, so that nobody knows its objects. */
  readonly unread?: string | undefined;
  /** What stands in the way of its hooks' kubernetes bindings, in words. */
  readonly troubles?: readonly string[];
  /** Digest of what the ConfigMap says that concerns this module (section, flags, global section). */
  readonly configDigest: string;
  /** The configDigest (and below the requested token) that the last finished run or decision started with. */
  readonly handledConfigDigest: string | undefined;
  readonly requestedToken: string | undefined;
  readonly handledToken: string | undefined;
  /** Digest of the module's own merged values, and of those the last helm step used. */
  readonly valuesDigest: string;
  readonly appliedDigest: string | undefined;
  /** Digest of all merged values, the global ones too, for the mirror. */
  readonly wholeDigest: string;
  /** Merged values for the mirror; computed on demand. */
  readonly values: () => Json;
  /** JSON pointers into `values()` that the schemas mark as secret (`writeOnly`, `format: password`, `x-secret`). */
  readonly secretPaths?: ReadonlySet<string>;
  /** Digest of the module's own part of the ConfigMap: section, maintenance, protection. */
  readonly sectionDigest: string;
  /** What the last run started with, whether it succeeded or not; and the last one that was worked on. */
  readonly attemptedSectionDigest: string | undefined;
  readonly handledSectionDigest: string | undefined;
  /** The last thing that changed its values, for the reason of the run that follows. */
  readonly cause: Cause | undefined;
  /** Runs in a row that its own afterHelm hooks asked for (livelock guard). */
  readonly rounds: number;
  /** The release on the server is not as its last run left it (deleted, rolled back, failed by hand). */
  readonly releaseMoved: boolean;
  /** Why it does not run now, in words; undefined when nothing is owed. */
  readonly hold: string | undefined;
}

/** More is to be removed than one change may: what a person is asked. */
export interface BrakeView {
  /** What is to be removed: modules, and releases without one. */
  readonly modules: readonly string[];
  /** How many are installed or on, these included. */
  readonly installed: number;
  /** Version of the ConfigMap that the answer has to name. */
  readonly resourceVersion: string;
  /** A person has said so. */
  readonly confirmed: boolean;
}

/** The read-only record of what is known, for the turn in which it was asked for. */
export interface View {
  readonly boot: BootPhase;
  readonly config: ConfigView;
  readonly converge: ConvergeView;
  readonly tree: Tree;
  readonly modules: ReadonlyMap<string, ModuleView>;
  /** What a reload would have to cover now. */
  readonly coverage: { readonly config: string; readonly globals: string };
  /** The last thing that changed globals or flags, for the reason of the reload that follows. */
  readonly globalCause: Cause | undefined;
  /** The directories are to be read once more: something was missed a first time. */
  readonly secondLook: boolean;
  /** Names of enabled modules, in order. */
  readonly enabledModules: readonly string[];
  /** Why a purge or a delete is held, in words. */
  readonly holds: readonly string[];
  /** Set while more is to be removed than one change may, as the last discovery found it. */
  readonly brake: BrakeView | undefined;
  /** The version of the ConfigMap by which a person confirms a removal. */
  readonly confirmation: string | undefined;
  /** API rights the operator misses, as `verb resource.group`. */
  readonly missingRights: readonly string[];
  /** What stands in the way of global hooks' kubernetes bindings, in words. */
  readonly troubles: readonly string[];
  readonly requestedToken: string | undefined;
  readonly handledToken: string | undefined;
}
