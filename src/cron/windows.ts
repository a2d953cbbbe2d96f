/** Maintenance windows: times of a crontab at which they open, and how long they stay open. */

import { parseCrontab } from "./crontab.ts";
import { TimeZone } from "./time-zone.ts";

export interface MaintenanceWindow {
  readonly cron: string;
  /** How long it stays open, in milliseconds. */
  readonly forMs: number;
}

/**
 * The first moment from `fromMs` on at which one of the windows is open, in milliseconds since the epoch: `fromMs`
 * itself if one is, undefined if none ever is. `zone` is the default time zone of the lines, e.g. `Europe/Berlin`. Throws
 * CrontabError.
 */
export function findNextOpening(
  windows: readonly MaintenanceWindow[],
  fromMs: number,
  zone: string,
): number | undefined {
  const local = new TimeZone(zone);
  const openings = windows.flatMap(({ cron, forMs }) => {
    // The first tick at which a window opens that is not over at `fromMs`.
    const tick = parseCrontab(cron).next(fromMs - forMs, local);
    return tick === undefined ? [] : [Math.max(tick, fromMs)];
  });
  return openings.length === 0 ? undefined : Math.min(...openings);
}
