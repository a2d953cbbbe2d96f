/** Reads the update policy of a source: approval, windows, minimum age. */

import { CrontabError, parseCrontab } from "../cron/index.ts";
import { parseDuration } from "../lib/index.ts";
import type { IModuleSource } from "../status/index.ts";
import type { UpdatePolicy } from "./types.ts";

/** Reports what is wrong with a field of a spec. */
export type ReportProblem = (key: string, message: string, remedy: string) => void;

type Update = NonNullable<NonNullable<IModuleSource["spec"]>["update"]>;

/** Parses `spec.update`. Returns undefined without one. Reports its problems, and continues with defaults. */
export function parseUpdatePolicy(
  update: Update | undefined,
  report: ReportProblem,
): UpdatePolicy | undefined {
  if (update === undefined) return undefined;
  const { approval = "auto", windows = [], after, parallel = 1 } = update;
  const parsePolicyDuration = (key: string, text: string): number => {
    const ms = parseDuration(text);
    if (ms !== undefined && ms >= 0) return ms;
    report(key, `"${text}" is no duration`, "write one such as 24h");
    return 0;
  };
  return {
    approval,
    parallel,
    minAgeMs: after === undefined ? 0 : parsePolicyDuration("spec.update.after", after),
    windows: windows.map(({ cron, for: open }, index) => {
      const key = `spec.update.windows[${index}]`;
      checkWindowCron(cron, (message) =>
        report(`${key}.cron`, message, 'write a crontab line such as "0 2 * * 1-5"'),
      );
      const forMs = parsePolicyDuration(`${key}.for`, open);
      if (forMs === 0) report(`${key}.for`, "is never open", "write a duration such as 2h");
      return { cron, forMs };
    }),
  };
}

/** Reports a crontab line that cannot open a window: invalid, or `@every`, which names no times of the day. */
function checkWindowCron(line: string, report: (message: string) => void): void {
  try {
    if (parseCrontab(line).periodMs !== undefined) report("a window opens at times of the day, not @every");
  } catch (error) {
    if (!(error instanceof CrontabError)) throw error;
    report(error.message);
  }
}
