/** Asks the server whether objects still exist, at a bounded rate. */

import { inParallel, TokenBucket } from "../../lib/index.ts";
import type { Clock } from "../../lib/index.ts";
import type { Resource } from "../../kube/index.ts";
import type { ReleaseObject, Suspect } from "./release-object.ts";

/** Reads per second over time and at once, all releases together. */
const READS = { qps: 20, burst: 100 };
const AT_ONCE = 4;
/**
 * When the server agrees with the watch about this many objects of a release, the watch is believed for the others.
 */
const MOST_ASKED = 20;

export interface ExistenceOptions {
  /** Asks the server itself: a watch may not show yet what was just created. */
  readonly exists: (resource: Resource, object: ReleaseObject) => Promise<boolean>;
  readonly clock: Clock;
}

/** The result of an inquiry; objects in no list are still to be asked for. */
export interface Answers {
  readonly absent: readonly Suspect[];
  readonly there: readonly Suspect[];
  /** The server does not answer. */
  readonly unknown: readonly Suspect[];
}

/** Asks the server for objects that may be gone: one release after the other, a few at a time, at a limited rate. */
export class ExistenceCheck {
  readonly #options: ExistenceOptions;
  readonly #bucket: TokenBucket;
  readonly #abort = new AbortController();
  #turn: Promise<unknown> = Promise.resolve();

  constructor(options: ExistenceOptions) {
    this.#options = options;
    this.#bucket = new TokenBucket(READS, options.clock);
  }

  /** Never fails. */
  ask(suspects: readonly Suspect[]): Promise<Answers> {
    const answers = this.#turn.then(() => this.#ask(suspects));
    this.#turn = answers;
    return answers;
  }

  close(): void {
    this.#abort.abort();
  }

  async #ask(suspects: readonly Suspect[]): Promise<Answers> {
    const asked = suspects.slice(0, MOST_ASKED);
    // A server that does not answer for one object will not for the next of its kind.
    const silent = new Set<Resource>();
    const answers = await inParallel(AT_ONCE, asked, (suspect) => this.#isThere(suspect, silent));
    const absent = asked.filter((_, index) => answers[index] === false);
    const rest = absent.length === asked.length ? suspects.slice(MOST_ASKED) : [];
    return {
      absent: [...absent, ...rest.filter((suspect) => !suspect.unwatched)],
      there: asked.filter((_, index) => answers[index] === true),
      unknown: suspects.filter(
        (suspect, index) => silent.has(suspect.resource) && answers[index] === undefined,
      ),
    };
  }

  /** Undefined when the server does not answer. */
  async #isThere({ resource, object }: Suspect, silent: Set<Resource>): Promise<boolean | undefined> {
    await this.#bucket.take(this.#abort.signal);
    if (this.#abort.signal.aborted || silent.has(resource)) return undefined;
    try {
      return await this.#options.exists(resource, object);
    } catch {
      silent.add(resource);
      return undefined;
    }
  }
}
