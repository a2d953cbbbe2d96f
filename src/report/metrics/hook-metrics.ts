/** The metrics that hooks write (docs/reference/metrics.md, "Metrics of hooks"). */

import type { MetricOperation } from "../../hooks/index.ts";
import { member } from "../../base/model/index.ts";
import { escapeLabelValue, renderLines, addObservation } from "./family.ts";

/** The hook that wrote a series. */
export interface HookMetricOwner {
  readonly hook: string;
  readonly module?: string | undefined;
}

/** Operations that cannot be applied; nothing of their file was applied. */
export class HookMetricError extends Error {
  override readonly name = "HookMetricError";
}

/** An operation that writes, with its final name. */
type WriteOperation = Exclude<MetricOperation, { action: "expire" }>;

interface HookSeries {
  readonly labels: Readonly<Record<string, string>>;
  readonly owner: HookMetricOwner;
  readonly group: string | undefined;
  /** Value of a counter or gauge; sum of a histogram. */
  value: number;
  /** For a histogram: number of observations up to each bucket's bound, and of all. */
  readonly buckets: readonly number[];
  readonly counts: number[];
  count: number;
  /** How many series it counts as. */
  weight: number;
}

export interface FamilyOfHooks {
  readonly name: string;
  readonly type: FamilyType;
  readonly series: Map<string, HookSeries>;
}

const TYPE_BY_ACTION = { add: "counter", set: "gauge", observe: "histogram" } as const;
type FamilyType = (typeof TYPE_BY_ACTION)[WriteOperation["action"]];

const METRIC_NAME = /^[a-zA-Z_:][a-zA-Z0-9_:]*$/;

/**
 * The metrics of hooks, at `/metrics/hooks`. Names are the hooks' own, with `prefix` for `{PREFIX}`. Metrics of a
 * group are replaced by each run that names the group; all others accumulate over runs. The labels `hook` and
 * `module` name the hook.
 */
export class HookMetrics {
  readonly #prefix: string;
  readonly #hookExists: (owner: HookMetricOwner) => boolean;
  readonly #maxSeries: number;
  #families = new Map<string, FamilyOfHooks>();
  /** Number of series, as Prometheus counts them. */
  #seriesCount = 0;

  constructor(prefix: string, hookExists: (owner: HookMetricOwner) => boolean, maxSeries = Infinity) {
    this.#prefix = prefix;
    this.#hookExists = hookExists;
    this.#maxSeries = maxSeries;
  }

  /** Applies all operations of one run of a hook, or none of them (throws HookMetricError). */
  apply(operations: readonly MetricOperation[], owner: HookMetricOwner): void {
    const groups = new Set(operations.flatMap(({ group }) => group ?? []));
    const finalOperations = operations.map((operation) => this.#withFinalName(operation));
    const typesByName = new Map<string, FamilyType>();
    for (const operation of finalOperations)
      if (operation.action !== "expire") this.#checkOperation(operation, groups, typesByName);
    const addedAtMost = finalOperations.reduce((sum, operation) => sum + countWritten(operation), 0);
    if (this.#seriesCount + addedAtMost <= this.#maxSeries)
      this.#applyChecked(finalOperations, groups, owner);
    else this.#applyToCopy(finalOperations, groups, owner);
  }

  /** Applies operations to a copy, which replaces the series if the limit is kept. Throws HookMetricError otherwise. */
  #applyToCopy(
    operations: readonly MetricOperation[],
    groups: ReadonlySet<string>,
    owner: HookMetricOwner,
  ): void {
    this.#removeSeries((series) => !this.#hookExists(series.owner));
    const copy = new HookMetrics(this.#prefix, this.#hookExists, this.#maxSeries);
    copy.#seriesCount = this.#seriesCount;
    copy.#families = new Map(this.#families.entries().map(([name, family]) => [name, copyFamily(family)]));
    copy.#applyChecked(operations, groups, owner);
    this.#families = copy.#families;
    this.#seriesCount = copy.#seriesCount;
  }

  /** Applies operations whose types and values are checked. Throws HookMetricError at the series that exceeds the limit. */
  #applyChecked(
    operations: readonly MetricOperation[],
    groups: ReadonlySet<string>,
    owner: HookMetricOwner,
  ): void {
    // A run that names a group replaces all of its series.
    this.#removeSeries((series) => series.group !== undefined && groups.has(series.group));
    for (const operation of operations) {
      const { action, group } = operation;
      if (action !== "expire") this.#writeSeries(operation, owner);
      // Without a group, this removes the series of this hook.
      else if (group === undefined) this.#removeUngroupedSeries(operation.name, owner);
      else this.#removeSeries((series) => series.group === group);
    }
  }

  /** The text that Prometheus reads, without the metrics of hooks that are deleted. */
  renderText(): string {
    return renderFamilies(this.listFamilies());
  }

  /** The families, without the metrics of hooks that are deleted. */
  listFamilies(): FamilyOfHooks[] {
    this.#removeSeries(({ owner }) => !this.#hookExists(owner));
    return [...this.#families.values()];
  }

  /** Replaces `{PREFIX}` in the name. Throws HookMetricError for an invalid name. */
  #withFinalName(operation: MetricOperation): MetricOperation {
    if (operation.name === undefined) return operation;
    const name = operation.name.replaceAll("{PREFIX}", this.#prefix);
    if (!METRIC_NAME.test(name)) throw new HookMetricError(`"${name}" is no name for a metric`);
    return { ...operation, name } as MetricOperation;
  }

  /**
   * Throws HookMetricError if the operation cannot be applied. `typesByName` collects the types that this run uses: Prometheus
   * accepts only one type of a name. Series in `groups` do not count, because this run replaces them.
   */
  #checkOperation(
    { action, name, value, labels }: WriteOperation,
    groups: ReadonlySet<string>,
    typesByName: Map<string, FamilyType>,
  ): void {
    // A large number in JSON becomes Infinity.
    if (!Number.isFinite(value)) throw new HookMetricError(`metric ${name}: a value is needed`);
    if (action === "observe" && Object.hasOwn(labels, "le"))
      throw new HookMetricError(`metric ${name}: the label "le" is the histogram's own`);
    const type = TYPE_BY_ACTION[action];
    const typeInUse = typesByName.get(name) ?? this.#typeOutsideGroups(name, groups) ?? type;
    typesByName.set(name, type);
    if (typeInUse !== type)
      throw new HookMetricError(`metric ${name} is a ${typeInUse} already, "${action}" makes a ${type}`);
  }

  /** The type of the series with this name that stay, because they are not in these groups; undefined if none stays. */
  #typeOutsideGroups(name: string, groups: ReadonlySet<string>): FamilyType | undefined {
    const { type, series } = this.#families.get(name) ?? {};
    const isOutside = ({ group }: HookSeries): boolean => group === undefined || !groups.has(group);
    return series?.values().some(isOutside) === true ? type : undefined;
  }

  /** Removes the ungrouped series of one hook: those with the name, or all. */
  #removeUngroupedSeries(name: string | undefined, { hook, module }: HookMetricOwner): void {
    this.#removeSeries(({ owner, group }, family) => {
      // Two modules may have hooks of the same name.
      const isOwn = owner.hook === hook && owner.module === module;
      return isOwn && group === undefined && (name === undefined || family === name);
    });
  }

  /** Applies one operation. A series starts again at zero if its group or its buckets have changed. */
  #writeSeries(write: WriteOperation, owner: HookMetricOwner): void {
    const { hook, module } = owner;
    const { group } = write;
    const labels = { ...write.labels, hook, ...(module === undefined ? {} : { module }) };
    const family = this.#findOrCreateFamily(write.name, TYPE_BY_ACTION[write.action]);
    const key = JSON.stringify(Object.entries(labels).sort(([a], [b]) => (a < b ? -1 : 1)));
    const existing = family.series.get(key);
    const buckets = write.action === "observe" ? write.buckets : [];
    const isSame =
      existing !== undefined && existing.group === group && isSameList(existing.buckets, buckets);
    const counts = buckets.map(() => 0);
    const weight = countWritten(write);
    const series = isSame ? existing : { labels, owner, group, buckets, counts, value: 0, count: 0, weight };
    this.#seriesCount += weight - (existing?.weight ?? 0);
    series.weight = weight;
    family.series.set(key, series);
    updateValue(series, write);
    if (this.#seriesCount > this.#maxSeries)
      throw new HookMetricError(
        `metric ${write.name}: the hooks would have more than ${this.#maxSeries} series of metrics: ` +
          'report the metrics in a group, which each run replaces, or remove old ones with the action "expire"',
      );
  }

  /** The family of this name, created empty at first use. */
  #findOrCreateFamily(name: string, type: FamilyType): FamilyOfHooks {
    const existing = this.#families.get(name);
    if (existing !== undefined) return existing;
    const family: FamilyOfHooks = { name, type, series: new Map() };
    this.#families.set(name, family);
    return family;
  }

  /** Removes all series for which `isObsolete` is true, and families without series. */
  #removeSeries(isObsolete: (series: HookSeries, family: string) => boolean): void {
    for (const [name, family] of this.#families) {
      for (const [key, series] of family.series) {
        if (!isObsolete(series, name)) continue;
        family.series.delete(key);
        this.#seriesCount -= series.weight;
      }
      if (family.series.size === 0) this.#families.delete(name);
    }
  }
}

/** Carries out the action on the value of a series: observe, set or add. */
function updateValue(series: HookSeries, { action, value }: WriteOperation): void {
  if (action === "observe") addObservation(series, value, series);
  else series.value = action === "set" ? value : series.value + value;
}

/** Number of series that Prometheus sees: of a histogram, each bucket, `+Inf`, the sum and the count. */
function countSeries(buckets: readonly number[]): number {
  return buckets.length === 0 ? 1 : buckets.length + 3;
}

/** Labels with more characters count as those of several series, because each series repeats them. */
const CHARACTERS_PER_SERIES = 500;

/** How many series an operation adds at most. */
function countWritten(operation: MetricOperation): number {
  if (operation.action === "expire") return 0;
  const lengths = Object.entries(operation.labels).map(([name, value]) => name.length + value.length);
  const length = lengths.reduce((sum, each) => sum + each, 0);
  const series = operation.action === "observe" ? countSeries(operation.buckets) : 1;
  return series * Math.max(1, Math.ceil(length / CHARACTERS_PER_SERIES));
}

function copyFamily(family: FamilyOfHooks): FamilyOfHooks {
  const series = new Map<string, HookSeries>();
  for (const [key, one] of family.series) series.set(key, { ...one, counts: [...one.counts] });
  return { ...family, series };
}

function isSameList(a: readonly number[], b: readonly number[]): boolean {
  return a.length === b.length && a.every((value, index) => value === b[index]);
}

/** Families in Prometheus' text format, sorted. Those with one name are one family there, whose type is unknown if their types differ. */
export function renderFamilies(families: readonly FamilyOfHooks[]): string {
  const byName = [...Map.groupBy(families, ({ name }) => name)].sort(([a], [b]) => (a < b ? -1 : 1));
  return byName.map(([name, ofName]) => renderFamily(name, ofName)).join("");
}

/** One family. All its series get the same labels, as Prometheus recommends; a missing label is empty. */
function renderFamily(name: string, families: readonly FamilyOfHooks[]): string {
  const [firstType, ...otherTypes] = new Set(families.map(({ type }) => type));
  const type = otherTypes.length === 0 ? firstType : "untyped";
  const labels = families.flatMap(({ series }) =>
    [...series.values()].flatMap((one) => Object.keys(one.labels)),
  );
  const sortedLabels = [...new Set(labels)].sort();
  const lines = families.flatMap((family) =>
    [...family.series.values()].map((one) => {
      const pairs = sortedLabels.map(
        (label) => `${label}="${escapeLabelValue(member(one.labels, label) ?? "")}"`,
      );
      const buckets = family.type === "histogram" ? one.buckets : undefined;
      return renderLines(name, one, { labels: pairs.join(","), buckets });
    }),
  );
  return `# HELP ${name} ${name}\n# TYPE ${name} ${type}\n${lines.join("")}`;
}
