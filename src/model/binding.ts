/** Hooks and their bindings, as configured, and the reasons for which a hook runs. */

import type { Json, JsonObject } from "./json.ts";

/** Names of the bindings that run at a fixed point of the lifecycle. */
export const LIFECYCLE = [
  "onStartup",
  "beforeAll",
  "afterAll",
  "beforeHelm",
  "afterHelm",
  "beforeDeleteHelm",
  "afterDeleteHelm",
] as const;
export type LifecycleName = (typeof LIFECYCLE)[number];

/** The queue of everything that names no other one. */
export const MAIN_QUEUE = "main";

/** What bindings of all kinds have. `id` is unique within the hook; `name` is what the hook sees as `binding`. */
export interface CommonBinding {
  readonly id: string;
  readonly name: string;
  readonly allowFailure: boolean;
  readonly queue: string;
  readonly group: string | undefined;
  /** Effective list: the binding's own names, then those of its group. */
  readonly includeSnapshotsFrom: readonly string[];
}

/** A lifecycle binding. */
export interface LifecycleBinding extends CommonBinding {
  readonly type: "lifecycle";
  readonly name: LifecycleName;
  /** Its place among those of other hooks. */
  readonly order: number;
}

/** One `schedule` item. */
export interface ScheduleBinding extends CommonBinding {
  readonly type: "schedule";
  readonly crontab: string;
}

export type WatchEvent = "Added" | "Modified" | "Deleted";

/** A Kubernetes label selector. */
export interface LabelSelector {
  readonly matchLabels?: Readonly<Record<string, string>>;
  readonly matchExpressions?: readonly {
    readonly key: string;
    readonly operator: "In" | "NotIn" | "Exists" | "DoesNotExist";
    readonly values?: readonly string[];
  }[];
}

/** One `kubernetes` (v1) or `onKubernetesEvent` (v0) item, normalised. */
export interface KubernetesBinding extends CommonBinding {
  readonly type: "kubernetes";
  readonly apiVersion: string | undefined;
  readonly kind: string;
  readonly events: readonly WatchEvent[];
  readonly executeOnSynchronization: boolean;
  readonly waitForSynchronization: boolean;
  readonly keepFullObjects: boolean;
  readonly jqFilter: string | undefined;
  /** Object names to match; undefined = all. */
  readonly names: readonly string[] | undefined;
  readonly labelSelector: LabelSelector | undefined;
  /** Field selector in the API's syntax, e.g. `status.phase=Running,metadata.name!=x`. */
  readonly fieldSelector: string | undefined;
  /** Namespaces to match by name; undefined = all (or cluster-scoped). */
  readonly namespaces: readonly string[] | undefined;
  readonly namespaceLabels: LabelSelector | undefined;
}

/** `settings` of a hook: a token bucket over its runs. */
export interface HookSettings {
  readonly minIntervalMs: number;
  readonly burst: number;
}

/** The kinds of bindings; each has a file in `bindings/`. */
export type Binding = LifecycleBinding | ScheduleBinding | KubernetesBinding;

/** The bindings of a hook, by kind. */
export type Bindings = { readonly [B in Binding as B["type"]]: readonly B[] };

/** What a hook printed for `--config`, validated and normalised. */
export interface HookConfig {
  readonly version: "v0" | "v1";
  readonly bindings: Bindings;
  readonly settings: HookSettings | undefined;
}

/** A hook file on disk, not yet asked for its configuration. */
export interface HookFile {
  /** Name in logs, metrics and statuses: from `hooks/` on when the path has it, else relative to the root. */
  readonly name: string;
  /** Absolute path. */
  readonly path: string;
  /** The hooks root it was found in (value of WORKING_DIR where no working directory is configured). */
  readonly root: string;
  /** Changes when the file's bytes or mode change. */
  readonly signature: string;
}

/** Which hook of a batch file it is: its number there, or the readiness probe of the module. */
export type BatchItem = number | "ready";

/**
 * A configured hook. `module` is undefined for global hooks. `id` is unique in the operator. `item` is set where its
 * file is a batch file, which holds several hooks (docs/HOOKS.md, "Batch hooks").
 */
export interface Hook extends HookFile {
  readonly id: string;
  readonly module: string | undefined;
  readonly item?: BatchItem | undefined;
  readonly config: HookConfig;
}

/** One item of a snapshot or of a Synchronization: what a binding keeps of an object. */
export interface SnapshotItem {
  readonly object?: JsonObject;
  readonly filterResult?: Json;
  /**
   * `object` as JSON text in UTF-8, where it is kept as text: write this in place of stringifying `object`, which
   * would parse it again at each access.
   */
  readonly objectText?: Uint8Array;
}

/** What is known of one cluster object at the moment of an event. */
export interface ObjectEvent {
  readonly watchEvent: WatchEvent;
  readonly kind: string;
  readonly namespace: string;
  readonly name: string;
  readonly item: SnapshotItem;
}

/**
 * Why a hook runs; each is one element of the binding context file (docs/HOOKS.md, "Running: what a hook is
 * given").
 */
export type HookTrigger =
  | { readonly type: "lifecycle"; readonly binding: LifecycleBinding }
  | { readonly type: "schedule"; readonly binding: ScheduleBinding }
  | { readonly type: "synchronization"; readonly binding: KubernetesBinding }
  | { readonly type: "event"; readonly binding: KubernetesBinding; readonly event: ObjectEvent };
