/** One series of the table, with all its label sets, in Prometheus' text format. */

import type { SeriesDefinition } from "./series.ts";

export type Labels = Readonly<Record<string, string>>;

/** What is known of one label set. */
interface Counted {
  /** Of a counter or gauge; the sum of a histogram. */
  value: number;
  /** Of a histogram: observations up to each bucket's bound, and of all. */
  readonly counts: number[];
  count: number;
}

/** One label set. */
interface Sample extends Counted {
  readonly labels: Labels;
  /** Its lines, until it changes: a thousand modules have some hundred thousand. */
  text: string | undefined;
}

/** The label sets of one series; the text of each is made again only when it has changed. */
export class Family {
  readonly #name: string;
  readonly #definition: SeriesDefinition;
  readonly #buckets: readonly number[];
  readonly #samples = new Map<string, Sample>();

  constructor(definition: SeriesDefinition, prefix: string) {
    this.#name = `${prefix}${definition.name}`;
    this.#definition = definition;
    this.#buckets = definition.buckets ?? [];
    if (definition.labels.length === 0) this.touch({});
  }

  /** Whether all of these are labels of it. */
  knows(labels: Labels): boolean {
    return Object.keys(labels).every((label) => this.#definition.labels.includes(label));
  }

  /** Makes the label set visible, at zero unless it has a value. */
  touch(labels: Labels): void {
    this.#at(labels);
  }

  add(labels: Labels, amount: number): void {
    const sample = this.#changed(labels);
    if (this.#definition.type === "counter") sample.value += Math.max(0, amount);
  }

  set(labels: Labels, value: number): void {
    const sample = this.#at(labels);
    if (this.#definition.type !== "gauge" || sample.value === value) return;
    sample.value = value;
    sample.text = undefined;
  }

  observe(labels: Labels, value: number): void {
    if (this.#definition.type !== "histogram") return;
    observeIn(this.#changed(labels), value, this.#buckets);
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

  text(): string {
    const { help, type } = this.#definition;
    let text = `# HELP ${this.#name} ${help}\n# TYPE ${this.#name} ${type}\n`;
    for (const sample of this.#samples.values()) text += sample.text ??= this.#lines(sample);
    return text;
  }

  #changed(labels: Labels): Sample {
    const sample = this.#at(labels);
    sample.text = undefined;
    return sample;
  }

  #at(labels: Labels): Sample {
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
    const held = known.filter((label) => sample.labels[label] !== undefined);
    const labels = held.map((label) => `${label}="${escaped(sample.labels[label] ?? "")}"`).join(",");
    return linesOf(this.#name, sample, {
      labels,
      buckets: type === "histogram" ? (buckets ?? []) : undefined,
    });
  }
}

/** Takes an observation into a histogram. */
export function observeIn(sample: Counted, value: number, buckets: readonly number[]): void {
  sample.value += value;
  sample.count += 1;
  for (const [place, bound] of buckets.entries())
    if (value <= bound) sample.counts[place] = (sample.counts[place] ?? 0) + 1;
}

/** The lines of one label set in Prometheus' text format; a histogram has buckets. */
export function linesOf(
  name: string,
  { value, count, counts }: Counted,
  { labels, buckets }: { readonly labels: string; readonly buckets: readonly number[] | undefined },
): string {
  const own = labels === "" ? "" : `{${labels}}`;
  if (buckets === undefined) return `${name}${own} ${value}\n`;
  const after = labels === "" ? "" : `,${labels}`;
  const upTo = [...buckets.map(String), "+Inf"].map(
    (bound, place) => `${name}_bucket{le="${bound}"${after}} ${counts[place] ?? count}\n`,
  );
  return `${upTo.join("")}${name}_sum${own} ${value}\n${name}_count${own} ${count}\n`;
}

/** The value of a label as it stands between quotes. */
export function escaped(value: string): string {
  return value
    .replaceAll("\\", String.raw`\\`)
    .replaceAll('"', String.raw`\"`)
    .replaceAll("\n", String.raw`\n`);
}
