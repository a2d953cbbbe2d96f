/** Modules as read from disk, and the tree of all directories. */

import type { HookFile } from "./binding.ts";
import type { Container, JsonObject } from "./json.ts";
import type { Problem } from "./problem.ts";
import type { ValuesSource } from "./references.ts";

/** A section of values. */
export type Section = Container;

/** Key of the section that all modules share, in every table of sections. */
export const GLOBAL = "global";

/** One OpenAPI schema file as read. */
export interface SchemaFile {
  readonly file: string;
  readonly text: string;
}

export interface SchemaReference {
  /** The absolute path as the reference names it. */
  readonly file: string;
  /** Undefined if the file is unusable; `problem` has the reason. */
  readonly text?: string;
  readonly problem?: string;
  /** Changes when the file does; empty if the file does not exist. */
  readonly signature: string;
}

export interface SchemaFiles {
  readonly config?: SchemaFile;
  readonly values?: SchemaFile;
  /** The files that these reference, directly or not. */
  readonly references?: readonly SchemaReference[];
}

/** What one `values.yaml` says about a module: its section and its `<camel>Enabled` flag. */
export interface StaticValues {
  readonly file: string;
  readonly section: Section | undefined;
  readonly enabled: boolean | undefined;
  /** The file cannot be read or parsed: it may enable or disable the module. */
  readonly isUnreadable?: boolean;
  /** File and line of each key, by a JSON pointer that begins with the section's key. */
  readonly findPosition?: (pointer: string) => string | undefined;
}

/**
 * The kind of a module's chart: `own` reads the section under the module's key; `root` gets it as root values, as public
 * charts do; `synthetic` is a `templates/` directory with a generated Chart.yaml; `none` = no chart.
 */
export type ChartKind = "own" | "root" | "synthetic" | "none";

/** Settings of a module in `addon.yaml` besides its chart. A new key is a line here, in `modules/addon.schema.json`, and in `NEWER_KEYS`. */
export interface AddonOptions {
  readonly requires?: Requires | undefined;
  /** Modules that run before this one if they are enabled. */
  readonly after?: readonly string[] | undefined;
  readonly helm?: HelmOverrides | undefined;
  readonly health?: HealthOverrides | undefined;
  readonly drift?: DriftOverrides | undefined;
  /** Reaction to a failed upgrade, instead of `--on-failure`. */
  readonly onFailure?: OnFailure | undefined;
  /** Number of failures before an upgrade is rolled back; default 3. */
  readonly retries?: number | undefined;
  /** Values from Secrets and ConfigMaps, the last one strongest. */
  readonly valuesFrom?: readonly ValuesSource[] | undefined;
  /** Namespace of the release, and of objects without one; undefined = the operator's. */
  readonly namespace?: string | undefined;
  /** ServiceAccount as which helm and hooks of the module act: `NAME` or `NAMESPACE/NAME`. */
  readonly serviceAccountName?: string | undefined;
}

/** What is known about the account of a module whose `addon.yaml` may be broken. */
export interface AccountStatus {
  /** True if the file may name an account that cannot be read: nothing is done as the operator in its place. */
  readonly accountIsUnknown?: boolean | undefined;
}

/** Why the operator's settings do not allow what `addon.yaml` of a module says; `file` is its path. */
export type AddonCheck = (
  module: AddonOptions & AccountStatus & { readonly name: string; readonly chart: ChartKind },
  file: string,
) => Problem | undefined;

/** Additional differences that do not count as drift of one module's objects. */
interface DriftOverrides {
  readonly ignore?: readonly DriftIgnore[];
}

/** Fields that others may change, of one object or of all of a kind. */
export interface DriftIgnore {
  readonly kind: string;
  readonly name?: string;
  /** JSON pointers, which include everything below; the empty one means the whole object. */
  readonly paths: readonly string[];
}

/** A failed upgrade is retried, or rolled back after some tries. */
export type OnFailure = "retry" | "rollback";

/** Default number of failed upgrades before a rollback. */
const DEFAULT_RETRIES = 3;

/** After how many failed upgrades the module is rolled back; undefined = never. `otherwise` applies where `addon.yaml` says nothing. */
export function retriesOf({ onFailure, retries }: AddonOptions, otherwise: OnFailure): number | undefined {
  return (onFailure ?? otherwise) === "rollback" ? (retries ?? DEFAULT_RETRIES) : undefined;
}

/** Overrides of helm settings for one module. */
export interface HelmOverrides {
  /** A duration, instead of `--helm-timeout`. */
  readonly timeout?: string;
  /** Whether an upgrade waits until its objects are ready. */
  readonly wait?: boolean;
  /** Whether to adopt existing objects of the chart that no release, or another one, owns. */
  readonly takeOwnership?: boolean;
  /** How Helm 4 applies objects: in the server or in the client; default `auto`, as the last revision was applied. */
  readonly apply?: "server" | "client" | "auto";
}

/** Overrides of health settings for one module. */
export interface HealthOverrides {
  /** A duration, instead of `--health-timeout`. */
  readonly timeout?: string;
  /** False disables the readiness probe of its batch hooks. */
  readonly readinessProbe?: boolean;
  /** Objects of the release that health ignores: all of a kind, or one of them. */
  readonly ignore?: readonly { readonly kind: string; readonly name?: string }[];
  /** Kinds whose health an expression decides. */
  readonly checks?: readonly HealthCheck[];
}

interface HealthCheck {
  readonly apiVersion: string;
  readonly kind: string;
  /** A CEL expression over `object` that is true if the object is healthy. */
  readonly cel: string;
}

/** Requirements that must be met before a module runs (docs/reference/modules.md, "What a module requires"). */
interface Requires {
  /** Ranges of versions, by module. */
  readonly modules?: Readonly<Record<string, string>>;
  readonly objects?: readonly RequiredObject[];
  /** A range of versions of the API server. */
  readonly kubernetes?: string;
}

/** An object of the cluster that must exist. */
export interface RequiredObject {
  readonly apiVersion: string;
  readonly kind: string;
  /** Default: the operator's namespace. */
  readonly namespace?: string;
  readonly name: string;
  /** Type of a condition in its status that must be True. */
  readonly condition?: string;
  /** A CEL expression over `object` that must be true. */
  readonly cel?: string;
}

/**
 * A key for maps of requirements: equal for equal requirements. A module with an account has keys of its own, because it learns only of
 * objects that its account may get.
 */
export function requiredKey(object: RequiredObject, by?: AccountOfModule): string {
  const { apiVersion, kind, namespace, name, condition, cel } = object;
  const asker = by !== undefined && mayHaveAccount(by) ? [by.name, by.serviceAccountName ?? null] : [];
  return JSON.stringify([apiVersion, kind, namespace, name, condition, cel, ...asker]);
}

type AccountOfModule = Pick<Module, "name" | "serviceAccountName" | "accountIsUnknown">;

/** Whether a module acts as a ServiceAccount, or may do so, because the file that names it cannot be read. */
export function mayHaveAccount({ serviceAccountName, accountIsUnknown }: AccountOfModule): boolean {
  return serviceAccountName !== undefined || accountIsUnknown === true;
}

/** Where a module from a registry comes from. */
export interface ModuleOrigin {
  /** Name of the ModuleSource. */
  readonly source: string;
  /** Undefined before anything of it is locked. */
  readonly version: string | undefined;
  readonly digest: string | undefined;
  /** Name of the key that signed it. */
  readonly verifiedBy: string | undefined;
  /** No ModuleSource names it any more: it is off. */
  readonly removed: boolean;
  /** Why it has no content that may be used; what it had before stays in force, but it does not run. */
  readonly problem: Problem | undefined;
}

/** What newer content of a module waits for; `registry`: newer content cannot be looked up. */
export type UpdateWait =
  | "approval"
  | "window"
  | "age"
  | "turn"
  | "older"
  | "rejected"
  | "refused"
  | "blocked"
  | "withdrawn"
  | "registry";

/** Newer content of a module that is not used yet, or why none is found. */
export interface WaitingUpdate {
  /** Name of the ModuleSource. */
  readonly source: string;
  readonly waitsFor: UpdateWait;
  /** Undefined where the content is not known. */
  readonly version: string | undefined;
  readonly digest: string | undefined;
  /** When it was first seen, or since when nothing is found, in milliseconds since the epoch. */
  readonly since: number;
  /** When it is used; undefined = when someone acts. */
  readonly until: number | undefined;
  /** Why it waits, and the remedy, in one line. */
  readonly message: string;
}

/** One module directory as read from disk. */
export interface Module extends AddonOptions, AccountStatus {
  readonly name: string;
  /** Key of its section in every values source: the name in camelCase. */
  readonly valuesKey: string;
  readonly order: number;
  readonly dir: string;
  readonly chart: ChartKind;
  /** The module's directory, or the chart directory that `addon.yaml` names. */
  readonly chartDir: string;
  readonly chartVersion: string | undefined;
  readonly enabledScript: string | undefined;
  readonly hookFiles: readonly HookFile[];
  /** CRD files of its `crds/`, and of a chart that `addon.yaml` names with its sub-charts. */
  readonly crdFiles: readonly string[];
  /** From `<modules dir>/values.yaml`. */
  readonly common: StaticValues;
  /** From the module's own `values.yaml`. */
  readonly own: StaticValues;
  readonly schemas: SchemaFiles;
  /** Set when a file of the module is broken: the module is Invalid, and is neither run, deleted nor purged. */
  readonly problem: Problem | undefined;
  readonly warnings: readonly string[];
  /** Undefined for a module of a directory that the operator only reads. */
  readonly origin?: ModuleOrigin | undefined;
  /** Scripts without the executable bit, each with the remedy. */
  readonly notExecutableWarnings?: readonly string[];
  /** Warnings about content that the next version does not read any more. */
  readonly deprecations?: readonly string[];
  /** Set while files of the module, or the whole directory, are missing and no second read has confirmed that. */
  readonly unconfirmedMissing?: MissingPaths;
}

/** Paths that the last read found and this one does not; the previous content stays in force until a second read confirms the deletion. */
interface MissingPaths {
  /** Time of the first read without it, on the monotonic clock in ms. */
  readonly since: number;
  /** Paths below the module's directory; `.` is the directory itself. */
  readonly what: readonly string[];
}

/** The content of the modules directories and the global hooks directory. */
export interface Tree {
  /** By order, then name. Broken ones included. */
  readonly modules: readonly Module[];
  /** `global` of all `modules/values.yaml` merged; for each leaf the first directory wins. */
  readonly globalValues: JsonObject | undefined;
  /** File and line of its keys, by a JSON pointer that begins with `/global`. */
  readonly findGlobalPosition?: (pointer: string) => string | undefined;
  readonly globalSchemas: SchemaFiles;
  readonly globalHookFiles: readonly HookFile[];
  /** Problems of `modules/values.yaml`, global hooks or schemas: fatal at start, logged at a converge. */
  readonly problems: readonly Problem[];
  readonly warnings: readonly string[];
  /** Global hooks without the executable bit, each with the remedy. */
  readonly notExecutableWarnings?: readonly string[];
  /** Reasons not to purge releases now, e.g. a directory that yields no module or cannot be read. Empty if purging is safe. */
  readonly purgeBlockers: readonly string[];
  /** Directories whose name cannot be a module's; each is also a warning and a reason not to purge. */
  readonly refused?: readonly Problem[];
  /** Time at which another read can confirm missing paths, on the monotonic clock in ms; undefined if none is missing. */
  readonly recheckAt?: number;
}

/** The sources of flags that enable modules, by their names in the Go operator, the weakest first. */
export const FLAG_EXTENDERS = ["Static", "DynamicallyEnabled", "KubeConfig"] as const;
export type FlagExtender = (typeof FLAG_EXTENDERS)[number];
/** The name of `enabled` scripts in the Go operator. */
export const SCRIPT_EXTENDER = "ScriptEnabled";

/** What enables modules (`--applied-module-extenders`). */
export interface AppliedExtenders {
  /** The weakest first. */
  readonly flags: readonly FlagExtender[];
  /** `enabled` scripts can disable modules. */
  readonly isScriptApplied: boolean;
}

export type EnabledBy = "values" | "module-values" | "hook" | "configmap" | "script" | "source" | "none";

/** The camelCase key of a kebab-case module name, as the Go operator builds it: `ingress-nginx` → `ingressNginx`. */
export function camelCase(kebab: string): string {
  return kebab.replaceAll(/-([a-z0-9])/g, (_, letter: string) => letter.toUpperCase());
}
