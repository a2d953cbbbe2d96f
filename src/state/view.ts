/** What the rest of the program sees of the state. */

import type { HealthVerdict } from "../health/index.ts";
import type { Cause, Json, ModuleQueues, Problem, Tree } from "../model/index.ts";
import type { ConfigFacts, JudgedConfig, ModuleSettings, ParsedConfig } from "../values/index.ts";
import type { ModuleRecord } from "./module-record.ts";
import type { Coverage, ReloadRecord } from "./reload-record.ts";
import type { RunRecord } from "./run-record.ts";

/**
 * How far start-up is: `waiting` until content of the ConfigMap is in force, `converging` until the first reload has
 * ended, then `running`.
 */
export type BootPhase = "loading" | "waiting" | "onStartup" | "synchronization" | "converging" | "running";

/** Whether the ConfigMap on the server can be used; anything but `ok` leaves the last good content in force. */
type ConfigCondition = "ok" | "invalid" | "missing";

/** The state of the ConfigMap on the server. */
export interface ConfigObservation {
  readonly condition: ConfigCondition;
  readonly problems: readonly Problem[];
  readonly resourceVersion: string | undefined;
  /** New content to take into force; undefined keeps the last good one. */
  readonly content?: ParsedConfig;
  readonly overlay?: ParsedConfig | undefined;
}

/** What is to be said of a ConfigMap that was read; `unknown`: keys that match no module and were not there before. */
export interface ConfigNews extends Pick<JudgedConfig, "problems" | "warnings" | "changed"> {
  readonly unknown: readonly string[];
}

/** Whether there is no ConfigMap, though there should be one. */
export function configIsMissing({ config }: { readonly config: Pick<ConfigView, "condition"> }): boolean {
  return config.condition === "missing";
}

/** What a start with an invalid ConfigMap does (`--invalid-config`). */
export type InvalidConfig = "stop" | "last-good";

/** What an invalid ConfigMap leaves in force, now and at the next start. */
export function explainInvalid({
  config: { isInForce },
  invalidConfig,
}: Pick<View, "invalidConfig"> & { readonly config: Pick<ConfigView, "isInForce"> }): string {
  if (isInForce && invalidConfig === "last-good")
    return "what was accepted last stays in force until then, also over restarts";
  if (isInForce)
    return "what was accepted last stays in force until then, but not over a restart: the operator does not start with an invalid ConfigMap (--invalid-config=stop)";
  return invalidConfig === "last-good"
    ? "the operator does not start: no content that was accepted before is kept, or it is not valid any more (--invalid-config=last-good)"
    : "the operator does not start with an invalid ConfigMap (--invalid-config=stop)";
}

/** What is known of the ConfigMap, and of what is in force. */
export interface ConfigView extends ConfigFacts {
  readonly condition: ConfigCondition;
  readonly problems: readonly Problem[];
  /** resourceVersion of the ConfigMap that was last read. */
  readonly resourceVersion: string | undefined;
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

/** Everything known of one module directory, and of its runs. */
export interface ModuleView extends ModuleSettings, RunRecord, Readonly<Pick<ModuleRecord, Shown>> {
  readonly name: string;
  /** Set when a person is needed: the state is Invalid. */
  readonly problem: Problem | undefined;
  /** Its flag as it is now; whether it is on, the last discovery has decided. */
  readonly flag: boolean;
  /** Its CRDs are to be applied before its next run. */
  readonly awaitsCrds: boolean;
  /** Digest of what the ConfigMap says that concerns this module (section, settings, all flags, what keeps releases, global section). */
  readonly configDigest: string;
  /** Digest of what the ConfigMap gives its runs: its section and that of globals. */
  readonly givenDigest: string;
  /** Digest of the module's own part of the ConfigMap: section and settings. */
  readonly sectionDigest: string;
  /** Digest of the module's own merged values. */
  readonly valuesDigest: string;
  /** Digest of all merged values, the global ones included, for the status. */
  readonly wholeDigest: string;
  /** Merged values for the status; computed on demand. */
  readonly values: () => Json;
  /** JSON pointers into `values()` that the schemas mark as secret (`writeOnly`, `format: password`, `x-secret`). */
  readonly secretPaths?: ReadonlySet<string>;
  /** The release on the server is not as its last run left it (deleted, rolled back, marked failed by hand). */
  readonly releaseMoved: boolean;
  /** Where Ready takes health: why its release is not known to be healthy. */
  readonly ailing: HealthVerdict | undefined;
  /** Why its readiness probe does not let it be Ready; undefined where that succeeded, and where it has none. */
  readonly unready: Pick<HealthVerdict, "status" | "message"> | undefined;
  /** Its release is not healthy in time, and a run is to go back to what was good. */
  readonly goesBack: boolean;
}

/** What a view shows of a record as it is. */
type Shown =
  | "module"
  | "decided"
  | "enabled"
  | "enabledBy"
  | "enabledReason"
  | "release"
  | "absent"
  | "deferred"
  | "health"
  | "drift"
  | "crdWork"
  | "unread"
  | "troubles"
  | "files"
  | "requestedToken"
  | "leaves";

/** A removal that exceeds the deletion limit: what a person has to confirm (docs/RUNNING.md, "The deletion limit"). */
export interface BrakeView {
  /** What is to be removed: modules, and releases without a module. */
  readonly modules: readonly string[];
  /** The same, each with what tells it from a later installation. */
  readonly covers: readonly string[];
  /** How many were removed before, within the window. */
  readonly removed: number;
  /** How many were installed or enabled at the start of the window, all of these included. */
  readonly installed: number;
  /** What the confirmation has to name. */
  readonly token: string;
  /** A person has confirmed it. */
  readonly confirmed: boolean;
}

/** What the deletion limit counts over time. Monotonic times in ms; of this process alone. */
export interface DeletionWindow {
  /** Modules and releases that were removed without a confirmation, and when. */
  readonly removed: ReadonlyMap<string, number>;
  /** Modules that are installed or on, and since when they are known. */
  readonly known: ReadonlyMap<string, number>;
}

/** Why a removal that is owed does not happen now: of a module that is off, or of a release without a module. */
export interface Hold {
  readonly of: "delete" | "purge";
  /** What is held, and why. */
  readonly text: string;
}

/** What was found of an object that a module requires. */
export interface RequiredFinding {
  /** What is wrong with it; undefined where nothing is. */
  readonly message: string | undefined;
}

/** The read-only state of one moment: what is recorded later shows in another one. */
export interface View {
  readonly boot: BootPhase;
  /** `--module-queues`. */
  readonly moduleQueues: ModuleQueues;
  readonly invalidConfig: InvalidConfig;
  /** The AddonOperator of this operator. */
  readonly operator: { readonly name: string; readonly namespace: string };
  readonly config: ConfigView;
  readonly reload: ReloadRecord;
  readonly tree: Tree;
  readonly modules: ReadonlyMap<string, ModuleView>;
  /** The configuration that a reload has to handle now. */
  readonly coverage: Coverage & { readonly globals: string };
  /** The last change of globals or flags, as the cause of the reload that follows. */
  readonly globalCause: Cause | undefined;
  /** A reload has to look once more: a file, a module of a release, or the ConfigMap was missing. */
  readonly secondLook: boolean;
  /** Modules whose files have changed since they were read, or all: then there is more to read than single modules. */
  readonly movedFiles: ReadonlySet<string> | "all";
  /** Names of enabled modules, in order. */
  readonly enabledModules: readonly string[];
  readonly holds: readonly Hold[];
  /** Set while a removal is held, as the last discovery found it. */
  readonly brake: BrakeView | undefined;
  /** The token by which a person confirms a removal. */
  readonly confirmation: string | undefined;
  readonly deletions: DeletionWindow;
  /** Removals of the converge under way that are still ahead: modules, and releases without a module. */
  readonly removing: readonly string[];
  /** Since when releases have had no module in the tree, in ms since the epoch. */
  readonly orphans: ReadonlyMap<string, number>;
  /** What is known of the objects that modules require, by `requiredKey`; nothing before the first look. */
  readonly objects: ReadonlyMap<string, RequiredFinding>;
  /** What the API server said of its version at the last reload that asked; unknown before one that has to. */
  readonly serverVersion: string | undefined;
  /** API rights that the operator lacks, as `verb resource.group`. */
  readonly missingRights: readonly string[];
  /** Why some kubernetes bindings of global hooks cannot work, in words. */
  readonly troubles: readonly string[];
  readonly requestedToken: string | undefined;
  readonly handledToken: string | undefined;
}

/** What is known of the operator as a whole; nothing of it is derived. */
export type OperatorState = Omit<View, "tree" | "modules" | "coverage" | "enabledModules">;

/** No file has changed that is still to be read. */
export const NO_FILES: ReadonlySet<string> = new Set();

/** The state before anything was seen. */
export const BLANK: OperatorState = {
  boot: "loading",
  moduleQueues: "main",
  invalidConfig: "stop",
  operator: { name: "addon-operator", namespace: "default" },
  config: {
    condition: "ok",
    problems: [],
    resourceVersion: undefined,
    unknownKeys: [],
    digest: "",
    isInForce: false,
    isFrozen: false,
  },
  reload: {
    phase: "idle",
    cause: undefined,
    startedAt: undefined,
    finishedAt: undefined,
    heldUp: false,
    remaining: [],
    covered: undefined,
    rounds: 0,
    isUnstable: false,
    content: undefined,
  },
  globalCause: undefined,
  secondLook: false,
  movedFiles: NO_FILES,
  holds: [],
  brake: undefined,
  confirmation: undefined,
  deletions: { removed: new Map(), known: new Map() },
  removing: [],
  orphans: new Map(),
  objects: new Map(),
  serverVersion: undefined,
  missingRights: [],
  troubles: [],
  requestedToken: undefined,
  handledToken: undefined,
};

/** All objects of its release that are known to be missing, whether or not they are restored at once. */
export function missingObjects({ absent, deferred }: Pick<ModuleView, "absent" | "deferred">): string[] {
  return [...new Set([...absent, ...deferred])];
}

/** The tree before the directories were read. */
export const NO_TREE: Tree = {
  modules: [],
  globalValues: undefined,
  globalSchemas: {},
  globalHookFiles: [],
  problems: [],
  warnings: [],
  purgeHolds: [],
};
