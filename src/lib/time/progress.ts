/** How far work of several parts has come, and how long it usually takes yet. Imports nothing: the page uses it, too. */

interface Part {
  readonly name: string;
  /** For how long it has run. */
  readonly seconds: number;
  /** How long it usually runs, where that is known. */
  readonly usualSeconds?: number | undefined;
}

export interface Progress {
  readonly done: number;
  readonly total: number;
  readonly running: readonly Part[];
  /** Parts whose removal precedes the rest. */
  readonly removing?: readonly Part[];
  /** How long what waits usually takes, one part after the other; undefined where that is not known of each. */
  readonly waitingSeconds?: number | undefined;
}

/** The median of times; undefined for an empty list. */
export function usual(seconds: readonly number[]): number | undefined {
  const sorted = seconds.toSorted((a, b) => a - b);
  const middle = sorted.length >> 1;
  const [low = 0, high = 0] = [sorted[(sorted.length - 1) >> 1], sorted[middle]];
  return sorted.length === 0 ? undefined : (low + high) / 2;
}

const MOST_NAMED = 3;

/** `12 of 20 done, web runs for 8s (usually 6s), 7 wait, about 40s left`: figures only where they are known. */
export function progressText(progress: Progress, duration: (seconds: number) => string): string {
  const { done, total, running, removing = [] } = progress;
  const removals = removing
    .slice(0, MOST_NAMED)
    .map(({ name, seconds }) => `the removal of ${name} runs for ${duration(Math.floor(seconds))}`);
  const named = running.slice(0, MOST_NAMED).map(({ name, seconds, usualSeconds: is }) => {
    const known = is === undefined ? "" : ` (usually ${duration(is)})`;
    return `${name} runs for ${duration(Math.floor(seconds))}${known}`;
  });
  const more = running.length - named.length;
  const waiting = total - done - running.length;
  const left = secondsLeft(progress);
  return [
    `${done} of ${total} done`,
    ...removals,
    ...named,
    ...(more > 0 ? [`${more} more run`] : []),
    ...(waiting > 0 ? [`${waiting} wait${waiting === 1 ? "s" : ""}`] : []),
    ...(left === undefined || left < 1 ? [] : [`about ${duration(Math.ceil(left))} left`]),
  ].join(", ");
}

/** As many go on side by side as do now; undefined where something was never seen to end. */
function secondsLeft({ running, removing = [], waitingSeconds }: Progress): number | undefined {
  if (removing.length > 0) return undefined;
  let sum = waitingSeconds;
  for (const { seconds, usualSeconds: is } of running)
    sum = sum === undefined || is === undefined ? undefined : sum + Math.max(0, is - seconds);
  return sum === undefined ? undefined : sum / Math.max(1, running.length);
}
