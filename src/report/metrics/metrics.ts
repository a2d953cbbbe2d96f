/** The operator's own metrics (docs/reference/metrics.md). */

import { collectDefaultMetrics, Registry } from "prom-client";

import { systemClock, type Clock } from "../../base/index.ts";
import { currentVisibleTraceId } from "../../base/trace/index.ts";
import { Family, toOpenMetrics, type Exposition, type Labels } from "./family.ts";
import { SERIES, type SeriesName } from "./series.ts";

/** Interval at which the delay of the event loop is sampled. It is long, because each sample wakes the process up. */
const LOOP_SAMPLE_MS = 100;

/** Label values of counters that are visible at zero from the start: places of internal errors, kinds of watch errors. */
const ERROR_PLACES = ["http", "debug socket", "timer", "watch", "child", "uncaught"];
const WATCH_ERRORS = ["expired", "eof", "unexpected-eof", "fail", "nil"];

/** The series at `/metrics`: those of the table with a prefix (`--prometheus-metrics-prefix`), and those of the process itself. Times are in seconds. */
export class Metrics {
  readonly #processRegistry = new Registry();
  readonly #families: ReadonlyMap<SeriesName, Family>;
  readonly #samplers: (() => void | Promise<void>)[] = [];
  readonly #clock: Pick<Clock, "now">;
  /** Set by the first request for OpenMetrics, the only format with exemplars. */
  #recordsExemplars = false;

  constructor(prefix: string, clock: Pick<Clock, "now"> = systemClock) {
    this.#clock = clock;
    const families = Object.entries(SERIES).map(
      ([key, definition]) => [key as SeriesName, new Family(definition, prefix)] as const,
    );
    this.#families = new Map(families);
    // Counters that must be visible at zero: Prometheus sees no increase in a series that begins with its first event.
    for (const place of ERROR_PLACES) this.ensureSeries("internalErrors", { place });
    for (const type of WATCH_ERRORS) this.ensureSeries("watchErrors", { error_type: type });
    collectDefaultMetrics({ register: this.#processRegistry, eventLoopMonitoringPrecision: LOOP_SAMPLE_MS });
  }

  /** As `renderBytes`, as a string. */
  async renderText(exposition?: Exposition): Promise<string> {
    return String(await this.renderBytes(exposition));
  }

  /** The text for Prometheus in UTF-8. Calls the samplers first, so that gauges are current. */
  async renderBytes(exposition: Exposition = "plain"): Promise<Buffer> {
    for (const callSampler of this.#samplers) await callSampler();
    const processText = await this.#processRegistry.metrics();
    const families = [...this.#families.values()].map((family) => family.renderParts(exposition));
    if (exposition === "plain")
      return joinParts([...families.map((parts) => [...parts, "\n"]), [processText]]);
    // This scraper reads exemplars.
    this.#recordsExemplars = true;
    return joinParts([...families, [toOpenMetrics(processText), "# EOF\n"]]);
  }

  /** Calls `sample` before each scrape, so that gauges (queue lengths) are current. */
  beforeScrape(sample: () => void | Promise<void>): void {
    this.#samplers.push(sample);
  }

  /** Makes the series with these labels visible, at zero unless it has a value. */
  ensureSeries(name: SeriesName, labels: Labels): void {
    this.#families.get(name)?.ensureSample(labels);
  }

  /** Increases a counter. */
  add(name: SeriesName, labels: Labels, amount = 1): void {
    this.#families.get(name)?.add(labels, amount);
  }

  /** Sets a gauge. */
  set(name: SeriesName, labels: Labels, value: number): void {
    this.#families.get(name)?.set(labels, value);
  }

  /** Adds an observation to a histogram, with the current trace as its exemplar if a scraper reads exemplars. */
  observe(name: SeriesName, labels: Labels, value: number): void {
    const traceId = this.#recordsExemplars ? currentVisibleTraceId() : undefined;
    const exemplar = traceId === undefined ? undefined : { traceId, value, atMs: this.#clock.now() };
    this.#families.get(name)?.observe(labels, value, exemplar);
  }

  /** Drops all label sets of one series. */
  clearSeries(name: SeriesName): void {
    this.#families.get(name)?.clear();
  }

  /** Drops every label set that has these `labels`, of all series or of those named. */
  dropSeries(labels: Labels, names?: readonly SeriesName[]): void {
    for (const [name, family] of this.#families) {
      const isNamed = names === undefined || names.includes(name);
      if (isNamed && family.hasLabels(labels)) family.dropSamples(labels);
    }
  }
}

/** Joins the parts of all families in one buffer. A thousand modules have some 17 MB, so the parts are not joined as text first. */
function joinParts(families: readonly (readonly string[])[]): Buffer {
  let length = 0;
  for (const parts of families) for (const part of parts) length += Buffer.byteLength(part);
  const bytes = Buffer.allocUnsafe(length);
  let offset = 0;
  for (const parts of families) for (const part of parts) offset += bytes.write(part, offset);
  return bytes;
}
