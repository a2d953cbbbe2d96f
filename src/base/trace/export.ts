/**
 * Exports spans to an OpenTelemetry collector in batches, without blocking other work; drops spans that the collector does not accept. `onDropped` counts
 * them.
 */

import { callIfLate, oneLine, orAborted, sleep, Timers, type Clock, type Logger } from "../index.ts";
import type { Span } from "../model/index.ts";
import { withoutActiveSpan, type SpanListener } from "./tracer.ts";
import type { OtlpTarget, SendSpans } from "./otlp.ts";

/** Most queued spans, and the batch size. */
const MAX_QUEUED_SPANS = 2048;
const BATCH_SIZE = 512;
/** How long a span waits at most until an incomplete batch is sent. */
const SEND_INTERVAL_MS = 2000;
/** Time limits for sending a batch, and for the last one at the end of the process. */
const SEND_TIMEOUT_MS = 30_000;
const CLOSE_TIMEOUT_MS = 1000;

/** Why spans were dropped: the queue was full, or the export failed. */
export type DropReason = "full" | "failed";
export const DROP_REASONS: readonly DropReason[] = ["full", "failed"];

interface ExportOptions {
  readonly clock: Clock;
  readonly logger: Logger;
  /** The sampled share of traces, from 0 to 1. */
  readonly ratio: number;
  readonly redactDeep: <T>(value: T) => T;
  readonly send: SendSpans;
}

/**
 * Makes an exporter that sends spans to a collector by OTLP over HTTP. The OpenTelemetry libraries are loaded with the first
 * batch, because most operators run without a collector.
 */
export function makeOtlpExport(target: OtlpTarget, options: Omit<ExportOptions, "send">): SpanExport {
  const send: SendSpans = async (spans, signal) => {
    const { makeOtlpSender } = await import("./otlp.ts");
    return makeOtlpSender(target)(spans, signal);
  };
  return new SpanExport({ ...options, send });
}

/** Queues spans and exports them to a collector. */
export class SpanExport implements SpanListener {
  readonly #options: ExportOptions;
  #queued: Span[] = [];
  readonly #timers: Timers<"send">;
  #sending: Promise<void> | undefined;
  readonly #abortController = new AbortController();
  #isFailing = false;
  /** Called with the number of dropped spans. */
  onDropped: (reason: DropReason, count: number) => void = () => {};

  constructor(options: ExportOptions) {
    this.#options = options;
    this.#timers = new Timers(options.clock);
  }

  /**
   * Whether the spans of a trace are exported: all or none. The trace id decides, so that other programs which sample with the
   * same ratio select the same traces.
   */
  isSampled(traceId: string): boolean {
    // Thirteen hexadecimal digits are 52 random bits, which a number can represent exactly.
    return Number.parseInt(traceId.slice(-13), 16) < this.#options.ratio * 2 ** 52;
  }

  /** Queues a span that has ended, if its trace is sampled. */
  onSpanEnded(span: Span): void {
    if (!this.isSampled(span.traceId)) return;
    if (this.#queued.length >= MAX_QUEUED_SPANS) return this.onDropped("full", 1);
    this.#queued.push(span);
    this.#sendOrWait();
  }

  /** Sends the next batch: at once if it is full, else after a pause in which further spans may join it. */
  #sendOrWait(): void {
    if (this.#queued.length >= BATCH_SIZE) this.#sendNextBatch();
    else if (this.#queued.length > 0)
      this.#timers.setUnlessRunning("send", SEND_INTERVAL_MS, () => this.#sendNextBatch());
  }

  /** Sends the queued spans before the process ends. Gives up after a short time: a slow collector must not delay the end. */
  async close(): Promise<void> {
    const timeLimit = new AbortController();
    const timeOut = sleep(this.#options.clock, CLOSE_TIMEOUT_MS, timeLimit.signal);
    const sendAll = async (): Promise<void> => {
      while (this.#queued.length > 0 || this.#sending !== undefined) {
        this.#sendNextBatch();
        await this.#sending;
      }
    };
    await Promise.race([sendAll(), timeOut]);
    timeLimit.abort();
    this.#timers.close();
    this.#abortController.abort(new Error("the operator ends"));
  }

  /** Starts to send the next batch, unless one is being sent: one at a time does not overload a slow collector. */
  #sendNextBatch(): void {
    if (this.#sending !== undefined || this.#queued.length === 0) return;
    this.#timers.cancel("send");
    const batch = this.#queued.splice(0, BATCH_SIZE);
    this.#sending = withoutActiveSpan(() => this.#send(batch)).finally(() => {
      this.#sending = undefined;
      this.#sendOrWait();
    });
  }

  /** Sends one batch without its secrets. A failed batch is dropped, because spans are not worth memory; only the first failure in a row is logged. */
  async #send(batch: readonly Span[]): Promise<void> {
    const { clock, logger, send, redactDeep } = this.#options;
    const timeout = new AbortController();
    const giveUp = (): void => timeout.abort(new Error("no answer in time"));
    const signal = AbortSignal.any([timeout.signal, this.#abortController.signal]);
    try {
      const redactedSpans = batch.map((span) => redactSpan(span, redactDeep));
      await callIfLate(clock, SEND_TIMEOUT_MS, giveUp, orAborted(send(redactedSpans, signal), signal));
      if (this.#isFailing) logger.info("The collector takes spans again");
      this.#isFailing = false;
    } catch (error) {
      this.onDropped("failed", batch.length);
      if (!this.#isFailing)
        logger.warn("The collector takes no spans; they are dropped", { error: oneLine(error) });
      this.#isFailing = true;
    }
  }
}

/** A copy of the span with redacted texts: other fields cannot contain a secret. */
function redactSpan(span: Span, redactDeep: ExportOptions["redactDeep"]): Span {
  const { name, attributes, error } = span;
  return { ...span, ...redactDeep({ name, attributes, error }) };
}
