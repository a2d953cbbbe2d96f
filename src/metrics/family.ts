/** One series of the table, with all its label sets, as Prometheus reads it. */

import { escaped, linesOf, observeIn, type Counted, type Exemplar, type Exposition } from "./lines.ts";
import { isOpenCounter, type SeriesDefinition } from "./series.ts";

export type Labels = Readonly<Record<string, string>>;

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
  /** Of the lines that are kept. */
  #exposition: Exposition = "plain";

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

  observe(labels: Labels, value: number, exemplar?: Exemplar): void {
    if (this.#definition.type !== "histogram") return;
    observeIn(this.#changed(labels), value, { buckets: this.#buckets, exemplar });
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

  /** Its text, in parts: as one it would be copied again and again. */
  parts(exposition: Exposition = "plain"): string[] {
    if (exposition !== this.#exposition) for (const sample of this.#samples.values()) sample.text = undefined;
    this.#exposition = exposition;
    const parts = [this.#head()];
    for (const sample of this.#samples.values()) parts.push((sample.text ??= this.#lines(sample)));
    return parts;
  }

  #head(): string {
    const { help, type } = this.#definition;
    const told =
      this.#exposition === "open" && type === "counter" ? this.#openHead() : { name: this.#name, type };
    return `# HELP ${told.name} ${help}\n# TYPE ${told.name} ${told.type}\n`;
  }

  #openHead(): { readonly name: string; readonly type: string } {
    return isOpenCounter(this.#definition)
      ? { name: this.#name.slice(0, -"_total".length), type: "counter" }
      : { name: this.#name, type: "unknown" };
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
      exposition: this.#exposition,
    });
  }
}
