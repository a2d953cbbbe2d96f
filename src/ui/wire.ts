/** What the page and the operator say to each other; the page in the browser knows these types, and the words for progress (`lib/time/progress.ts`). */

/** Of a condition. */
type Truth = "True" | "False" | "Unknown";

/** The last run of a module, or the one under way, which has no result yet. */
interface LastRunRow {
  readonly cause: string;
  readonly startedAt: string;
  /** Of a run that is over. */
  readonly seconds?: number;
  readonly step: string;
  readonly attempts: number;
  readonly result?: string;
}

/** A module among others. */
export interface ModuleRow {
  readonly name: string;
  readonly order: number;
  readonly enabled: boolean;
  readonly state: string;
  readonly message: string;
  readonly ready: Truth;
  readonly healthy: Truth;
  /** How many objects of its release others have changed. */
  readonly drifted: number;
  readonly waitsFor?: string;
  readonly lastRun?: LastRunRow;
  /** How long its runs usually take. */
  readonly usualSeconds?: number;
  readonly chartVersion?: string;
}

/** A task in a queue; times in ms since the epoch. */
export interface TaskRow {
  readonly text: string;
  readonly running: boolean;
  readonly failures: number;
  readonly message?: string;
  readonly nextAt?: number;
}

/** A queue that is not empty, with its first tasks. */
export interface QueueRow {
  readonly name: string;
  readonly length: number;
  readonly tasks: readonly TaskRow[];
}

/** The operator as a whole. */
export interface OperatorRow {
  readonly version: string;
  /** Of the ConfigMap. */
  readonly name: string;
  readonly namespace: string;
  readonly state: string;
  readonly ready: Truth;
  readonly message: string;
  /** Of the reload under way: modules done, such as 7/20, and how long those that wait usually take. */
  readonly progress?: string;
  readonly waitingSeconds?: number;
}

/** What has changed in a table since the last news. */
export interface Change<T> {
  readonly set: readonly T[];
  readonly gone: readonly string[];
}

/** One message of the stream: what is not in it is as it was. */
export interface News {
  /** Everything: what is known so far is out of date. */
  readonly whole?: true;
  /** The operator's time, in ms since the epoch. */
  readonly now: number;
  readonly operator?: Change<OperatorRow>;
  readonly modules?: Change<ModuleRow>;
  readonly queues?: Change<QueueRow>;
}

/** A condition of a module. */
interface ConditionRow {
  readonly type: string;
  readonly status: string;
  readonly reason: string;
  readonly message: string;
  readonly lastTransitionTime: string;
}

/** An object that is not as it should be. */
export interface ObjectRow {
  readonly object: string;
  readonly what: string;
  readonly message: string;
}

/** One module in detail. */
export interface ModuleDetail {
  readonly conditions: readonly ConditionRow[];
  /** All that can be said of its state, one sentence each. */
  readonly why: readonly string[];
  readonly requires: readonly { readonly name: string; readonly text: string; readonly met: boolean }[];
  readonly requiredBy: readonly string[];
  /** Objects that are not healthy, or that others have changed. */
  readonly objects: readonly ObjectRow[];
  readonly facts: readonly (readonly [name: string, text: string])[];
}

/** A leaf of a module's values, and the layer that set it. */
export interface LeafRow {
  readonly path: string;
  readonly value: string;
  readonly layer: string;
}

/** The values of a module. */
export interface ValuesDetail {
  readonly leaves: readonly LeafRow[];
  /** Why some or all are not shown. */
  readonly note?: string;
}

/** The modules and what they require. */
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

/** A line that a run has logged. */
interface LogRow {
  readonly timeMs: number;
  readonly level: string;
  readonly text: string;
}

/** A run of a task. */
export interface RunRow extends SpanRow {
  readonly module?: string;
  /** What it followed from. */
  readonly from: string;
  readonly spans: readonly SpanRow[];
}

/** What a run has logged. */
export interface RunDetail {
  readonly lines: readonly LogRow[];
  /** Spans and lines that were not kept. */
  readonly dropped: number;
}
