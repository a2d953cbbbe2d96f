/** The metrics that hooks make (docs/METRICS.md, "Metrics of hooks"). */

import { describeFamilies } from "./exposition.ts";

/** One line of a hook's METRICS_PATH file, parsed. */
export interface HookMetricOperation {
  readonly action: "add" | "set" | "observe" | "expire";
  /** Absent only with `expire`. */
  readonly name?: string | undefined;
  readonly value?: number | undefined;
  readonly buckets?: readonly number[] | undefined;
  readonly labels?: Readonly<Record<string, string>> | undefined;
  readonly group?: string | undefined;
}

/** The hook that wrote it. */
export interface HookMetricOwner {
  readonly hook: string;
  readonly module?: string | undefined;
}

export interface HookMetricsOptions {
  /** Replaces `{PREFIX}` in a name. */
  readonly prefix: string;
  /** Whether this hook still exists. */
  readonly exists?: (owner: HookMetricOwner) => boolean;
}

/** Operations that cannot be applied; nothing of their file was applied. */
export class HookMetricError extends Error {
  constructor(message: string) {
    super(message);
    this.name = "HookMetricError";
  }
}

export type FamilyType = "counter" | "gauge" | "histogram";

export interface HookSeries {
  readonly labels: Readonly<Record<string, string>>;
  readonly owner: HookMetricOwner;
  readonly group: string | undefined;
  /** Value of a counter or gauge; sum of a histogram. */
  value: number;
  /** For a histogram: number of observations up to each bucket's bound, and of all. */
  readonly buckets: readonly number[];
  readonly counts: number[];
  count: number;
}

export interface HookFamily {
  readonly name: string;
  readonly type: FamilyType;
  readonly series: Map<string, HookSeries>;
}

const TYPES: Readonly<Record<Exclude<HookMetricOperation["action"], "expire">, FamilyType>> = {
  add: "counter",
  set: "gauge",
  observe: "histogram",
};
const NAME = /^[a-zA-Z_:][a-zA-Z0-9_:]*$/;
const LABEL = /^(?!__)[a-zA-Z_][a-zA-Z0-9_]*$/;

/** An operation that writes, with its final name. */
type Write = HookMetricOperation & {
  readonly action: keyof typeof TYPES;
  readonly name: string;
  readonly value: number;
};

/**
 * The metrics of hooks, at `/metrics/hooks`. Names are the hooks' own. Metrics of a group are replaced by each run
 * that names the group; all others accumulate over runs. The labels `hook` and `module` name who made them.
 */
export class HookMetrics {
  readonly #prefix: string;
  readonly #exists: (owner: HookMetricOwner) => boolean;
  readonly #families = new Map<string, HookFamily>();

  constructor({ prefix, exists = () => true }: HookMetricsOptions) {
    this.#prefix = prefix;
    this.#exists = exists;
  }

  /** Applies what one run of a hook left: all of it, or nothing (throws HookMetricError). */
  apply(operations: readonly HookMetricOperation[], owner: HookMetricOwner): void {
    const groups = new Set(operations.flatMap(({ group }) => group ?? []));
    const types = new Map<string, FamilyType>();
    const checked = operations.map((operation) => this.#check(operation, groups, types));
    this.#remove((series) => series.group !== undefined && groups.has(series.group));
    for (const operation of checked) this.#perform(operation, owner);
  }

  /** The text that Prometheus reads, without the metrics of hooks that are gone. */
  text(): string {
    this.#remove(({ owner }) => !this.#exists(owner));
    return describeFamilies(this.#families.values());
  }

  #check(
    operation: HookMetricOperation,
    groups: ReadonlySet<string>,
    types: Map<string, FamilyType>,
  ): HookMetricOperation {
    if (operation.action === "expire") return operation;
    const write = settle(operation, this.#prefix);
    const type = TYPES[write.action];
    const inUse = types.get(write.name) ?? this.#typeWithout(write.name, groups);
    if (inUse !== undefined && inUse !== type) {
      throw new HookMetricError(
        `metric ${write.name} is a ${inUse} already, "${write.action}" makes a ${type}`,
      );
    }
    types.set(write.name, type);
    return write;
  }

  /** The type of a name, as far as series outside these groups fix it. */
  #typeWithout(name: string, groups: ReadonlySet<string>): FamilyType | undefined {
    const family = this.#families.get(name);
    for (const { group } of family?.series.values() ?? []) {
      if (group === undefined || !groups.has(group)) return family?.type;
    }
    return undefined;
  }

  #perform(operation: HookMetricOperation, owner: HookMetricOwner): void {
    if (isWrite(operation)) return this.#write(operation, owner);
    // With a group all of it went already; without one, what this hook accumulated goes.
    if (operation.group !== undefined) return;
    const { name } = operation;
    this.#remove((series, family) => {
      return isFrom(series, owner) && series.group === undefined && (name === undefined || family === name);
    });
  }

  #write(write: Write, owner: HookMetricOwner): void {
    const { hook, module } = owner;
    const labels = { ...write.labels, hook, ...(module === undefined ? {} : { module }) };
    const family = this.#family(write.name, TYPES[write.action]);
    const key = JSON.stringify(Object.entries(labels).sort(([a], [b]) => (a < b ? -1 : 1)));
    const old = family.series.get(key);
    const buckets = write.buckets ?? [];
    const kept = old !== undefined && old.group === write.group && same(old.buckets, buckets);
    const series = kept ? old : fresh({ labels, owner, group: write.group, buckets });
    family.series.set(key, series);
    update(series, write);
  }

  #family(name: string, type: FamilyType): HookFamily {
    const known = this.#families.get(name);
    if (known !== undefined) return known;
    const family: HookFamily = { name, type, series: new Map() };
    this.#families.set(name, family);
    return family;
  }

  #remove(gone: (series: HookSeries, family: string) => boolean): void {
    for (const [name, family] of this.#families) {
      for (const [key, series] of family.series) if (gone(series, name)) family.series.delete(key);
      if (family.series.size === 0) this.#families.delete(name);
    }
  }
}

/** Two modules may have hooks of the same name. */
function isFrom({ owner }: HookSeries, { hook, module }: HookMetricOwner): boolean {
  return owner.hook === hook && owner.module === module;
}

function isWrite(operation: HookMetricOperation): operation is Write {
  return operation.action !== "expire";
}

function settle(operation: HookMetricOperation, prefix: string): Write {
  const { action, value } = operation;
  const name = nameOf(operation, prefix);
  if (action === "expire" || value === undefined || !Number.isFinite(value)) {
    throw new HookMetricError(`metric ${name}: a value is needed`);
  }
  if (action === "add" && value < 0) {
    throw new HookMetricError(`metric ${name}: a counter cannot go down by ${value}`);
  }
  return {
    ...operation,
    action,
    name,
    value,
    buckets: action === "observe" ? bucketsOf(operation, name) : [],
  };
}

function nameOf({ name: given = "", labels = {} }: HookMetricOperation, prefix: string): string {
  const name = given.replaceAll("{PREFIX}", prefix);
  if (!NAME.test(name)) throw new HookMetricError(`"${name}" is no name for a metric`);
  for (const label of Object.keys(labels)) {
    if (!LABEL.test(label)) throw new HookMetricError(`metric ${name}: "${label}" is no name for a label`);
  }
  return name;
}

function bucketsOf({ buckets = [], labels }: HookMetricOperation, name: string): readonly number[] {
  if (labels !== undefined && Object.hasOwn(labels, "le")) {
    throw new HookMetricError(`metric ${name}: the label "le" is the histogram's own`);
  }
  if (buckets.length === 0) throw new HookMetricError(`metric ${name}: "observe" needs buckets`);
  return [...new Set(buckets)].sort((a, b) => a - b);
}

function fresh(spec: Pick<HookSeries, "labels" | "owner" | "group" | "buckets">): HookSeries {
  return { ...spec, value: 0, counts: spec.buckets.map(() => 0), count: 0 };
}

function update(series: HookSeries, { action, value }: Write): void {
  series.value = action === "set" ? value : series.value + value;
  if (action !== "observe") return;
  series.count++;
  for (const [place, bucket] of series.buckets.entries()) {
    if (value <= bucket) series.counts[place] = (series.counts[place] ?? 0) + 1;
  }
}

function same(a: readonly number[], b: readonly number[]): boolean {
  return a.length === b.length && a.every((value, place) => value === b[place]);
}
