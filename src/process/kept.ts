/** Keeps the beginning or the end of a stream, in bounded memory. */

/** Keeps the first `limit` bytes of a stream; `truncated` says whether there were more. */
export class Head {
  readonly #limit: number;
  readonly #chunks: Buffer[] = [];
  #size = 0;
  truncated = false;

  constructor(limit: number) {
    this.#limit = limit;
  }

  push(chunk: Buffer): void {
    const room = this.#limit - this.#size;
    if (chunk.length > room) this.truncated = true;
    if (room <= 0) return;
    this.#chunks.push(chunk.subarray(0, room));
    this.#size += Math.min(room, chunk.length);
  }

  text(): string {
    return Buffer.concat(this.#chunks).toString("utf8");
  }
}

/** Keeps the last `limit` bytes of a stream. */
export class Tail {
  readonly #limit: number;
  #chunks: Buffer[] = [];
  #size = 0;

  constructor(limit: number) {
    this.#limit = limit;
  }

  push(chunk: Buffer): void {
    this.#chunks.push(chunk);
    this.#size += chunk.length;
    // Twice the limit, so that a stream of small chunks is not joined again for each of them.
    if (this.#size > 2 * this.#limit) this.#shrink();
  }

  text(): string {
    this.#shrink();
    return Buffer.concat(this.#chunks).toString("utf8");
  }

  #shrink(): void {
    if (this.#size <= this.#limit) return;
    // A copy: a view would hold on to the whole of the joined buffer.
    const last = Buffer.from(Buffer.concat(this.#chunks).subarray(-this.#limit));
    this.#chunks = [last];
    this.#size = last.length;
  }
}
