/** Reads the stream of a watch or list, notices when it is dead, and cuts it into lines. */

import type { Clock, Timer } from "../../lib/index.ts";
import { breathe, orAborted } from "../../lib/index.ts";
import type { ApiRequest, KubeClient } from "../client/client.ts";
import { ConnectionError } from "../api-errors.ts";

/** How a stream is read. */
export interface ReadOptions {
  readonly client: Pick<KubeClient, "stream">;
  readonly clock: Clock;
  /** Ends the reading. */
  readonly signal: AbortSignal;
  /** Give up when nothing arrives for this long, in milliseconds. */
  readonly silenceMs: number;
}

/**
 * Sends `request` and hands each chunk to `take` in order; resolves at a clean end.
 * Throws ApiError or ConnectionError, also after `silenceMs` without a byte, and the signal's reason.
 */
export async function readStream(
  request: ApiRequest,
  options: ReadOptions,
  take: (chunk: Uint8Array) => Promise<void> | void,
): Promise<void> {
  const attempt = new AbortController();
  const cut = (reason: unknown): void => attempt.abort(reason);
  const stop = (): void => cut(options.signal.reason);
  if (options.signal.aborted) throw options.signal.reason;
  options.signal.addEventListener("abort", stop, { once: true });
  const dog = watchDog(options, () =>
    cut(new ConnectionError("ESILENT", `no bytes for ${options.silenceMs / 1000} s`)),
  );
  try {
    // A transport that does not notice the abort must not delay the caller.
    const chunks = await orAborted(
      options.client.stream({ ...request, signal: attempt.signal }),
      attempt.signal,
    );
    const reader = chunks[Symbol.asyncIterator]();
    try {
      for (;;) {
        dog.fed();
        const next = await orAborted(reader.next(), attempt.signal);
        if (next.done === true) return;
        dog.rest();
        await take(next.value);
      }
    } finally {
      attempt.abort(new ConnectionError("ECLOSED", "the reader has left"));
      reader.return?.().catch(() => {});
    }
  } finally {
    dog.end();
    options.signal.removeEventListener("abort", stop);
  }
}

interface Dog {
  fed(): void;
  rest(): void;
  end(): void;
}

// One long timer that checks when the last chunk came, instead of a timer for each. Time spent on a chunk does not
// count as silence.
function watchDog(options: ReadOptions, bark: () => void): Dog {
  const { clock, silenceMs } = options;
  let last = clock.monotonic();
  let working = false;
  let timer: Timer;
  const look = (): void => {
    const idle = working ? 0 : clock.monotonic() - last;
    if (idle >= silenceMs) return bark();
    timer = clock.setTimer(silenceMs - idle, look);
  };
  timer = clock.setTimer(silenceMs, look);
  return {
    fed: () => {
      last = clock.monotonic();
      working = false;
    },
    rest: () => {
      working = true;
    },
    end: () => timer.cancel(),
  };
}

const SLICE_MS = 15;

/** Lets other work run whenever this loop has taken 15 ms. */
export class Breather {
  readonly #clock: Clock;
  #since: number;

  constructor(clock: Clock) {
    this.#clock = clock;
    this.#since = clock.monotonic();
  }

  /** undefined while there is time left. */
  pause(): Promise<void> | undefined {
    if (this.#clock.monotonic() - this.#since < SLICE_MS) return undefined;
    return this.#rest();
  }

  async #rest(): Promise<void> {
    await breathe();
    this.#since = this.#clock.monotonic();
  }
}

/** A piece that may arrive in several chunks; its bytes are joined once, at its end. */
export class Pieces {
  #parts: Uint8Array[] = [];

  add(part: Uint8Array): void {
    if (part.length > 0) this.#parts.push(part);
  }

  /** Everything added since the last call. */
  take(): Buffer {
    const [first] = this.#parts;
    const whole =
      this.#parts.length === 1 && first !== undefined
        ? Buffer.from(first.buffer, first.byteOffset, first.byteLength)
        : Buffer.concat(this.#parts);
    this.#parts = [];
    return whole;
  }
}

const NEWLINE = 0x0a;

/** Splits a watch stream at its newlines; what has no newline yet waits for the next chunk. */
export class FrameSplitter {
  readonly #open = new Pieces();

  /** The non-empty lines that `chunk` completes. They may share memory with it. */
  push(chunk: Uint8Array): Buffer[] {
    const lines: Buffer[] = [];
    let from = 0;
    for (let end = chunk.indexOf(NEWLINE); end >= 0; end = chunk.indexOf(NEWLINE, from)) {
      this.#open.add(chunk.subarray(from, end));
      from = end + 1;
      const line = this.#open.take();
      if (line.length > 0) lines.push(line);
    }
    this.#open.add(chunk.subarray(from));
    return lines;
  }
}
