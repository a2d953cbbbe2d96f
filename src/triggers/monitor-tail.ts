/**
 * Runs steps in the order of their arrival although each first waits for something that takes its time. A step whose
 * input is there, and that nobody is in front of, runs at once.
 */
export class Tail {
  #last: Promise<void> | undefined;

  /** Runs `step` with what `input` comes to; the promise (if any) settles when it has run. `input` never rejects. */
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
