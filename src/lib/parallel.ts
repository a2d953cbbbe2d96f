/** Works on many items, a few at a time. */

import PQueue from "p-queue";

/** Runs `work` for each item, at most `limit` at a time; results in the order of the items. Throws the first error, after which none begins. */
export async function mapInParallel<T, R>(
  limit: number,
  items: readonly T[],
  work: (item: T) => Promise<R>,
): Promise<R[]> {
  const failure = new AbortController();
  const jobs = items.map((item) => async () => {
    failure.signal.throwIfAborted();
    return work(item).catch((error: unknown) => {
      failure.abort(error);
      throw error;
    });
  });
  return new PQueue({ concurrency: limit }).addAll(jobs);
}

/** Joins promises for a caller that awaits them only if there are any: undefined where none is pending. */
export function whenAll(promises: readonly (Promise<void> | undefined)[]): Promise<void> | undefined {
  const pending = promises.filter((promise) => promise !== undefined);
  return pending.length === 0 ? undefined : Promise.all(pending).then(() => {});
}
