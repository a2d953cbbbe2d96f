/** Who waits for tasks to leave their queues. */

/** What is waited for: the task has left its queue, or has at least been tried. */
export type WaitUntil = "left" | "tried";

interface Wait {
  readonly key: string;
  readonly until: WaitUntil;
  readonly resolve: () => void;
}

/** How often in a row the task with a key has failed; undefined when it neither waits nor runs. */
type FailuresOf = (key: string) => number | undefined;

/** Promises of tasks, by key. */
export class Waits {
  readonly #failures: FailuresOf;
  #waits: readonly Wait[] = [];

  constructor(failures: FailuresOf) {
    this.#failures = failures;
  }

  add(key: string, until: WaitUntil): Promise<void> {
    return new Promise((resolve) => {
      this.#waits = [...this.#waits, { key, until, resolve }];
      this.look();
    });
  }

  /** Ends those that are over; called after every change of a queue. */
  look(): void {
    if (this.#waits.length === 0) return;
    const { over = [], under = [] } = Object.groupBy(this.#waits, (wait) =>
      this.#isOver(wait) ? "over" : "under",
    );
    this.#waits = under;
    for (const { resolve } of over) resolve();
  }

  #isOver({ key, until }: Wait): boolean {
    const failures = this.#failures(key);
    return failures === undefined || (until === "tried" && failures > 0);
  }
}
