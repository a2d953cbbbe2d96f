/** Asks the API server whether objects of releases exist. */

import type { Resource } from "../../kube/index.ts";
import { inParallel, TokenBucket, type Clock } from "../../lib/index.ts";
import type { ReleaseObject } from "./release-object.ts";

export interface ExistenceOptions {
  /** Asks the server itself: a watch may not show yet what was just created. */
  readonly exists: (resource: Resource, object: ReleaseObject) => Promise<boolean>;
  readonly clock: Clock;
}

/** Reads per second over time and at once, all releases together. */
const READS = { qps: 20, burst: 100 };
const AT_ONCE = 4;
/**
 * When the server agrees with the watch about this many objects of a release, the watch is believed for the others.
 */
const MOST_ASKED = 20;

/** An object that may be gone. */
export interface Suspect {
  readonly object: ReleaseObject;
  readonly resource: Resource;
  /** Its kind cannot be watched: only an answer of the server shows whether it exists. */
  readonly unwatched: boolean;
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
  readonly #exists: ExistenceOptions["exists"];
  readonly #bucket: TokenBucket;
  readonly #abort = new AbortController();
  #turn: Promise<unknown> = Promise.resolve();

  constructor({ exists, clock }: ExistenceOptions) {
    this.#exists = exists;
    this.#bucket = new TokenBucket(READS, clock);
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
      return await this.#exists(resource, object);
    } catch {
      silent.add(resource);
      return undefined;
    }
  }
}
