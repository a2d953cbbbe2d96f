/**
 * A family of series, and its lines in Prometheus' text format (`plain`) or as OpenMetrics (`open`). Only OpenMetrics has
 * exemplars, which link a value of a histogram to the trace in which it was measured.
 */

import { canBeOpenMetricsCounter, type SeriesDefinition } from "./series.ts";

export type Labels = Readonly<Record<string, string>>;

/** The values of one label set. */
interface Sample extends SampleValues {
  readonly labels: Labels;
  /** Its cached lines in the text format; undefined after a change. A thousand modules have some hundred thousand lines. */
  text: string | undefined;
}

/** All label sets of one metric, each with a sample. The text of a sample is rendered again only after its value has changed. */
export class Family {
  readonly #name: string;
  readonly #definition: SeriesDefinition;
  readonly #buckets: readonly number[];
  readonly #samples = new Map<string, Sample>();
  /** The format of the cached lines. */
  #exposition: Exposition = "plain";

  constructor(definition: SeriesDefinition, prefix: string) {
    this.#name = `${prefix}${definition.name}`;
    this.#definition = definition;
    this.#buckets = definition.buckets ?? [];
    // The one sample of a metric without labels is visible from the start.
    if (definition.labels.length === 0) this.ensureSample({});
  }

  /** Whether the series has all these labels. */
  hasLabels(labels: Labels): boolean {
    return Object.keys(labels).every((label) => this.#definition.labels.includes(label));
  }

  /** Makes the label set visible, at zero unless it has a value. */
  ensureSample(labels: Labels): void {
    this.#findOrCreateSample(labels);
  }

  /** Increases a counter; ignores negative amounts, and series that are no counters. */
  add(labels: Labels, amount: number): void {
    const sample = this.#findSampleToChange(labels);
    if (this.#definition.type === "counter") sample.value += Math.max(0, amount);
  }

  /** Sets a gauge; ignores series that are no gauges. */
  set(labels: Labels, value: number): void {
    const sample = this.#findOrCreateSample(labels);
    if (this.#definition.type !== "gauge" || sample.value === value) return;
    sample.value = value;
    sample.text = undefined;
  }

  /** Adds an observation to a histogram; ignores series that are no histograms. */
  observe(labels: Labels, value: number, exemplar?: Exemplar): void {
    if (this.#definition.type !== "histogram") return;
    addObservation(this.#findSampleToChange(labels), value, { buckets: this.#buckets, exemplar });
  }

  /** Drops all label sets. */
  clear(): void {
    this.#samples.clear();
  }

  /** Drops every sample that has these labels, whatever its other labels are. */
  dropSamples(labels: Labels): void {
    const pairs = Object.entries(labels);
    for (const [key, sample] of this.#samples)
      if (pairs.every(([label, value]) => sample.labels[label] === value)) this.#samples.delete(key);
  }

  /** Renders the family: its head, then the lines of each sample. The parts are not joined, because one large text would be copied several times. */
  renderParts(exposition: Exposition = "plain"): string[] {
    // The cached texts are in the other format.
    if (exposition !== this.#exposition) for (const sample of this.#samples.values()) sample.text = undefined;
    this.#exposition = exposition;
    const parts = [this.#renderHead()];
    for (const sample of this.#samples.values()) parts.push((sample.text ??= this.#renderSample(sample)));
    return parts;
  }

  /** The lines `# HELP` and `# TYPE`. */
  #renderHead(): string {
    const { help, type } = this.#definition;
    const formatHead = (headName: string, headType: string): string =>
      `# HELP ${headName} ${help}\n# TYPE ${headName} ${headType}\n`;
    if (this.#exposition === "plain" || type !== "counter") return formatHead(this.#name, type);
    if (!canBeOpenMetricsCounter(this.#definition)) return formatHead(this.#name, "unknown");
    // In OpenMetrics, the head of a counter lacks the ending `_total` of its lines.
    return formatHead(this.#name.slice(0, -"_total".length), type);
  }

  /** The sample of a label set that the caller changes: drops the cached text. */
  #findSampleToChange(labels: Labels): Sample {
    const sample = this.#findOrCreateSample(labels);
    sample.text = undefined;
    return sample;
  }

  /** The sample of a label set, created at zero at first use. */
  #findOrCreateSample(labels: Labels): Sample {
    const key = this.#definition.labels.map((label) => labels[label] ?? "").join("\0");
    const existing = this.#samples.get(key);
    if (existing !== undefined) return existing;
    const counts = this.#buckets.map(() => 0);
    const sample = { labels, value: 0, counts, count: 0, text: undefined };
    this.#samples.set(key, sample);
    return sample;
  }

  /** The lines of one label set. Labels without a value are left out. */
  #renderSample(sample: Sample): string {
    const { labels: allLabels, type, buckets } = this.#definition;
    const setLabels = allLabels.filter((label) => sample.labels[label] !== undefined);
    const labels = setLabels
      .map((label) => `${label}="${escapeLabelValue(sample.labels[label] ?? "")}"`)
      .join(",");
    return renderLines(this.#name, sample, {
      labels,
      buckets: type === "histogram" ? (buckets ?? []) : undefined,
      exposition: this.#exposition,
    });
  }
}

/** Prometheus' own text, or OpenMetrics, which alone has exemplars. */
export type Exposition = "plain" | "open";

/** A trace in which a value of a bucket was observed. */
interface Exemplar {
  readonly traceId: string;
  readonly value: number;
  readonly atMs: number;
}

/** The numbers of one label set. */
interface SampleValues {
  /** Of a counter or gauge; the sum of a histogram. */
  value: number;
  /** Of a histogram: observations up to each bucket's bound, and of all. */
  readonly counts: number[];
  count: number;
  /** Of a histogram: the last exemplar of each bucket, by the index of the bucket; the index after the last is `+Inf`. */
  exemplars?: Map<number, Exemplar>;
}

/** Adds an observation to a histogram: counts it in each bucket whose bound it does not exceed. */
export function addObservation(
  sample: SampleValues,
  value: number,
  { buckets, exemplar }: { readonly buckets: readonly number[]; readonly exemplar?: Exemplar | undefined },
): void {
  sample.value += value;
  sample.count += 1;
  for (const [index, bound] of buckets.entries())
    if (value <= bound) sample.counts[index] = (sample.counts[index] ?? 0) + 1;
  if (exemplar === undefined) return;
  const firstBucket = buckets.findIndex((bound) => value <= bound);
  // After the last bound comes the bucket `+Inf`.
  const exemplarBucket = firstBucket === -1 ? buckets.length : firstBucket;
  sample.exemplars ??= new Map();
  sample.exemplars.set(exemplarBucket, exemplar);
}

interface LineFormat {
  readonly labels: string;
  /** Of a histogram. */
  readonly buckets: readonly number[] | undefined;
  readonly exposition?: Exposition;
}

/** Renders one label set in Prometheus' text format: one line, or for a histogram a line for each bucket, sum and count. `labels` is the text between the braces. */
export function renderLines(
  name: string,
  sample: SampleValues,
  { labels, buckets, exposition }: LineFormat,
): string {
  const { value, count, counts } = sample;
  const labelSet = labels === "" ? "" : `{${labels}}`;
  if (buckets === undefined) return `${name}${labelSet} ${value}\n`;
  const labelsAfterBound = labels === "" ? "" : `,${labels}`;
  const isOpenMetrics = exposition === "open";
  const bounds = [...buckets.map((bound) => formatBound(bound, isOpenMetrics)), "+Inf"];
  const bucketLines = bounds.map((bound, index) => {
    const exemplar = isOpenMetrics ? formatExemplar(sample.exemplars?.get(index)) : "";
    // The bucket `+Inf` has no count of its own: it contains all observations.
    return `${name}_bucket{le="${bound}"${labelsAfterBound}} ${counts[index] ?? count}${exemplar}\n`;
  });
  return `${bucketLines.join("")}${name}_sum${labelSet} ${value}\n${name}_count${labelSet} ${count}\n`;
}

/** Formats the bound of a bucket. OpenMetrics requires a decimal point. */
function formatBound(bound: number, isOpen: boolean): string {
  return isOpen && Number.isInteger(bound) ? `${bound}.0` : String(bound);
}

/** The end of a bucket line that names a trace, such as ` # {trace_id="4bf9…"} 0.3 1700000000.1`; empty without an exemplar. */
function formatExemplar(exemplar: Exemplar | undefined): string {
  if (exemplar === undefined) return "";
  return ` # {trace_id="${exemplar.traceId}"} ${exemplar.value} ${exemplar.atMs / 1000}`;
}

/**
 * Converts the text of prom-client to OpenMetrics: removes the empty lines between families and the ending `_total` from the
 * heads of counters, and writes whole bucket bounds with a decimal point.
 */
export function toOpenMetrics(text: string): string {
  const families = text.trimEnd().split("\n\n");
  const withoutTotal = families.map((family) =>
    / counter$/m.test(family) ? family.replaceAll(/^(# \w+ \w+)_total /gm, "$1 ") : family,
  );
  return `${withoutTotal.join("\n").replaceAll(/le="(\d+)"/g, 'le="$1.0"')}\n`;
}

/** The value of a label, escaped for use between quotes. */
export function escapeLabelValue(value: string): string {
  return value
    .replaceAll("\\", String.raw`\\`)
    .replaceAll('"', String.raw`\"`)
    .replaceAll("\n", String.raw`\n`);
}
