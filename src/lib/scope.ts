/** Releases resources in the reverse order of their acquisition. */

type Release = () => void | Promise<void>;

/**
 * Releases what was acquired, last in first out, exactly once. Every release runs even when one fails;
 * the first error is thrown at the end.
 */
export class Scope {
  #releases: Release[] = [];
  #closed: Promise<void> | undefined;
  #isOver = false;

  /** Takes over something that is closed at the end; returns it. */
  own<T extends { close(): void | Promise<void> }>(acquired: T): T {
    this.add(() => acquired.close());
    return acquired;
  }

  /** Registers the release of an acquired resource; after `close`, releases it at once. */
  add(release: Release): void {
    if (this.#isOver) void Promise.resolve(release()).catch(() => {});
    else this.#releases.push(release);
  }

  /** Runs all releases; a second call returns the first one's promise. */
  close(): Promise<void> {
    this.#closed ??= this.#run();
    return this.#closed;
  }

  async #run(): Promise<void> {
    const errors: unknown[] = [];
    for (let release = this.#releases.pop(); release !== undefined; release = this.#releases.pop()) {
      try {
        await release();
      } catch (error) {
        errors.push(error);
      }
    }
    this.#isOver = true;
    if (errors.length > 0) throw errors[0];
  }
}
