/** Exports spans to a collector in batches, without blocking other work; drops spans that the collector does not accept. */

import { oneLine, orAborted, sleep, type Clock, type Logger, type Timer } from "../lib/index.ts";
import { outside, type Span, type SpanListener } from "./tracer.ts";
import type { OtlpTarget, SendSpans } from "./otlp.ts";

/** Most queued spans, and the batch size. */
const MOST_QUEUED = 2048;
const BATCH = 512;
/** Interval at which incomplete batches are sent. */
const EVERY_MS = 2000;
/** Time limits for sending a batch, and for the last one at the end of the process. */
const SEND_TIMEOUT_MS = 30_000;
const LAST_MS = 1000;

/** Why spans were dropped: the queue was full, or the export failed. */
export type DropReason = "full" | "failed";
export const DROP_REASONS: readonly DropReason[] = ["full", "failed"];

interface ExportOptions {
  readonly clock: Clock;
  readonly logger: Logger;
  /** The sampled share of traces, from 0 to 1. */
  readonly ratio: number;
  /** Redacts secrets in all strings. */
  readonly redactDeep: <T>(value: T) => T;
  readonly send: SendSpans;
}

/** Exports spans by OTLP over HTTP; loads the exporter with the first batch. */
export function exportTo(target: OtlpTarget, options: Omit<ExportOptions, "send">): SpanExport {
  const send: SendSpans = async (spans, signal) => {
    const { otlpSender } = await import("./otlp.ts");
    return otlpSender(target)(spans, signal);
  };
  return new SpanExport({ ...options, send });
}

/** Queues spans and exports them to a collector. */
export class SpanExport implements SpanListener {
  readonly #options: ExportOptions;
  #waiting: Span[] = [];
  #timer: Timer | undefined;
  #sending: Promise<void> | undefined;
  readonly #stop = new AbortController();
  #isFailing = false;
  /** Called with the number of dropped spans. */
  onDropped: (reason: DropReason, count: number) => void = () => {};

  constructor(options: ExportOptions) {
    this.#options = options;
  }

  /** Whether a trace is sampled, as a whole; decides by trace id, so other samplers with this ratio agree. */
  takes(traceId: string): boolean {
    // Thirteen hexadecimal digits are 52 random bits, which a number holds exactly.
    return Number.parseInt(traceId.slice(-13), 16) < this.#options.ratio * 2 ** 52;
  }

  /** Queues a span of a sampled trace. A full batch is sent at once, a smaller one after a pause. */
  ended(span: Span): void {
    if (!this.takes(span.traceId)) return;
    if (this.#waiting.length >= MOST_QUEUED) return this.onDropped("full", 1);
    this.#waiting.push(span);
    if (this.#waiting.length >= BATCH) this.#sendNextBatch();
    else this.#timer ??= this.#options.clock.setTimer(EVERY_MS, () => this.#sendNextBatch());
  }

  /** Sends the queued spans, within a short time limit. */
  async close(): Promise<void> {
    const timeLimit = new AbortController();
    const patience = sleep(this.#options.clock, LAST_MS, timeLimit.signal);
    const sendAll = async (): Promise<void> => {
      while (this.#waiting.length > 0 || this.#sending !== undefined) {
        this.#sendNextBatch();
        await this.#sending;
      }
    };
    await Promise.race([sendAll(), patience]);
    timeLimit.abort();
    this.#timer?.cancel();
    this.#stop.abort(new Error("the operator ends"));
  }

  /** Sends one batch at a time, so that a slow collector is not overloaded. */
  #sendNextBatch(): void {
    if (this.#sending !== undefined || this.#waiting.length === 0) return;
    this.#timer?.cancel();
    this.#timer = undefined;
    const batch = this.#waiting.splice(0, BATCH);
    this.#sending = outside(() => this.#send(batch)).finally(() => {
      this.#sending = undefined;
      if (this.#waiting.length >= BATCH) this.#sendNextBatch();
      else if (this.#waiting.length > 0)
        this.#timer ??= this.#options.clock.setTimer(EVERY_MS, () => this.#sendNextBatch());
    });
  }

  /** Sends one batch without secrets. A failed batch is dropped; only the first failure in a row is logged. */
  async #send(batch: readonly Span[]): Promise<void> {
    const { clock, logger, send, redactDeep } = this.#options;
    const timeout = new AbortController();
    const timer = clock.setTimer(SEND_TIMEOUT_MS, () => timeout.abort(new Error("no answer in time")));
    const signal = AbortSignal.any([timeout.signal, this.#stop.signal]);
    try {
      const clean = batch.map((span) => withoutSecrets(span, redactDeep));
      await orAborted(send(clean, signal), signal);
      if (this.#isFailing) logger.info("The collector takes spans again");
      this.#isFailing = false;
    } catch (error) {
      this.onDropped("failed", batch.length);
      if (!this.#isFailing)
        logger.warn("The collector takes no spans; they are dropped", { error: oneLine(error) });
      this.#isFailing = true;
    } finally {
      timer.cancel();
    }
  }
}

function withoutSecrets(span: Span, redactDeep: ExportOptions["redactDeep"]): Span {
  const { name, attributes, error } = span;
  return { ...span, ...redactDeep({ name, attributes, error }) };
}
