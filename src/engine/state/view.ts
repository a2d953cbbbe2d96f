/** The read-only view of the state: what the operator knows at one moment. */

import type { HealthCondition } from "../../kube/health/index.ts";
import type { ReleaseMove } from "../../helm/index.ts";
import { ModuleQueues, type Cause, type Json, type Problem, type Tree } from "../../base/model/index.ts";
import type { ConfigFacts, ModuleSettings } from "../../values/index.ts";
import type { ModuleRecord } from "./module-record.ts";
import type { ConvergeDigests, ConvergeRecord, RunRecord } from "./run-record.ts";
/** Phase of the start: `waiting` until the ConfigMap's content is applied, `converging` until the first converge has ended, then `running`. */
export type BootPhase = "loading" | "waiting" | "onStartup" | "synchronization" | "converging" | "running";

/** State of the ConfigMap on the server. Unless it is `ok`, the last valid content stays in force. */
type ConfigCondition = "ok" | "invalid" | "missing";

/** Whether the ConfigMap is missing on the server although it must exist. */
export function configIsMissing({ config }: Pick<View, "config">): boolean {
  return config.condition === "missing";
}

/** What a start with an invalid ConfigMap does (`--invalid-config`). */
export type InvalidConfig = "stop" | "last-good";

/** Explains which content stays in force while the ConfigMap is invalid, now (`isInForce`: some earlier content) and after a restart. */
export function explainInvalid({ config, invalidConfig }: Pick<View, "config" | "invalidConfig">): string {
  const { isInForce } = config;
  if (isInForce && invalidConfig === "last-good")
    return "what was accepted last stays in force until then, also over restarts";
  if (isInForce)
    return "what was accepted last stays in force until then, but not over a restart: the operator does not start with an invalid ConfigMap (--invalid-config=stop)";
  return invalidConfig === "last-good"
    ? "the operator does not start: no content that was accepted before is kept, or it is not valid any more (--invalid-config=last-good)"
    : "the operator does not start with an invalid ConfigMap (--invalid-config=stop)";
}

/** The ConfigMap on the server, and the content in force. */
export interface ConfigView extends ConfigFacts {
  readonly condition: ConfigCondition;
  readonly problems: readonly Problem[];
  /** resourceVersion of the ConfigMap that was last read. */
  readonly resourceVersion: string | undefined;
}

/** A module as the plan and everyone who displays it read it: its record, its settings, and what follows from both. */
export interface ModuleView extends ModuleSettings, RunRecord, Omit<ModuleRecord, "run"> {
  readonly name: string;
  /** Set if a user must act: the state is Invalid. */
  readonly problem: Problem | undefined;
  /** The current flag; `enabled` is the decision of the last discovery. */
  readonly flag: boolean;
  /** See `ModuleFlag`: the file that may set the flag cannot be read. */
  readonly isFlagUnknown: boolean;
  /** CRDs of the module must be applied before its next run. */
  readonly awaitsCrds: boolean;
  /** Digest of the ConfigMap content that affects this module (section, settings, all flags, retained releases, global section). */
  readonly configDigest: string;
  /** Digest of the ConfigMap content that its runs use: its section and the global section. */
  readonly givenDigest: string;
  /** Digest of the module's own part of the ConfigMap: section and settings. */
  readonly sectionDigest: string;
  /** Digest of the module's own merged values. */
  readonly valuesDigest: string;
  /** Digest of all merged values, the global ones included, for the status. */
  readonly wholeDigest: string;
  /** Secrets and ConfigMaps with values that are not there, the global ones included. */
  readonly missingValues: readonly string[];
  /** Secrets and ConfigMaps whose last good content stays in force, and why. */
  readonly staleValues: readonly string[];
  /** Merged values for the status; computed on demand. */
  readonly values: () => Json;
  /** JSON pointers into `values()` that the schemas mark as secret (`writeOnly`, `format: password`, `x-secret`). */
  readonly secretPaths?: ReadonlySet<string>;
  /** The release on the server differs from what the last run left (deleted, rolled back, marked failed by hand). */
  readonly isReleaseChangedByHand: boolean;
  /** If Ready requires health: why the release is not known to be healthy. */
  readonly unhealthy: HealthCondition | undefined;
  /** Why the readiness probe keeps the module from Ready; undefined if it succeeded, and without a probe. */
  readonly unready: Pick<HealthCondition, "status" | "message"> | undefined;
  /** The release was not healthy in time, so the next run rolls back. */
  readonly nextRunRollsBack: boolean;
}

/** The move of the release of a module to another namespace, which counts as a removal. */
export interface HeldMove extends ReleaseMove {
  readonly name: string;
}

/**
 * Removals that need a confirmation, because they exceed the deletion limit or, as moves of releases, delete data
 * (docs/guides/running.md, "The deletion limit").
 */
export interface DeletionLimitView {
  /** Names of what is to be removed or moved: modules, and orphan releases. */
  readonly modules: readonly string[];
  /** The same, each with an id that differs for a later installation. */
  readonly covers: readonly string[];
  /** Those of them whose release would move. */
  readonly moves: readonly HeldMove[];
  /** There are more removals than `--delete-brake` allows. Otherwise, only moves that delete data need the confirmation. */
  readonly isExceeded: boolean;
  /** Removals within the window before this one. */
  readonly removed: number;
  /** Number of installed or enabled modules at the start of the window. */
  readonly installed: number;
  /** Token that the confirmation must name. */
  readonly token: string;
  /** A user has confirmed the removal. */
  readonly confirmed: boolean;
}

/** What the deletion limit counts over time, in this process. Times are monotonic ms. */
export interface DeletionWindow {
  /** Modules and releases removed without a confirmation, with the time of the removal. */
  readonly removed: ReadonlyMap<string, number>;
  /** Modules that are installed or enabled, with the time since they are known. */
  readonly known: ReadonlyMap<string, number>;
}

/** Why a due removal is blocked: of a module that is off (delete), of an orphan release (purge), or of the old objects of a release (move). */
export interface RemovalBlocker {
  readonly action: "delete" | "purge" | "move";
  /** What is blocked, and why. */
  readonly text: string;
}

/** The result of a check of an object that a module requires. */
interface RequiredFinding {
  /** What is wrong with the object; undefined = nothing. */
  readonly message: string | undefined;
}

/** An immutable snapshot of the state. */
export interface View {
  readonly boot: BootPhase;
  readonly moduleQueues: ModuleQueues;
  readonly invalidConfig: InvalidConfig;
  /** The AddonOperator of this operator. */
  readonly operator: { readonly name: string; readonly namespace: string };
  readonly config: ConfigView;
  readonly converge: ConvergeRecord;
  readonly tree: Tree;
  readonly modules: ReadonlyMap<string, ModuleView>;
  /** Secrets and ConfigMaps with values were read, and the global values are complete. */
  readonly areSourcesRead: boolean;
  /** Secrets and ConfigMaps with global values that are not there. */
  readonly missingGlobals: readonly string[];
  /** The current configuration, which a converge must handle. */
  readonly convergeDigests: ConvergeDigests & { readonly globals: string };
  /** The last change of global values or flags, as the cause of the next converge. */
  readonly globalCause: Cause | undefined;
  /** Another converge is due: a file, a module of a release, or the ConfigMap was missing. */
  readonly secondCheck: boolean;
  /** Modules whose files have changed since they were read; `all` = more than single modules. */
  readonly modulesWithChangedFiles: ReadonlySet<string> | "all";
  /** Names of enabled modules, in order. */
  readonly enabledModules: readonly string[];
  readonly removalBlockers: readonly RemovalBlocker[];
  /** The removal that the last discovery blocked. */
  readonly deletionLimit: DeletionLimitView | undefined;
  /** The token in the user's confirmation of a removal. */
  readonly confirmation: string | undefined;
  readonly deletions: DeletionWindow;
  /** The moves of releases that the last discovery allowed: the new namespace, by module. */
  readonly allowedMoves: ReadonlyMap<string, string>;
  /** Removals that are still due in the converge in progress: modules, and orphan releases. */
  readonly pendingRemovals: readonly string[];
  /** Releases without a module in the tree, and since when, in ms since the epoch. */
  readonly orphans: ReadonlyMap<string, number>;
  /** Findings about objects that modules require, by `requiredKey`; no entry before the first check. */
  readonly objects: ReadonlyMap<string, RequiredFinding>;
  /** Version of the API server at the last converge that needed it; undefined before. */
  readonly serverVersion: string | undefined;
  /** API permissions that the operator lacks, as `verb resource.group`. */
  readonly missingRights: readonly string[];
  /** Values have more secrets than can be known: every word that may be one is hidden (`KnownSecrets`). */
  readonly hidesWords: boolean;
  /** Why some kubernetes bindings of global hooks cannot work. */
  readonly issues: readonly string[];
  /** Why the ModuleSources cannot be read, or why a missing one does not count as deleted: nothing is removed. */
  readonly sourcesProblem: string | undefined;
  /** Why the Lease cannot be read or written, with a remedy. */
  readonly leaseIssue: string | undefined;
  /** Which of the operator's own objects cannot be watched, and why. */
  readonly watchIssues: readonly string[];
  /** What is wrong with single ModuleSources, one line for each: an invalid spec, refused content, or checks that fail. */
  readonly sourceProblems: readonly string[];
  /** Why webhooks are not served or registered as wanted. */
  readonly webhookIssues: readonly string[];
  readonly requestedToken: string | undefined;
  /** The token of the last request that a converge has started for. */
  readonly handledToken: string | undefined;
  /** The token of the last request whose converge has ended. */
  readonly convergedToken: string | undefined;
  /** Ids of bindings of global hooks whose Synchronization succeeded. */
  readonly synchronized: ReadonlySet<string>;
}

/** The recorded part of the view, without modules and derived fields. */
export type OperatorState = Omit<
  View,
  | "hidesWords"
  | "tree"
  | "modules"
  | "convergeDigests"
  | "areSourcesRead"
  | "missingGlobals"
  | "enabledModules"
>;

export const NO_FILES: ReadonlySet<string> = new Set();

/** The state before anything is recorded. */
export const BLANK: OperatorState = {
  boot: "loading",
  moduleQueues: new ModuleQueues(),
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
  converge: {
    phase: "idle",
    cause: undefined,
    startedAt: undefined,
    begunAt: 0,
    finishedAt: undefined,
    isBlocked: false,
    remaining: [],
    handled: undefined,
    rounds: 0,
    isUnstable: false,
    content: undefined,
  },
  globalCause: undefined,
  secondCheck: false,
  modulesWithChangedFiles: NO_FILES,
  removalBlockers: [],
  deletionLimit: undefined,
  confirmation: undefined,
  deletions: { removed: new Map(), known: new Map() },
  allowedMoves: new Map(),
  pendingRemovals: [],
  orphans: new Map(),
  objects: new Map(),
  serverVersion: undefined,
  missingRights: [],
  issues: [],
  webhookIssues: [],
  watchIssues: [],
  leaseIssue: undefined,
  sourcesProblem: undefined,
  sourceProblems: [],
  requestedToken: undefined,
  handledToken: undefined,
  convergedToken: undefined,
  synchronized: new Set(),
};

/** All missing objects of the release: due to be restored, and deferred by a back-off. */
export function listMissingObjects(view: Pick<ModuleView, "missingObjects" | "deferredObjects">): string[] {
  return [...new Set([...view.missingObjects, ...view.deferredObjects])];
}

/**
 * Warnings to report beside the state of an enabled module, because they do not change it: a release without a chart, values
 * that cannot be read again, bindings that cannot work, scripts that are not executable.
 */
export function collectWarnings(view: ModuleView): readonly string[] {
  const { staleValues, issues, module } = view;
  return [...warnOfMissingChart(view), ...staleValues, ...issues, ...(module.notExecutableWarnings ?? [])];
}

/** Warns of a release whose chart was removed from the module's directory; an empty list if there is no such release. */
function warnOfMissingChart({ module, release, enabled, problem }: ModuleView): readonly string[] {
  const isUninstalled = release === undefined || release.status === "uninstalled";
  // A module with unreadable files may still have a chart.
  if (!enabled || module.chart !== "none" || isUninstalled || problem !== undefined) return [];
  const remedy = `put Chart.yaml and templates/ back into ${module.dir}, or disable the module to remove the release`;
  return [`it has no chart any more, and its release ${release.name} stays as it is: ${remedy}`];
}

/** The tree before the directories are read. */
export const NO_TREE: Tree = {
  modules: [],
  globalValues: undefined,
  globalSchemas: {},
  globalHookFiles: [],
  problems: [],
  warnings: [],
  purgeBlockers: [],
};
