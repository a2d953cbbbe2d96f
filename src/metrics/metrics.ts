/** The operator's own metrics (docs/reference/metrics.md). */

import { collectDefaultMetrics, Registry } from "prom-client";

import { systemClock, type Clock } from "../lib/index.ts";
import { traceToShow } from "../trace/index.ts";
import { Family, asOpenMetrics, type Exposition, type Labels } from "./family.ts";
import { SERIES, type SeriesName } from "./series.ts";

/** How often the delay of the event loop is sampled: each sample wakes the process up. */
const LOOP_SAMPLE_MS = 100;

/** Places of internal errors, and kinds of errors of watches: at zero from the start. */
const PLACES = ["http", "debug socket", "timer", "watch", "child", "uncaught"];
const WATCH_ERRORS = ["expired", "eof", "unexpected-eof", "fail", "nil"];

/**
 * The series at `/metrics`: those of the table with a prefix (`--prometheus-metrics-prefix`), and those of the process
 * itself. Times are in seconds.
 */
export class Metrics {
  readonly #process = new Registry();
  readonly #families: ReadonlyMap<SeriesName, Family>;
  readonly #samplers: (() => void | Promise<void>)[] = [];
  readonly #clock: Pick<Clock, "now">;
  /** Set by the first request for OpenMetrics, the only format with exemplars. */
  #takesExemplars = false;

  constructor(prefix: string, clock: Pick<Clock, "now"> = systemClock) {
    this.#clock = clock;
    const families = Object.entries(SERIES).map(
      ([key, definition]) => [key as SeriesName, new Family(definition, prefix)] as const,
    );
    this.#families = new Map(families);
    for (const place of PLACES) this.touch("internalErrors", { place });
    for (const type of WATCH_ERRORS) this.touch("watchErrors", { error_type: type });
    collectDefaultMetrics({ register: this.#process, eventLoopMonitoringPrecision: LOOP_SAMPLE_MS });
  }

  async text(exposition?: Exposition): Promise<string> {
    return String(await this.bytes(exposition));
  }

  /** The text for Prometheus; calls the samplers first. */
  async bytes(exposition: Exposition = "plain"): Promise<Buffer> {
    for (const sample of this.#samplers) await sample();
    const ofProcess = await this.#process.metrics();
    const own = [...this.#families.values()].map((family) => family.parts(exposition));
    if (exposition === "plain") return bytesOf([...own.map((parts) => [...parts, "\n"]), [ofProcess]]);
    this.#takesExemplars = true;
    return bytesOf([...own, [asOpenMetrics(ofProcess), "# EOF\n"]]);
  }

  /** Calls `sample` before each scrape, so that gauges (queue lengths) are current. */
  beforeScrape(sample: () => void | Promise<void>): void {
    this.#samplers.push(sample);
  }

  /** Makes the series with these labels visible, at zero unless it has a value. */
  touch(name: SeriesName, labels: Labels): void {
    this.#families.get(name)?.touch(labels);
  }

  add(name: SeriesName, labels: Labels, amount = 1): void {
    this.#families.get(name)?.add(labels, amount);
  }

  set(name: SeriesName, labels: Labels, value: number): void {
    this.#families.get(name)?.set(labels, value);
  }

  observe(name: SeriesName, labels: Labels, value: number): void {
    const traceId = this.#takesExemplars ? traceToShow() : undefined;
    const exemplar = traceId === undefined ? undefined : { traceId, value, atMs: this.#clock.now() };
    this.#families.get(name)?.observe(labels, value, exemplar);
  }

  /** Drops all label sets of one series. */
  clear(name: SeriesName): void {
    this.#families.get(name)?.clear();
  }

  /** Drops every label set that has these `labels`, of all series or of those named. */
  drop(labels: Labels, names?: readonly SeriesName[]): void {
    for (const [name, family] of this.#families)
      if (names?.includes(name) !== false && family.knows(labels)) family.drop(labels);
  }
}

/** Joins the parts in one buffer. A thousand modules have some 17 MB, so no text is made of them in between. */
function bytesOf(families: readonly (readonly string[])[]): Buffer {
  let length = 0;
  for (const parts of families) for (const part of parts) length += Buffer.byteLength(part);
  const bytes = Buffer.allocUnsafe(length);
  let offset = 0;
  for (const parts of families) for (const part of parts) offset += bytes.write(part, offset);
  return bytes;
}
