/** Releases resources in the reverse order of their acquisition. */

type Release = () => void | Promise<void>;

/** Releases what was acquired, last in first out, exactly once. Calls all releases even if one fails, then throws the first error. */
export class Scope {
  #releases: Release[] = [];
  #closing: Promise<void> | undefined;
  #areReleasesDone = false;

  /** Registers a resource whose `close` is called at the end; returns the resource. */
  closeAtEnd<T extends { close(): void | Promise<void> }>(acquired: T): T {
    this.addRelease(() => acquired.close());
    return acquired;
  }

  /** Registers the release of an acquired resource. After `close`, releases it at once and ignores an error, which nobody awaits. */
  addRelease(release: Release): void {
    if (this.#areReleasesDone) void Promise.resolve(release()).catch(() => {});
    else this.#releases.push(release);
  }

  /** Runs all releases; a second call returns the first one's promise. */
  close(): Promise<void> {
    this.#closing ??= this.#runReleases();
    return this.#closing;
  }

  /** Calls the releases, also those that a running release adds, and throws the first error after the last of them. */
  async #runReleases(): Promise<void> {
    const errors: unknown[] = [];
    for (let release = this.#releases.pop(); release !== undefined; release = this.#releases.pop())
      await Promise.try(release).catch((error: unknown) => errors.push(error));
    this.#areReleasesDone = true;
    if (errors.length > 0) throw errors[0];
  }
}
