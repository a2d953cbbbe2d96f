/** A family of series, and its lines in Prometheus' text format or as OpenMetrics. */

import { isOpenCounter, type SeriesDefinition } from "./series.ts";

export type Labels = Readonly<Record<string, string>>;

/** One label set. */
interface Sample extends Counted {
  readonly labels: Labels;
  /** Its cached lines; undefined after a change. A thousand modules have some hundred thousand lines. */
  text: string | undefined;
}

/** The label sets of one series; the text of each is made again only when it has changed. */
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
    if (definition.labels.length === 0) this.touch({});
  }

  /** Whether the series has all these labels. */
  knows(labels: Labels): boolean {
    return Object.keys(labels).every((label) => this.#definition.labels.includes(label));
  }

  /** Makes the label set visible, at zero unless it has a value. */
  touch(labels: Labels): void {
    this.#sampleOf(labels);
  }

  add(labels: Labels, amount: number): void {
    const sample = this.#changedSampleOf(labels);
    if (this.#definition.type === "counter") sample.value += Math.max(0, amount);
  }

  set(labels: Labels, value: number): void {
    const sample = this.#sampleOf(labels);
    if (this.#definition.type !== "gauge" || sample.value === value) return;
    sample.value = value;
    sample.text = undefined;
  }

  observe(labels: Labels, value: number, exemplar?: Exemplar): void {
    if (this.#definition.type !== "histogram") return;
    observeIn(this.#changedSampleOf(labels), value, { buckets: this.#buckets, exemplar });
  }

  /** Drops all label sets. */
  clear(): void {
    this.#samples.clear();
  }

  /** Drops every label set that has these labels. */
  drop(labels: Labels): void {
    const wanted = Object.entries(labels);
    for (const [key, sample] of this.#samples)
      if (wanted.every(([label, value]) => sample.labels[label] === value)) this.#samples.delete(key);
  }

  /** The text of the family in parts. One large text would be copied several times. */
  parts(exposition: Exposition = "plain"): string[] {
    if (exposition !== this.#exposition) for (const sample of this.#samples.values()) sample.text = undefined;
    this.#exposition = exposition;
    const parts = [this.#headText()];
    for (const sample of this.#samples.values()) parts.push((sample.text ??= this.#lines(sample)));
    return parts;
  }

  #headText(): string {
    const { help, type } = this.#definition;
    const reported =
      this.#exposition === "open" && type === "counter"
        ? this.#openMetricsHead()
        : { name: this.#name, type };
    return `# HELP ${reported.name} ${help}\n# TYPE ${reported.name} ${reported.type}\n`;
  }

  /** OpenMetrics omits the ending `_total` from the name of a counter. */
  #openMetricsHead(): { readonly name: string; readonly type: string } {
    return isOpenCounter(this.#definition)
      ? { name: this.#name.slice(0, -"_total".length), type: "counter" }
      : { name: this.#name, type: "unknown" };
  }

  /** The sample of a label set, which is about to change: its text must be made again. */
  #changedSampleOf(labels: Labels): Sample {
    const sample = this.#sampleOf(labels);
    sample.text = undefined;
    return sample;
  }

  /** The sample of a label set, created at zero at first use. */
  #sampleOf(labels: Labels): Sample {
    const key = this.#definition.labels.map((label) => labels[label] ?? "").join("\0");
    const known = this.#samples.get(key);
    if (known !== undefined) return known;
    const counts = this.#buckets.map(() => 0);
    const sample = { labels, value: 0, counts, count: 0, text: undefined };
    this.#samples.set(key, sample);
    return sample;
  }

  #lines(sample: Sample): string {
    const { labels: known, type, buckets } = this.#definition;
    const setLabels = known.filter((label) => sample.labels[label] !== undefined);
    const labels = setLabels.map((label) => `${label}="${escaped(sample.labels[label] ?? "")}"`).join(",");
    return linesOf(this.#name, sample, {
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

/** What is known of one label set. */
interface Counted {
  /** Of a counter or gauge; the sum of a histogram. */
  value: number;
  /** Of a histogram: observations up to each bucket's bound, and of all. */
  readonly counts: number[];
  count: number;
  /** Of a histogram: the last of each bucket, by its place. */
  exemplars?: Map<number, Exemplar>;
}

/** Adds an observation to a histogram: to each bucket whose bound is not smaller. */
export function observeIn(
  sample: Counted,
  value: number,
  { buckets, exemplar }: { readonly buckets: readonly number[]; readonly exemplar?: Exemplar | undefined },
): void {
  sample.value += value;
  sample.count += 1;
  for (const [place, bound] of buckets.entries())
    if (value <= bound) sample.counts[place] = (sample.counts[place] ?? 0) + 1;
  if (exemplar === undefined) return;
  const place = buckets.findIndex((bound) => value <= bound);
  sample.exemplars ??= new Map();
  sample.exemplars.set(place === -1 ? buckets.length : place, exemplar);
}

interface Form {
  readonly labels: string;
  /** Of a histogram. */
  readonly buckets: readonly number[] | undefined;
  readonly exposition?: Exposition;
}

/** The lines of one label set. */
export function linesOf(name: string, sample: Counted, { labels, buckets, exposition }: Form): string {
  const { value, count, counts } = sample;
  const ownLabels = labels === "" ? "" : `{${labels}}`;
  if (buckets === undefined) return `${name}${ownLabels} ${value}\n`;
  const furtherLabels = labels === "" ? "" : `,${labels}`;
  const isOpen = exposition === "open";
  const bucketLines = [...buckets.map((bound) => boundText(bound, isOpen)), "+Inf"].map((bound, place) => {
    const exemplar = isOpen ? exemplarText(sample.exemplars?.get(place)) : "";
    return `${name}_bucket{le="${bound}"${furtherLabels}} ${counts[place] ?? count}${exemplar}\n`;
  });
  return `${bucketLines.join("")}${name}_sum${ownLabels} ${value}\n${name}_count${ownLabels} ${count}\n`;
}

/** The bound of a bucket. In OpenMetrics it has a decimal point. */
function boundText(bound: number, isOpen: boolean): string {
  return isOpen && Number.isInteger(bound) ? `${bound}.0` : String(bound);
}

function exemplarText(exemplar: Exemplar | undefined): string {
  if (exemplar === undefined) return "";
  return ` # {trace_id="${exemplar.traceId}"} ${exemplar.value} ${exemplar.atMs / 1000}`;
}

/** Converts a text of prom-client, which has an empty line between families, to OpenMetrics. */
export function asOpenMetrics(text: string): string {
  const families = text
    .trimEnd()
    .split("\n\n")
    .map((family) =>
      / counter$/m.test(family) ? family.replaceAll(/^(# \w+ \w+)_total /gm, "$1 ") : family,
    );
  return `${families.join("\n").replaceAll(/le="(\d+)"/g, 'le="$1.0"')}\n`;
}

/** The value of a label, escaped for use between quotes. */
export function escaped(value: string): string {
  return value
    .replaceAll("\\", String.raw`\\`)
    .replaceAll('"', String.raw`\"`)
    .replaceAll("\n", String.raw`\n`);
}
