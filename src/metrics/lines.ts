/** Lines of one label set, in Prometheus' text format or as OpenMetrics. */

/** Prometheus' own text, or OpenMetrics, which alone has exemplars. */
export type Exposition = "plain" | "open";

/** A trace in which a value of a bucket was observed. */
export interface Exemplar {
  readonly traceId: string;
  readonly value: number;
  readonly atMs: number;
}

/** What is known of one label set. */
export interface Counted {
  /** Of a counter or gauge; the sum of a histogram. */
  value: number;
  /** Of a histogram: observations up to each bucket's bound, and of all. */
  readonly counts: number[];
  count: number;
  /** Of a histogram: the last of each bucket, by its place. */
  exemplars?: Map<number, Exemplar>;
}

/** Takes an observation into a histogram. */
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
  const own = labels === "" ? "" : `{${labels}}`;
  if (buckets === undefined) return `${name}${own} ${value}\n`;
  const after = labels === "" ? "" : `,${labels}`;
  const isOpen = exposition === "open";
  const upTo = [...buckets.map((bound) => boundOf(bound, isOpen)), "+Inf"].map((bound, place) => {
    const exemplar = isOpen ? exemplarOf(sample.exemplars?.get(place)) : "";
    return `${name}_bucket{le="${bound}"${after}} ${counts[place] ?? count}${exemplar}\n`;
  });
  return `${upTo.join("")}${name}_sum${own} ${value}\n${name}_count${own} ${count}\n`;
}

/** OpenMetrics has bounds with a point. */
function boundOf(bound: number, isOpen: boolean): string {
  return isOpen && Number.isInteger(bound) ? `${bound}.0` : String(bound);
}

function exemplarOf(exemplar: Exemplar | undefined): string {
  if (exemplar === undefined) return "";
  return ` # {trace_id="${exemplar.traceId}"} ${exemplar.value} ${exemplar.atMs / 1000}`;
}

/** A text of prom-client's, with an empty line between families, as OpenMetrics. */
export function asOpenMetrics(text: string): string {
  const families = text
    .trimEnd()
    .split("\n\n")
    .map((family) =>
      / counter$/m.test(family) ? family.replaceAll(/^(# \w+ \w+)_total /gm, "$1 ") : family,
    );
  return `${families.join("\n").replaceAll(/le="(\d+)"/g, 'le="$1.0"')}\n`;
}

/** The value of a label as it stands between quotes. */
export function escaped(value: string): string {
  return value
    .replaceAll("\\", String.raw`\\`)
    .replaceAll('"', String.raw`\"`)
    .replaceAll("\n", String.raw`\n`);
}
