/** Describes how far work of several parts has come, and how long the rest probably takes. Imports nothing: the page uses it, too. */

interface RunningPart {
  readonly name: string;
  /** For how long it has run. */
  readonly seconds: number;
  /** How long it usually runs, where that is known. */
  readonly usualSeconds?: number | undefined;
}

export interface Progress {
  readonly done: number;
  readonly total: number;
  readonly running: readonly RunningPart[];
  /** Parts whose removal precedes the rest. */
  readonly removing?: readonly RunningPart[];
  /** How long the waiting parts usually take, one after the other; undefined if that is unknown for one of them. */
  readonly waitingSeconds?: number | undefined;
}

/** The median of times; undefined for an empty list. */
export function medianOf(seconds: readonly number[]): number | undefined {
  const sorted = seconds.toSorted((a, b) => a - b);
  const low = sorted[Math.floor((sorted.length - 1) / 2)];
  const high = sorted[Math.floor(sorted.length / 2)];
  return low === undefined || high === undefined ? undefined : (low + high) / 2;
}

/** Most running parts that the text names; others are counted. */
const MAX_NAMED = 3;

/** The progress in one sentence, `12 of 20 done, web has been running for 8s (usually 6s), about 40s left`. `duration` formats seconds. */
export function describeProgress(progress: Progress, duration: (seconds: number) => string): string {
  const { done, total, running, removing = [] } = progress;
  const describeRun = ({ name, seconds, usualSeconds }: RunningPart): string => {
    const usual = usualSeconds === undefined ? "" : ` (usually ${duration(usualSeconds)})`;
    return `${name} has been running for ${duration(Math.floor(seconds))}${usual}`;
  };
  const removals = removing
    .slice(0, MAX_NAMED)
    .map(({ name, seconds }) => describeRun({ name: `the removal of ${name}`, seconds }));
  const named = running.slice(0, MAX_NAMED).map(describeRun);
  const more = running.length - named.length;
  const waiting = total - done - running.length;
  const left = estimateSecondsLeft(progress);
  return [
    `${done} of ${total} done`,
    ...removals,
    ...named,
    ...(more > 0 ? [`${more} more run`] : []),
    ...(waiting > 0 ? [`${waiting} wait${waiting === 1 ? "s" : ""}`] : []),
    ...(left === undefined || left < 1 ? [] : [`about ${duration(Math.ceil(left))} left`]),
  ].join(", ");
}

/**
 * Estimates the seconds until all parts are done: the usual rest of the running parts and the waiting ones, divided by the number of
 * parts that run at the same time now. Undefined if the usual duration of a part is unknown, or while a removal delays the others.
 */
function estimateSecondsLeft({ running, removing = [], waitingSeconds }: Progress): number | undefined {
  if (removing.length > 0 || waitingSeconds === undefined) return undefined;
  let sum = waitingSeconds;
  for (const { seconds, usualSeconds } of running) {
    if (usualSeconds === undefined) return undefined;
    sum += Math.max(0, usualSeconds - seconds);
  }
  return sum / Math.max(1, running.length);
}
