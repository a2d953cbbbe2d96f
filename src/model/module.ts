/** Modules as they are on disk, and the tree of everything that the directories hold. */

import type { HookFile } from "./binding.ts";
import type { Json, JsonObject } from "./json.ts";
import type { Problem } from "./problem.ts";

/** A section of values: a map or a list. */
export type Section = JsonObject | Json[];

/** Key of the section that all modules share, in every table of sections. */
export const GLOBAL = "global";

/** One OpenAPI schema file as read. */
export interface SchemaFile {
  readonly file: string;
  readonly text: string;
}

/** A file that a schema refers to. */
export interface SchemaReference {
  /** The absolute path as the reference names it. */
  readonly file: string;
  /** Undefined where it cannot be used, for the reason in `fault`. */
  readonly text?: string;
  readonly fault?: string;
  /** Changes when the file does; empty where there is none. */
  readonly signature: string;
}

/** The schema files of `global` or of a module. */
export interface SchemaFiles {
  readonly config?: SchemaFile;
  readonly values?: SchemaFile;
  /** The files that these refer to, directly or not. */
  readonly references?: readonly SchemaReference[];
}

/** What one `values.yaml` says about a module: its section and its `<camel>Enabled` flag. */
export interface StaticValues {
  readonly file: string;
  readonly section: Section | undefined;
  readonly enabled: boolean | undefined;
  /** File and line of each key, by a JSON pointer that begins with the section's key. */
  readonly placeOf?: (pointer: string) => string | undefined;
}

/**
 * What a module's chart is: one that finds the section under the module's key; one that has it as root values, as
 * public charts do; bare `templates/`, which get a generated Chart.yaml; or there is none.
 */
export type ChartKind = "own" | "root" | "synthetic" | "none";

/**
 * What `addon.yaml` says of a module beside its chart (docs/MODULES.md, "addon.yaml"). A new key is a line here and in
 * `modules/addon.schema.json`: `Module` has every one of them.
 */
export interface ModuleTerms {
  readonly requires?: Requires | undefined;
  /** Modules that run before this one where they are on. */
  readonly after?: readonly string[] | undefined;
  readonly helm?: HelmTerms | undefined;
  readonly health?: HealthTerms | undefined;
  readonly drift?: DriftTerms | undefined;
  /** What becomes of an upgrade that fails, in place of `--on-failure`. */
  readonly onFailure?: OnFailure | undefined;
  /** How often an upgrade may fail before it is rolled back; 3 where it is left out. */
  readonly retries?: number | undefined;
}

/** What is no drift of one module's objects, beside what never is. */
interface DriftTerms {
  readonly ignore?: readonly DriftIgnore[];
}

/** Fields that others may change, of one object or of all of a kind. */
export interface DriftIgnore {
  readonly kind: string;
  readonly name?: string;
  /** JSON pointers; what lies below is meant too, and the empty one means all. */
  readonly paths: readonly string[];
}

/** An upgrade that fails is tried again, or after some tries the release goes back to what was good. */
export type OnFailure = "retry" | "rollback";

/** Failed upgrades before a module goes back, where it does not say. */
const RETRIES = 3;

/** Whether upgrades are rolled back; then, after how many failures. */
export function retriesOf({ onFailure, retries }: ModuleTerms, otherwise: OnFailure): number | undefined {
  return (onFailure ?? otherwise) === "rollback" ? (retries ?? RETRIES) : undefined;
}

/** How helm works for one module, where it is not as the settings say. */
export interface HelmTerms {
  /** A duration, in place of `--helm-timeout`. */
  readonly timeout?: string;
  /** An upgrade ends when what it applied is ready. */
  readonly wait?: boolean;
  /** Existing objects of the chart that no release, or another one, owns are taken over. */
  readonly takeOwnership?: boolean;
}

/** What the health of one module is about, where it is not as the settings say. */
export interface HealthTerms {
  /** A duration, in place of `--health-timeout`. */
  readonly timeout?: string;
  /** False: the readiness probe of its batch hooks is not run. */
  readonly readinessProbe?: boolean;
  /** Objects of the release that do not count: all of a kind, or one of them. */
  readonly ignore?: readonly { readonly kind: string; readonly name?: string }[];
  /** Kinds that are judged by an expression. */
  readonly checks?: readonly HealthCheck[];
}

/** What tells that objects of a kind are as they should be. */
interface HealthCheck {
  readonly apiVersion: string;
  readonly kind: string;
  /** An expression in CEL over `object` that is true where it is. */
  readonly cel: string;
}

/** What has to be there before a module runs (docs/MODULES.md, "What a module requires"). */
interface Requires {
  /** Ranges of versions, by module. */
  readonly modules?: Readonly<Record<string, string>>;
  readonly objects?: readonly RequiredObject[];
  /** A range of versions of the API server. */
  readonly kubernetes?: string;
}

/** An object of the cluster that has to be there. */
export interface RequiredObject {
  readonly apiVersion: string;
  readonly kind: string;
  /** The operator's own where none is named. */
  readonly namespace?: string;
  readonly name: string;
  /** Type of a condition in its status that has to be True. */
  readonly condition?: string;
  /** An expression in CEL over `object` that has to be true. */
  readonly cel?: string;
}

/** The same for objects that are required in the same way. */
export function requiredKey({ apiVersion, kind, namespace, name, condition, cel }: RequiredObject): string {
  return JSON.stringify([apiVersion, kind, namespace, name, condition, cel]);
}

/** One module directory as read from disk. */
export interface Module extends ModuleTerms {
  readonly name: string;
  /** Key of its section in every values source: the name in camelCase. */
  readonly valuesKey: string;
  readonly order: number;
  readonly dir: string;
  readonly chart: ChartKind;
  /** The module's directory, or where `addon.yaml` says that the chart lies. */
  readonly chartDir: string;
  readonly chartVersion: string | undefined;
  readonly enabledScript: string | undefined;
  readonly hookFiles: readonly HookFile[];
  /** Of its `crds/`, and of a chart that `addon.yaml` names with its sub-charts. */
  readonly crdFiles: readonly string[];
  /** From `<modules dir>/values.yaml`. */
  readonly common: StaticValues;
  /** From the module's own `values.yaml`. */
  readonly own: StaticValues;
  readonly schemas: SchemaFiles;
  /** Set when a file of the module is broken: the module is Invalid, and is neither run, deleted nor purged. */
  readonly problem: Problem | undefined;
  readonly warnings: readonly string[];
  /** Scripts that would run if they were executable, each with the remedy. */
  readonly idleFiles?: readonly string[];
  /** Warnings of what this version still reads and the next one does not. */
  readonly deprecations?: readonly string[];
  /** Set while files of the module, or the whole directory, are missing and no second read has confirmed that. */
  readonly gone?: Gone;
}

/**
 * What the last read saw and this one does not; the previous content stays in force until a second read confirms
 * it.
 */
interface Gone {
  /** When it was first missed, in ms since the epoch. */
  readonly since: number;
  /** Paths below the module's directory; `.` is the directory itself. */
  readonly what: readonly string[];
}

/** Everything that the modules directories and the global hooks directory say. */
export interface Tree {
  /** By order, then name. Broken ones included. */
  readonly modules: readonly Module[];
  /** `global` of all `modules/values.yaml` merged; for each leaf the first directory wins. */
  readonly globalValues: JsonObject | undefined;
  /** File and line of its keys, by a JSON pointer that begins with `/global`. */
  readonly globalPlaceOf?: (pointer: string) => string | undefined;
  readonly globalSchemas: SchemaFiles;
  readonly globalHookFiles: readonly HookFile[];
  /** Problems of `modules/values.yaml`, global hooks or schemas: fatal at start, logged at a reload. */
  readonly problems: readonly Problem[];
  readonly warnings: readonly string[];
  /** Global hooks that would run if they were executable, each with the remedy. */
  readonly idleFiles?: readonly string[];
  /**
   * Why nothing may be purged now: a directory yields no module, cannot be read, or holds a dangling or invalid
   * entry. Empty when purging is safe.
   */
  readonly purgeHolds: readonly string[];
  /** Directories whose name cannot be a module's; each is also a warning and a reason not to purge. */
  readonly refused?: readonly Problem[];
  /** When a further read could confirm what is missing, in ms since the epoch; undefined when nothing is missing. */
  readonly recheckAt?: number;
}

export type EnabledBy = "values" | "module-values" | "hook" | "configmap" | "script" | "none";

/** The camelCase key of a kebab-case module name, as the Go operator builds it: `ingress-nginx` → `ingressNginx`. */
export function camelCase(kebab: string): string {
  return kebab.replaceAll(/-([a-z0-9])/g, (_, letter: string) => letter.toUpperCase());
}
