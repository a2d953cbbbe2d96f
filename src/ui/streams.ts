/** The streams of server-sent events: bounded in number and memory, and none waits for another. */

import type { Clock, Timer } from "../lib/index.ts";

/** Where a stream is written: a response. */
export interface Outlet {
  /** False: what was written waits in memory until `drain`. */
  write(text: string): boolean;
  on(event: "drain" | "close", listener: () => void): unknown;
  destroy(): unknown;
}

/** Pages that may look at the same time. */
export const MOST_STREAMS = 32;
/** Something is written at least this often, so that who has gone is noticed. */
export const BEAT_MS = 15_000;
/** A page that has not read for so long is let go. */
export const STUCK_MS = 10_000;

const BEAT = ":\n\n";

interface Stream {
  readonly outlet: Outlet;
  /** Since when it has not read what was written. */
  stuckSince: number | undefined;
  /** It missed news meanwhile. */
  behind: boolean;
}

interface StreamsOptions {
  readonly clock: Clock;
  /** All there is to know, for a page that is new or has missed something. */
  readonly whole: () => string;
  /** The last one has gone. */
  readonly emptied: () => void;
}

/** The open streams. */
export class Streams {
  readonly #options: StreamsOptions;
  readonly #open = new Set<Stream>();
  #beat: Timer | undefined;

  constructor(options: StreamsOptions) {
    this.#options = options;
  }

  get size(): number {
    return this.#open.size;
  }

  /** Whether there is room for one more. */
  get hasRoom(): boolean {
    return this.#open.size < MOST_STREAMS;
  }

  /** Begins a stream with all there is to know. */
  add(outlet: Outlet): void {
    const stream: Stream = { outlet, stuckSince: undefined, behind: false };
    this.#open.add(stream);
    outlet.on("close", () => this.#drop(stream));
    outlet.on("drain", () => this.#drained(stream));
    this.#beat ??= this.#options.clock.setTimer(BEAT_MS, () => this.#beats());
    this.#write(stream, framed(this.#options.whole()));
  }

  /** Tells all of them; one that has not read what was written before is told later, all at once. */
  tell(news: string): void {
    const text = framed(news);
    for (const stream of this.#open) {
      if (stream.stuckSince === undefined) this.#write(stream, text);
      else this.#skip(stream);
    }
  }

  /** Ends all of them. */
  close(): void {
    for (const { outlet } of this.#open) outlet.destroy();
    for (const stream of this.#open) this.#drop(stream);
  }

  #write(stream: Stream, text: string): void {
    if (!stream.outlet.write(text)) stream.stuckSince = this.#options.clock.monotonic();
  }

  #skip(stream: Stream): void {
    stream.behind = true;
    const now = this.#options.clock.monotonic();
    if (now - (stream.stuckSince ?? now) >= STUCK_MS) stream.outlet.destroy();
  }

  #drained(stream: Stream): void {
    stream.stuckSince = undefined;
    if (!stream.behind || !this.#open.has(stream)) return;
    stream.behind = false;
    this.#write(stream, framed(this.#options.whole()));
  }

  #beats(): void {
    for (const stream of this.#open) {
      if (stream.stuckSince === undefined) this.#write(stream, BEAT);
      else this.#skip(stream);
    }
    this.#beat = this.size === 0 ? undefined : this.#options.clock.setTimer(BEAT_MS, () => this.#beats());
  }

  #drop(stream: Stream): void {
    if (!this.#open.delete(stream) || this.size > 0) return;
    this.#beat?.cancel();
    this.#beat = undefined;
    this.#options.emptied();
  }
}

/** JSON has no line breaks of its own. */
function framed(news: string): string {
  return `data: ${news}\n\n`;
}
