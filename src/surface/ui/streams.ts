/**
 * Streams of server-sent events to open pages, bounded in number and memory. A slow reader does not delay the others: while its stream is
 * stalled (the socket's buffer is full), it misses messages, and later gets a snapshot of everything.
 */

import { Timers, type Clock } from "../../base/index.ts";

/** The writable side of a stream: an HTTP response. */
export interface StreamSink {
  /** False means back-pressure: the text waits in memory until `drain`. */
  write(text: string): boolean;
  on(event: "drain" | "close", listener: () => void): unknown;
  destroy(): unknown;
}

export const MAX_STREAMS = 32;
/** A heartbeat lets TCP detect readers that have disappeared. */
export const HEARTBEAT_MS = 15_000;
/** A stream whose reader stalls for longer is closed. */
export const STALL_TIMEOUT_MS = 10_000;

const HEARTBEAT = ":\n\n";

interface EventStream {
  readonly sink: StreamSink;
  /** When the sink began to exert back-pressure, on the monotonic clock. */
  stalledSince: number | undefined;
  /** It missed messages, so it needs a snapshot. */
  isStale: boolean;
}

interface EventStreamsOptions {
  readonly clock: Clock;
  /** The complete state, for a stream that is new or missed messages. */
  readonly snapshot: () => string;
  readonly onEmpty: () => void;
}

/** The open streams of server-sent events. */
export class EventStreams {
  readonly #options: EventStreamsOptions;
  readonly #openStreams = new Set<EventStream>();
  readonly #timers: Timers<"heartbeat">;

  constructor(options: EventStreamsOptions) {
    this.#options = options;
    this.#timers = new Timers(options.clock);
  }

  get size(): number {
    return this.#openStreams.size;
  }

  get hasCapacity(): boolean {
    return this.#openStreams.size < MAX_STREAMS;
  }

  /** Begins a stream with a snapshot. */
  addStream(sink: StreamSink): void {
    const stream: EventStream = { sink, stalledSince: undefined, isStale: false };
    this.#openStreams.add(stream);
    sink.on("close", () => this.#remove(stream));
    sink.on("drain", () => this.#onDrain(stream));
    this.#timers.setUnlessRunning("heartbeat", HEARTBEAT_MS, () => this.#sendHeartbeats());
    this.#write(stream, toEvent(this.#options.snapshot()));
  }

  /** Sends a message to all streams. A stalled stream gets a snapshot once it drains. */
  broadcast(message: string): void {
    this.#writeToAll(toEvent(message));
  }

  close(): void {
    for (const { sink } of this.#openStreams) sink.destroy();
    for (const stream of this.#openStreams) this.#remove(stream);
  }

  /** Writes an event to all streams but the stalled ones. */
  #writeToAll(text: string): void {
    for (const stream of this.#openStreams) {
      if (stream.stalledSince === undefined) this.#write(stream, text);
      else this.#markStale(stream);
    }
  }

  /** Writes a text, and records when the stream begins to stall. */
  #write(stream: EventStream, text: string): void {
    if (!stream.sink.write(text)) stream.stalledSince = this.#options.clock.monotonic();
  }

  /** Records that a stalled stream missed a message, and closes it if it has stalled for too long. */
  #markStale(stream: EventStream): void {
    stream.isStale = true;
    const now = this.#options.clock.monotonic();
    if (now - (stream.stalledSince ?? now) >= STALL_TIMEOUT_MS) stream.sink.destroy();
  }

  /** Handles that the reader is ready again: a stream that missed messages gets a snapshot. */
  #onDrain(stream: EventStream): void {
    stream.stalledSince = undefined;
    if (!stream.isStale || !this.#openStreams.has(stream)) return;
    stream.isStale = false;
    this.#write(stream, toEvent(this.#options.snapshot()));
  }

  /** Sends a heartbeat to each stream, and schedules the next one while streams are open. */
  #sendHeartbeats(): void {
    this.#writeToAll(HEARTBEAT);
    if (this.size > 0) this.#timers.set("heartbeat", HEARTBEAT_MS, () => this.#sendHeartbeats());
  }

  /** Forgets a stream that has ended; after the last one, stops the heartbeats and calls `onEmpty`. */
  #remove(stream: EventStream): void {
    const wasOpen = this.#openStreams.delete(stream);
    if (!wasOpen || this.size > 0) return;
    this.#timers.cancel("heartbeat");
    this.#options.onEmpty();
  }
}

/** Formats a server-sent event. The message must not contain line breaks. */
function toEvent(message: string): string {
  return `data: ${message}\n\n`;
}
