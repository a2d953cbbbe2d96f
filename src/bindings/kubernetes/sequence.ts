/** Runs asynchronous steps in the order of their arrival. */

/**
 * Runs steps in the order of their arrival, although each first waits for its input. A step runs synchronously if its
 * input is ready and no earlier step is pending.
 */
export class Sequence {
  #lastTurn: Promise<void> | undefined;

  /** Runs `step` with the result of `input`, which must not reject. The promise, if there is one, resolves after the step. */
  run<T>(input: T | Promise<T>, step: (value: T) => void): Promise<void> | undefined {
    if (this.#lastTurn === undefined && !(input instanceof Promise)) {
      step(input);
      return undefined;
    }
    const earlierTurn = this.#lastTurn;
    const turn = (async () => {
      const value = await input;
      await earlierTurn?.catch(() => {});
      step(value);
    })();
    this.#lastTurn = turn;
    // Without a pending turn, the next step may run synchronously.
    const forgetTurn = (): void => {
      if (this.#lastTurn === turn) this.#lastTurn = undefined;
    };
    turn.then(forgetTurn, forgetTurn);
    return turn;
  }
}
