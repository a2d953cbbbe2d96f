/** Work that must not overlap, in the order in which it was requested. */

/** Runs work, after all work that was passed to it before has ended. */
export type RunInTurn = <T>(work: () => Promise<T>) => Promise<T>;

/** Creates a function that runs each work after all earlier work has ended, whether that failed or not. Rejects with the error of its own work. */
export function serialize(): RunInTurn {
  let last: Promise<unknown> = Promise.resolve();
  return (work) => {
    const result = last.then(work);
    last = result.catch(() => {});
    return result;
  };
}
