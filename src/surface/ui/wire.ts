/** The data that the operator sends to the page in the browser. */

type ConditionStatus = "True" | "False" | "Unknown";

/** The last run of a module, or the current one, which has no result yet. */
interface LastRunRow {
  readonly cause: string;
  readonly startedAt: string;
  /** Only of a finished run. */
  readonly seconds?: number;
  readonly step: string;
  readonly attempts: number;
  readonly result?: string;
}

/** A row of the list of modules. */
export interface PageModuleRow {
  readonly name: string;
  readonly order: number;
  readonly enabled: boolean;
  readonly state: string;
  readonly message: string;
  readonly ready: ConditionStatus;
  readonly healthy: ConditionStatus;
  /** Number of objects of the release that have drifted. */
  readonly drifted: number;
  readonly waitsFor?: string;
  readonly lastRun?: LastRunRow;
  /** The usual duration of a run. */
  readonly usualSeconds?: number;
  readonly chartVersion?: string;
  readonly source?: SourceRow;
}

/** The ModuleSource of a module. */
interface SourceRow {
  readonly name: string;
  readonly version?: string;
  /** Newer content that waits; without a version if it is not known. */
  readonly next?: { readonly version?: string; readonly waitsFor: string; readonly message: string };
}

/** A task in a queue; times in ms since the epoch. */
export interface TaskRow {
  readonly text: string;
  readonly running: boolean;
  readonly failures: number;
  readonly message?: string;
  readonly nextAt?: number;
}

/** A non-empty queue with its first tasks; `length` counts all. */
export interface QueueRow {
  readonly name: string;
  readonly length: number;
  readonly tasks: readonly TaskRow[];
}

export interface OperatorRow {
  readonly version: string;
  readonly name: string;
  readonly namespace: string;
  readonly state: string;
  readonly ready: ConditionStatus;
  readonly message: string;
  readonly warnings?: readonly string[];
  /** The key `maintenance` suspends all modules. */
  readonly suspended?: true;
  /** Of the current converge: modules done, such as 7/20, and the usual duration of the waiting ones. */
  readonly progress?: string;
  readonly waitingSeconds?: number;
}

/** What has changed in a table since the last message. */
export interface TableChange<T> {
  readonly set: readonly T[];
  readonly missing: readonly string[];
}

/** One message of the stream. A table that is not in it has not changed. */
export interface StreamMessage {
  /** The message replaces all tables. */
  readonly snapshot?: true;
  /** The operator's time, in ms since the epoch. */
  readonly now: number;
  readonly operator?: TableChange<OperatorRow>;
  readonly modules?: TableChange<PageModuleRow>;
  readonly queues?: TableChange<QueueRow>;
}

interface ConditionRow {
  readonly type: string;
  readonly status: string;
  readonly reason: string;
  readonly message: string;
  readonly lastTransitionTime: string;
}

/** An object that is missing, unhealthy or drifted. */
export interface ObjectRow {
  readonly object: string;
  readonly what: string;
  readonly message: string;
}

export interface ModuleDetail {
  readonly conditions: readonly ConditionRow[];
  /** The reasons for its state, one sentence each. */
  readonly why: readonly string[];
  readonly requires: readonly { readonly name: string; readonly text: string; readonly met: boolean }[];
  readonly requiredBy: readonly string[];
  readonly objects: readonly ObjectRow[];
  readonly facts: readonly (readonly [name: string, text: string])[];
}

/** A leaf of a module's values, and the layer that set it. */
export interface LeafRow {
  readonly path: string;
  readonly value: string;
  readonly layer: string;
}

export interface ValuesDetail {
  readonly leaves: readonly LeafRow[];
  /** Why some or all values are hidden. */
  readonly note?: string;
}

/** A module in the graph of requirements. */
export interface GraphNode {
  readonly name: string;
  readonly requires: readonly { readonly name: string; readonly met: boolean }[];
  readonly after: readonly string[];
}

/** A run of a task, or a part of it; times in ms since the epoch. */
export interface SpanRow {
  readonly id: string;
  readonly parent?: string;
  readonly kind: string;
  readonly name: string;
  readonly startMs: number;
  readonly endMs?: number;
  readonly error?: string;
}

interface LogRow {
  readonly timeMs: number;
  readonly level: string;
  readonly text: string;
}

export interface RunRow extends SpanRow {
  readonly module?: string;
  /** The cause of the run. */
  readonly from: string;
  readonly spans: readonly SpanRow[];
}

export interface RunDetail {
  readonly lines: readonly LogRow[];
  /** Number of spans and lines that were discarded. */
  readonly dropped: number;
}
