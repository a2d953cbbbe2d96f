/** The kinds AddonModule, AddonOperator and ModuleSource: their resources, the fields of their statuses, texts and times in them. */

import type { Resource } from "../../kube/index.ts";
import { lineWithCommand, redactText } from "../../base/index.ts";
import type { IAddonModule } from "./addon-module.ts";
import type { IAddonOperator } from "./addon-operator.ts";
import type { IModuleSource } from "./module-source.ts";

/** API version of all kinds. */
export const API_VERSION = "addon-operator.io/v1alpha1";
const common = {
  group: "addon-operator.io",
  version: "v1alpha1",
  namespaced: true,
  verbs: ["create", "delete", "get", "list", "patch", "update", "watch"],
};
/** The resource of AddonModules, known without discovery. */
export const ADDON_MODULES: Resource = { ...common, plural: "addonmodules", kind: "AddonModule" };
/** The resource of the AddonOperator, known without discovery. */
export const ADDON_OPERATORS: Resource = { ...common, plural: "addonoperators", kind: "AddonOperator" };

/** The resource of ModuleSources, known without discovery. */
export const MODULE_SOURCES: Resource = { ...common, plural: "modulesources", kind: "ModuleSource" };

/** An object of which the operator writes the status. */
export type AddonObject = IAddonModule | IAddonOperator | IModuleSource;

type ModuleFields = NonNullable<IAddonModule["status"]>;
type OperatorFields = NonNullable<IAddonOperator["status"]>;
type SourceFields = NonNullable<IModuleSource["status"]>;

type ConditionType =
  | "Ready"
  | "Reconciling"
  | "Stalled"
  | "Enabled"
  | "Suspended"
  | "DependencyLost"
  | "HooksFailing"
  | "Healthy"
  | "Drifted"
  | "Reachable"
  | "Withdrawn"
  | "Rejected"
  | "CheckFailed";
export type ConditionStatus = Condition["status"];
/** A condition as the server stores it. */
export type StoredCondition = NonNullable<ModuleFields["conditions"]>[number];
/** A condition without the generation it speaks of, which the writer adds to it and to its status. */
export type Condition = Omit<StoredCondition, "observedGeneration"> & { readonly type: ConditionType };
/** A status as it is made: without the generation. */
type Unstamped<T> = Omit<T, "observedGeneration" | "conditions"> & {
  readonly conditions: readonly Condition[];
};

/** `status.state` of an AddonModule (docs/reference/status.md, "States of a module"). */
export type ModuleState = NonNullable<ModuleFields["state"]>;
/** States that do not end by themselves: someone has to change something. */
export const STALLED: ReadonlySet<ModuleState> = new Set(["Invalid", "RolledBack"]);

export type ModuleSpec = Required<NonNullable<IAddonModule["spec"]>>;
export type ModuleStatus = Unstamped<ModuleFields>;
export type LastRunStatus = NonNullable<ModuleFields["lastRun"]>;
export type RequirementStatus = NonNullable<ModuleFields["requires"]>[number];
export type ReleaseStatus = NonNullable<ModuleFields["release"]>;

/** `status.state` of the AddonOperator. */
export type OperatorStateName = NonNullable<OperatorFields["state"]>;
export type OperatorStatus = Unstamped<OperatorFields>;
export type SourceStatus = Unstamped<SourceFields>;
export type ModuleCounts = Required<NonNullable<OperatorFields["modules"]>>;
export type ConvergeStatus = NonNullable<OperatorFields["converge"]>;

/** Longest line in a status or Event: the API server refuses longer notes of Events. */
const MAX_LINE_LENGTH = 1000;

/** Converts a text for a status or an Event: one line, secrets redacted, shortened, but not within a command. */
export function toStatusLine(text: string): string {
  return toShortLine(text, MAX_LINE_LENGTH);
}

/** Most characters of the message of a condition that contains a long command. */
const MAX_MESSAGE_LENGTH = 8000;

/** As `toStatusLine` for the message of a condition, which may contain a long command. */
export function toConditionMessage(text: string): string {
  return toShortLine(text, MAX_MESSAGE_LENGTH);
}

function toShortLine(text: string, maxLength: number): string {
  // Redaction first: a PEM block is only recognised while it still has its line ends.
  return lineWithCommand(redactText(text), MAX_LINE_LENGTH, maxLength);
}

/** Returns `record` without its undefined members: JSON drops them, so a status compared with the stored one must not have them. */
export function omitUndefined<T extends object>(record: T): { [K in keyof T]: Exclude<T[K], undefined> } {
  const entries = Object.entries(record).filter(([, value]) => value !== undefined);
  return Object.fromEntries(entries) as { [K in keyof T]: Exclude<T[K], undefined> };
}
