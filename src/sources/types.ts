/** What a ModuleSource requires, what the lock records, and how the next content of a module is chosen. */

import type { MaintenanceWindow } from "../hooks/cron/index.ts";
import type { JsonObject, UpdateWait } from "../base/model/index.ts";
import type { Reference } from "./registry/index.ts";

/** One module of a source: either `tag`, or `version` and `digest`, of which one is enough. With a digest the version is exact. */
export interface ModuleRequest {
  /** An exact version, or a range. */
  readonly version?: string;
  /** A channel. */
  readonly tag?: string;
  readonly digest?: string;
  /** Order among all modules; default: `--unnumbered-modules-order`. */
  readonly order?: number;
  /** The module's flag in the generated `values.yaml`; undefined = no flag. */
  readonly enabled?: boolean;
  /** Of a source of charts: the chart; default: the module's name. */
  readonly chart?: string;
  /** Of a source of charts: the keys of `addon.yaml`. */
  readonly module?: JsonObject;
}

/** A public chart as the content of a module: the operator makes the module's directory. */
export interface ChartContent {
  /** Registry or repository, in one spelling (`normalizeChartLocation`). */
  readonly from: string;
  /** The chart there. */
  readonly name: string;
  /** It needs no signature. */
  readonly unsigned?: true;
  /** The keys of `addon.yaml`. */
  readonly terms?: JsonObject;
}

/** When an update is used (`spec.update`). */
export interface UpdatePolicy {
  readonly approval: "auto" | "patch" | "manual";
  readonly windows: readonly MaintenanceWindow[];
  /** How many updates of the source may be under way at once. */
  readonly parallel: number;
  /** Least age of a version, in milliseconds since it was first seen. */
  readonly minAgeMs: number;
}

/** The spec of a ModuleSource, checked. */
export interface SourceSpec {
  /** `REGISTRY`: module NAME is the repository `REGISTRY/NAME`. Of a chart repository: its host and path. */
  readonly registry: Pick<Reference, "host" | "name">;
  /** The modules are public charts of this place (`normalizeChartLocation`); undefined = they are modules. */
  readonly charts: string | undefined;
  /** The charts need no signature. */
  readonly unsigned: boolean;
  /** Tried before the registry, in this order. */
  readonly mirrors: readonly Pick<Reference, "host" | "name">[];
  readonly plainHttp: boolean;
  /** Name of a Secret with a docker config. */
  readonly secret: string | undefined;
  /** CA certificates in PEM, trusted besides those of Node. */
  readonly ca: string | undefined;
  readonly intervalMs: number;
  readonly suspend: boolean;
  /** Names of the keys that count; undefined = all keys of the installer. */
  readonly keys: readonly string[] | undefined;
  readonly modules: ReadonlyMap<string, ModuleRequest>;
  /** Undefined = every update is used at once. */
  readonly update: UpdatePolicy | undefined;
}

/** What the lock records of a module. Every process uses exactly this content. */
export interface LockEntry {
  /** Name of the ModuleSource. */
  readonly source: string;
  readonly version: string;
  readonly digest: string;
  /** Name of the key that signed it, or `unsigned`. */
  readonly verifiedBy: string;
  /** Set for a chart. */
  readonly chart?: ChartContent;
  /** When it was locked, in milliseconds since the epoch. */
  readonly at: number;
  /** As the request has them: they stay if the source cannot be read. */
  readonly order?: number;
  readonly enabled?: boolean;
  /** Set while the content of an update is not good yet: the module has not run with it, or is not Ready. */
  readonly isNew?: true;
  /** The good content before an update: a failed update is rolled back to it. */
  readonly previous?: { readonly version: string; readonly digest: string };
  /** Set when a failed update was rolled back to this good content, until another update begins or the request changes. */
  readonly isBack?: true;
  /**
   * Set when no source names the module any more: discovery disables the module, and the entry is deleted once its
   * release is deleted.
   */
  readonly removed?: true;
  /** Digests that failed and are not tried again, the last one first, as long as the request is `rejectedFor`. */
  readonly rejected?: readonly string[];
  /** The request as text (`serializeRequest`) for which they were rejected. */
  readonly rejectedFor?: string;
  /** The newest content that is not used yet, and since when it is known, in milliseconds since the epoch. */
  readonly seen?: { readonly version: string; readonly digest: string; readonly since: number };
}

/** The lock: by name of the module. */
export type Lock = ReadonlyMap<string, LockEntry>;

/** A content that the registry has. */
export interface CandidateVersion {
  readonly version: string | undefined;
  /** Names it in the registry. */
  readonly tag: string | undefined;
  /** Undefined where the registry has to resolve it. */
  readonly digest: string | undefined;
}

/** A candidate whose version and digest are known. */
export interface ResolvedCandidate extends CandidateVersion {
  readonly version: string;
  readonly digest: string;
}

/** What a choice depends on. */
export interface ChoiceInput {
  readonly request: ModuleRequest;
  readonly locked: LockEntry | undefined;
  /** What the registry has for the request, in any order. */
  readonly candidates: readonly CandidateVersion[];
  readonly update: Omit<UpdatePolicy, "parallel"> | undefined;
  /** The content that a user has approved: `VERSION@sha256:…`. */
  readonly approved: string | undefined;
  /** For which other update of the source an update has to wait; undefined = for none. */
  readonly blocker?: string | undefined;
  /** Milliseconds since the epoch. */
  readonly now: number;
  /** The operator's time zone, in which windows open; undefined = that of the system. */
  readonly timeZone: string | undefined;
}

/** Which content a module gets next. */
export type Choice =
  /** Keep the locked content; with a reason if the registry has nothing for the request. */
  | { readonly kind: "keep"; readonly reason?: string }
  /** The caller has to look up version and digest of this candidate in the registry, and then choose again. */
  | { readonly kind: "resolve"; readonly candidate: CandidateVersion }
  /** Lock this content and use it. */
  | { readonly kind: "apply"; readonly candidate: ResolvedCandidate }
  | {
      readonly kind: "wait";
      readonly candidate: ResolvedCandidate;
      readonly waitsFor: UpdateWait;
      /** Why it waits, for people. */
      readonly reason: string;
      /** When it may be used, in milliseconds since the epoch; undefined = when a user approves it (`toApproval`). */
      readonly until?: number;
    };

/** Why a module does not have the content that its source requires. */
export interface ModuleError {
  readonly reason: "NotVerified" | "Blocked" | "Overridden" | "CheckFailed" | "Withdrawn";
  /** One line, without credentials. */
  readonly message: string;
}

/** Newer content that is not used yet, because of the update policy. */
export interface WaitingVersion extends ResolvedCandidate {
  /** When it was first seen, in milliseconds since the epoch. */
  readonly since: number;
  /** When it may be used, in milliseconds since the epoch; undefined = when a user approves it. */
  readonly until: number | undefined;
  readonly waitsFor: UpdateWait;
  readonly reason: string;
}

/** What a check of a source found, by module. */
export interface CheckFindings {
  readonly errors: ReadonlyMap<string, ModuleError>;
  readonly waitingVersions: ReadonlyMap<string, WaitingVersion>;
}
