/** The operator's own metrics (docs/METRICS.md). */

import { collectDefaultMetrics, Counter, Gauge, Histogram, Registry } from "prom-client";

import { SERIES, type SeriesDefinition, type SeriesName } from "./series.ts";

export type Labels = Readonly<Record<string, string>>;

/** How often the delay of the event loop is sampled: each sample wakes the process up. */
const LOOP_SAMPLE_MS = 100;

type Metric = Counter | Gauge | Histogram;

/** Places of internal errors, and kinds of errors of watches: at zero from the start. */
const PLACES = ["http", "debug socket", "timer", "watch", "child", "uncaught"];
const WATCH_ERRORS = ["expired", "eof", "unexpected-eof", "fail", "nil"];

/**
 * The series at `/metrics`: those of the table with a prefix (`--prometheus-metrics-prefix`), and those of the process
 * itself. Times are in seconds.
 */
export class Metrics {
  readonly #registry = new Registry();
  readonly #metrics = new Map<SeriesName, Metric>();
  readonly #samplers: (() => void | Promise<void>)[] = [];

  constructor(prefix: string) {
    for (const [key, definition] of Object.entries(SERIES)) {
      this.#metrics.set(key as SeriesName, create(definition, prefix, this.#registry));
    }
    for (const place of PLACES) this.touch("internalErrors", { place });
    for (const type of WATCH_ERRORS) this.touch("watchErrors", { error_type: type });
    collectDefaultMetrics({ register: this.#registry, eventLoopMonitoringPrecision: LOOP_SAMPLE_MS });
  }

  /** The text that Prometheus reads; calls the samplers first. */
  async text(): Promise<string> {
    for (const sample of this.#samplers) await sample();
    return this.#registry.metrics();
  }

  /** Calls `sample` before each scrape, so that gauges (queue lengths) are current. */
  beforeScrape(sample: () => void | Promise<void>): void {
    this.#samplers.push(sample);
  }

  /** Makes the series with these labels visible, at zero unless it has a value. */
  touch(name: SeriesName, labels: Labels): void {
    const metric = this.#metrics.get(name);
    if (metric instanceof Histogram) metric.zero(labels);
    else metric?.inc(labels, 0);
  }

  add(name: SeriesName, labels: Labels, amount = 1): void {
    const metric = this.#metrics.get(name);
    if (metric instanceof Counter) metric.inc(labels, Math.max(0, amount));
  }

  set(name: SeriesName, labels: Labels, value: number): void {
    const metric = this.#metrics.get(name);
    if (metric instanceof Gauge) metric.set(labels, value);
  }

  observe(name: SeriesName, labels: Labels, value: number): void {
    const metric = this.#metrics.get(name);
    if (metric instanceof Histogram) metric.observe(labels, value);
  }

  /** Drops all label sets of one series. */
  clear(name: SeriesName): void {
    this.#metrics.get(name)?.reset();
  }

  /** Drops every label set that has these `labels`, of all series or of those named. */
  async drop(labels: Labels, names?: readonly SeriesName[]): Promise<void> {
    for (const [name, metric] of this.#metrics) {
      if (names?.includes(name) === false) continue;
      if (Object.keys(labels).every((label) => SERIES[name].labels.some((known) => known === label))) {
        await dropFrom(metric, labels);
      }
    }
  }
}

function create(definition: SeriesDefinition, prefix: string, registry: Registry): Metric {
  const { type, labels, help, buckets = [] } = definition;
  const common = {
    name: `${prefix}${definition.name}`,
    help,
    labelNames: [...labels],
    registers: [registry],
  };
  if (type === "counter") return new Counter(common);
  return type === "gauge" ? new Gauge(common) : new Histogram({ ...common, buckets: [...buckets] });
}

async function dropFrom(metric: Metric, labels: Labels): Promise<void> {
  const { values } = await metric.get();
  for (const { labels: held } of values) {
    const { le: _bucket, ...own } = held as Record<string, string>;
    if (Object.entries(labels).every(([label, value]) => own[label] === value)) metric.remove(own);
  }
}
