/** Hands spans to a collector in batches; nothing waits for it, and what it does not take is dropped. */

import { oneLine, orAborted, sleep, type Clock, type Logger, type Timer } from "../lib/index.ts";
import { outside, type Span, type SpanListener } from "./tracer.ts";
import type { OtlpTarget, SendSpans } from "./otlp.ts";

/** Spans that wait, and of these how many go at once. */
const MOST_WAITING = 2048;
const BATCH = 512;
/** A batch that is not full waits for this long. */
const EVERY_MS = 2000;
/** A batch that has not been taken by then is given up; the last one, at the end of the process, earlier. */
const PATIENCE_MS = 30_000;
const LAST_MS = 1000;

/** Why spans were dropped: too many waited, or the collector did not take them. */
export type DropReason = "full" | "failed";
export const DROP_REASONS: readonly DropReason[] = ["full", "failed"];

interface ExportOptions {
  readonly clock: Clock;
  readonly logger: Logger;
  /** Which share of traces is handed on, from 0 to 1. */
  readonly ratio: number;
  /** Takes secrets out of all texts. */
  readonly redactDeep: <T>(value: T) => T;
  readonly send: SendSpans;
}

/** Spans for a collector that takes OTLP over HTTP; nothing of that is loaded before the first batch. */
export function exportTo(target: OtlpTarget, options: Omit<ExportOptions, "send">): SpanExport {
  const send: SendSpans = async (spans, signal) => {
    const { otlpSender } = await import("./otlp.ts");
    return otlpSender(target)(spans, signal);
  };
  return new SpanExport({ ...options, send });
}

/** Spans on their way to a collector. */
export class SpanExport implements SpanListener {
  readonly #options: ExportOptions;
  #waiting: Span[] = [];
  #timer: Timer | undefined;
  #sending: Promise<void> | undefined;
  readonly #stop = new AbortController();
  #isFailing = false;
  /** Called with the number of spans that are dropped. */
  onDropped: (reason: DropReason, count: number) => void = () => {};

  constructor(options: ExportOptions) {
    this.#options = options;
  }

  /** Whether a trace is handed on: whole, or not at all. Others that sample by this ratio take the same ones. */
  takes(traceId: string): boolean {
    return Number.parseInt(traceId.slice(-13), 16) < this.#options.ratio * 2 ** 52;
  }

  ended(span: Span): void {
    if (!this.takes(span.traceId)) return;
    if (this.#waiting.length >= MOST_WAITING) return this.onDropped("full", 1);
    this.#waiting.push(span);
    if (this.#waiting.length >= BATCH) this.#next();
    else this.#timer ??= this.#options.clock.setTimer(EVERY_MS, () => this.#next());
  }

  /** Sends what waits, for a moment. */
  async close(): Promise<void> {
    const over = new AbortController();
    const patience = sleep(this.#options.clock, LAST_MS, over.signal);
    const all = async (): Promise<void> => {
      while (this.#waiting.length > 0 || this.#sending !== undefined) {
        this.#next();
        await this.#sending;
      }
    };
    await Promise.race([all(), patience]);
    over.abort();
    this.#timer?.cancel();
    this.#stop.abort(new Error("the operator ends"));
  }

  /** One batch at a time: a slow collector is not given more. */
  #next(): void {
    if (this.#sending !== undefined || this.#waiting.length === 0) return;
    this.#timer?.cancel();
    this.#timer = undefined;
    const batch = this.#waiting.splice(0, BATCH);
    this.#sending = outside(() => this.#send(batch)).finally(() => {
      this.#sending = undefined;
      if (this.#waiting.length >= BATCH) this.#next();
      else if (this.#waiting.length > 0)
        this.#timer ??= this.#options.clock.setTimer(EVERY_MS, () => this.#next());
    });
  }

  async #send(batch: readonly Span[]): Promise<void> {
    const { clock, logger, send, redactDeep } = this.#options;
    const late = new AbortController();
    const timer = clock.setTimer(PATIENCE_MS, () => late.abort(new Error("no answer in time")));
    const signal = AbortSignal.any([late.signal, this.#stop.signal]);
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
  return { ...span, ...redactDeep({ name, attributes, ...(error === undefined ? {} : { error }) }) };
}
