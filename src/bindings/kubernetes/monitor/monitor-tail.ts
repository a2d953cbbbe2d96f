/** Keeps the order of steps that wait for slow input. */

/**
 * Runs steps in the order of their arrival, although each first waits for its input. A step whose input is ready
 * and that nobody is in front of runs at once.
 */
export class Tail {
  #last: Promise<void> | undefined;

  /** Runs `step` with the result of `input`; the promise (if any) settles when it has run. `input` never rejects. */
  run<T>(input: T | Promise<T>, step: (value: T) => void): Promise<void> | undefined {
    if (this.#last === undefined && !(input instanceof Promise)) {
      step(input);
      return undefined;
    }
    const before = this.#last;
    const turn = (async () => {
      const value = await input;
      await before?.catch(() => {});
      step(value);
    })();
    this.#last = turn;
    const free = (): void => {
      if (this.#last === turn) this.#last = undefined;
    };
    turn.then(free, free);
    return turn;
  }
}
