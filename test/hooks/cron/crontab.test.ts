import { describe, expect, test } from "vitest";

import { CrontabError, parseCrontab } from "../../../src/hooks/cron/index.ts";
import { TimeZone } from "../../../src/hooks/cron/time-zone.ts";

/** The first ticks of a line after a moment, as UTC. */
function ticks(line: string, after: string, { zone = "UTC", count = 1 } = {}): string[] {
  const crontab = parseCrontab(line);
  const found: string[] = [];
  let at: number | undefined = Date.parse(after);
  while (found.length < count) {
    at = crontab.next(at, new TimeZone(zone));
    if (at === undefined) return [...found, "never"];
    found.push(new Date(at).toISOString().replace(".000Z", "Z"));
  }
  return found;
}

describe("next tick", () => {
  // 2026-01-01 is a Thursday.
  test.each([
    ["* * * * *", "2026-01-01T00:00:00Z", "2026-01-01T00:01:00Z"],
    ["* * * * *", "2026-01-01T00:00:59.999Z", "2026-01-01T00:01:00Z"],
    ["* * * * * *", "2026-01-01T00:00:00Z", "2026-01-01T00:00:01Z"],
    ["* * * * * *", "2026-01-01T00:00:00.500Z", "2026-01-01T00:00:01Z"],
    ["? ? ? ? ?", "2026-01-01T00:00:00Z", "2026-01-01T00:01:00Z"],
    ["*/15 * * * *", "2026-01-01T00:10:00Z", "2026-01-01T00:15:00Z"],
    // As Go reads them.
    ["*-5/+15 * * * *", "2026-01-01T00:10:00Z", "2026-01-01T00:15:00Z"],
    ["*/15 * * * *-", "2026-01-01T00:10:00Z", "2026-01-01T00:15:00Z"],
    ["+7 * * * *", "2026-01-01T00:00:00Z", "2026-01-01T00:07:00Z"],
    ["*/15 * * * *", "2026-01-01T00:45:00Z", "2026-01-01T01:00:00Z"],
    ["*/15 * * * *", "2026-01-01T23:45:51Z", "2026-01-02T00:00:00Z"],
    ["20-35/15 * * * *", "2026-01-01T00:20:00Z", "2026-01-01T00:35:00Z"],
    ["20-35/15 * * * *", "2026-01-01T00:35:00Z", "2026-01-01T01:20:00Z"],
    ["5/25 * * * *", "2026-01-01T00:30:00Z", "2026-01-01T00:55:00Z"],
    ["5/25 * * * *", "2026-01-01T00:55:00Z", "2026-01-01T01:05:00Z"],
    ["5,40,,50 * * * *", "2026-01-01T00:40:00Z", "2026-01-01T00:50:00Z"],
    ["0 0 12 * * *", "2026-01-01T12:00:00Z", "2026-01-02T12:00:00Z"],
    ["30 12 * * *", "2026-12-31T12:30:00Z", "2027-01-01T12:30:00Z"],
    ["* 30 12 * * *", "2026-01-01T12:30:58Z", "2026-01-01T12:30:59Z"],
    ["0 0 1 JAN *", "2026-01-01T00:00:00Z", "2027-01-01T00:00:00Z"],
    ["0 0 * feb mon", "2026-01-01T00:00:00Z", "2026-02-02T00:00:00Z"],
    ["0 9 * * MON-FRI", "2026-01-02T09:00:00Z", "2026-01-05T09:00:00Z"],
    ["0 0 31 * *", "2026-01-31T00:00:00Z", "2026-03-31T00:00:00Z"],
    ["0 0 29 2 *", "2026-01-01T00:00:00Z", "2028-02-29T00:00:00Z"],
    ["0 0 29 2 *", "2096-03-01T00:00:00Z", "2104-02-29T00:00:00Z"],
    ["0 0 30 2 *", "2026-01-01T00:00:00Z", "never"],
    ["0 0 31 4,6,9,11 *", "2026-01-01T00:00:00Z", "never"],
    // No such day, but Mondays do.
    ["0 0 30 2 1", "2026-01-01T00:00:00Z", "2026-02-02T00:00:00Z"],
    // Sunday is 0 and 7.
    ["0 0 * * 0", "2026-01-01T00:00:00Z", "2026-01-04T00:00:00Z"],
    ["0 0 * * 7", "2026-01-01T00:00:00Z", "2026-01-04T00:00:00Z"],
    ["0 0 * * SUN", "2026-01-01T00:00:00Z", "2026-01-04T00:00:00Z"],
    ["0 0 * * 5-7", "2026-01-03T00:00:00Z", "2026-01-04T00:00:00Z"],
    ["0 0 * * 1-7", "2026-01-03T00:00:00Z", "2026-01-04T00:00:00Z"],
    ["0 0 * * 4/2", "2026-01-01T00:00:00Z", "2026-01-03T00:00:00Z"],
    // Either day field, when both are restricted.
    ["0 0 13 * 5", "2026-01-09T00:00:00Z", "2026-01-13T00:00:00Z"],
    ["0 0 13 * 5", "2026-01-13T00:00:00Z", "2026-01-16T00:00:00Z"],
    ["0 0 1-31 * 1", "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"],
    // Both, where one is a star, with a step too.
    ["0 0 */2 * 5", "2026-01-01T00:00:00Z", "2026-01-09T00:00:00Z"],
    ["0 0 */2 * 5", "2026-01-09T00:00:00Z", "2026-01-23T00:00:00Z"],
    ["0 0 13 * */5", "2026-01-01T00:00:00Z", "2026-02-13T00:00:00Z"],
    ["0 0 */2 * *", "2026-01-31T00:00:00Z", "2026-02-01T00:00:00Z"],
    ["0 0 * * */2", "2026-01-01T00:00:00Z", "2026-01-03T00:00:00Z"],
    ["0 0 29 2 */4", "2026-01-01T00:00:00Z", "2032-02-29T00:00:00Z"],
    ["@yearly", "2026-01-01T00:00:00Z", "2027-01-01T00:00:00Z"],
    ["@annually", "2026-05-01T00:00:00Z", "2027-01-01T00:00:00Z"],
    ["@monthly", "2026-01-01T00:00:00Z", "2026-02-01T00:00:00Z"],
    ["@weekly", "2026-01-01T00:00:00Z", "2026-01-04T00:00:00Z"],
    ["@daily", "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"],
    ["@midnight", "2026-01-01T12:00:00Z", "2026-01-02T00:00:00Z"],
    ["@hourly", "2026-01-01T00:30:00Z", "2026-01-01T01:00:00Z"],
    ["@every 5m", "2026-01-01T00:00:07Z", "2026-01-01T00:05:07Z"],
    ["@every 1h30m10s", "2026-01-01T00:00:00Z", "2026-01-01T01:30:10Z"],
    ["@every 2900ms", "2026-01-01T00:00:00.700Z", "2026-01-01T00:00:02Z"],
    ["@every 10ms", "2026-01-01T00:00:00Z", "2026-01-01T00:00:01Z"],
    ["TZ=Asia/Tokyo 0 9 * * *", "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"],
    ["CRON_TZ=Asia/Tokyo 0 9 * * *", "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"],
    ["TZ=Asia/Tokyo @daily", "2026-01-01T00:00:00Z", "2026-01-01T15:00:00Z"],
    ["TZ= 0 9 * * *", "2026-01-01T00:00:00Z", "2026-01-01T09:00:00Z"],
    ["TZ=Local 0 9 * * *", "2026-01-01T00:00:00Z", "2026-01-01T09:00:00Z"],
    ["TZ=Asia/Kathmandu 0 0 * * *", "2026-01-01T00:00:00Z", "2026-01-01T18:15:00Z"],
    ["  0   9\t* * *  ", "2026-01-01T00:00:00Z", "2026-01-01T09:00:00Z"],
  ])("%s after %s: %s", (line, after, want) => {
    expect(ticks(line, after)).toEqual([want]);
  });

  test("a line without a zone is read in the local one", () => {
    expect(ticks("0 9 * * *", "2026-07-01T00:00:00Z", { zone: "Europe/Berlin" })).toEqual([
      "2026-07-01T07:00:00Z",
    ]);
  });
});

describe("summer time: a daily job is neither skipped nor run twice", () => {
  const NEW_YORK = "America/New_York"; // 8 March 2026 02:00 → 03:00, 1 November 02:00 → 01:00
  const BERLIN = "Europe/Berlin"; // 29 March 2026 02:00 → 03:00, 25 October 03:00 → 02:00
  const SAO_PAULO = "America/Sao_Paulo"; // 4 November 2018 00:00 → 01:00, 18 February 2018 00:00 → 23:00
  const LORD_HOWE = "Australia/Lord_Howe"; // 4 October 2026 02:00 → 02:30, 5 April 02:00 → 01:30
  test.each([
    [NEW_YORK, "30 2 * * *", "2026-03-07T08:00:00Z", ["2026-03-08T07:30:00Z", "2026-03-09T06:30:00Z"]],
    [NEW_YORK, "0 3 * * *", "2026-03-08T05:00:00Z", ["2026-03-08T07:00:00Z", "2026-03-09T07:00:00Z"]],
    // Two times that fall together are one tick.
    [NEW_YORK, "30 2,3 * * *", "2026-03-08T05:00:00Z", ["2026-03-08T07:30:00Z", "2026-03-09T06:30:00Z"]],
    [NEW_YORK, "*/30 2 * * *", "2026-03-08T05:00:00Z", ["2026-03-08T07:00:00Z", "2026-03-08T07:30:00Z"]],
    [NEW_YORK, "30 * * * *", "2026-03-08T06:00:00Z", ["2026-03-08T06:30:00Z", "2026-03-08T07:30:00Z"]],
    [NEW_YORK, "30 1 * * *", "2026-10-31T06:00:00Z", ["2026-11-01T05:30:00Z", "2026-11-02T06:30:00Z"]],
    [NEW_YORK, "30 1 * * *", "2026-11-01T05:30:00Z", ["2026-11-02T06:30:00Z", "2026-11-03T06:30:00Z"]],
    [NEW_YORK, "30 1 * * *", "2026-11-01T06:10:00Z", ["2026-11-02T06:30:00Z", "2026-11-03T06:30:00Z"]],
    [NEW_YORK, "0 2 * * *", "2026-11-01T04:00:00Z", ["2026-11-01T07:00:00Z", "2026-11-02T07:00:00Z"]],
    [NEW_YORK, "30 * * * *", "2026-11-01T05:00:00Z", ["2026-11-01T05:30:00Z", "2026-11-01T06:30:00Z"]],
    [NEW_YORK, "0 0 * * *", "2026-03-08T04:00:00Z", ["2026-03-08T05:00:00Z", "2026-03-09T04:00:00Z"]],
    [NEW_YORK, "30 2 8 3 *", "2026-01-01T00:00:00Z", ["2026-03-08T07:30:00Z", "2027-03-08T07:30:00Z"]],
    [BERLIN, "30 2 * * *", "2026-03-28T02:00:00Z", ["2026-03-29T01:30:00Z", "2026-03-30T00:30:00Z"]],
    [BERLIN, "30 2 * * *", "2026-10-24T02:00:00Z", ["2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"]],
    [
      BERLIN,
      "*/30 * * * *",
      "2026-10-25T00:10:00Z",
      ["2026-10-25T00:30:00Z", "2026-10-25T01:00:00Z", "2026-10-25T01:30:00Z", "2026-10-25T02:00:00Z"],
    ],
    [BERLIN, "0 12 * * *", "2026-03-28T12:00:00Z", ["2026-03-29T10:00:00Z"]],
    [BERLIN, "@daily", "2026-10-24T12:00:00Z", ["2026-10-24T22:00:00Z", "2026-10-25T23:00:00Z"]],
    [SAO_PAULO, "0 0 * * *", "2018-11-03T12:00:00Z", ["2018-11-04T03:00:00Z", "2018-11-05T02:00:00Z"]],
    [SAO_PAULO, "@daily", "2018-11-03T12:00:00Z", ["2018-11-04T03:00:00Z", "2018-11-05T02:00:00Z"]],
    [SAO_PAULO, "30 23 * * *", "2018-02-17T12:00:00Z", ["2018-02-18T01:30:00Z", "2018-02-19T02:30:00Z"]],
    [SAO_PAULO, "0 0 4 11 *", "2018-01-01T00:00:00Z", ["2018-11-04T03:00:00Z", "2019-11-04T03:00:00Z"]],
    [LORD_HOWE, "15 2 * * *", "2026-10-03T00:00:00Z", ["2026-10-03T15:45:00Z", "2026-10-04T15:15:00Z"]],
    [LORD_HOWE, "45 1 * * *", "2026-04-04T00:00:00Z", ["2026-04-04T14:45:00Z", "2026-04-05T15:15:00Z"]],
    [
      LORD_HOWE,
      "45 * * * *",
      "2026-04-04T14:00:00Z",
      ["2026-04-04T14:45:00Z", "2026-04-04T15:15:00Z", "2026-04-04T16:15:00Z"],
    ],
    // Samoa left out 30 December 2011.
    [
      "Pacific/Apia",
      "0 12 * * *",
      "2011-12-29T21:00:00Z",
      ["2011-12-29T22:00:00Z", "2011-12-30T22:00:00Z", "2011-12-31T22:00:00Z"],
    ],
  ] satisfies [string, string, string, string[]][])("%s %s after %s", (...row) => {
    const [zone, line, after, want] = row;
    expect(ticks(line, after, { zone, count: want.length })).toEqual(want);
  });
});

describe("lines that are refused", () => {
  test.each([
    ["__proto__", "Expected 5 or 6 fields, found 1: __proto__"],
    ["* * *", "Expected 5 or 6 fields, found 3: * * *"],
    ["", "Expected 5 or 6 fields, found 0: "],
    ["* * * * * * *", "Expected 5 or 6 fields, found 7: * * * * * * *"],
    ["60 * * * *", "minute: 60 is not in 0–59: 60 * * * *"],
    ["60 0 * * * *", "second: 60 is not in 0–59: 60 0 * * * *"],
    ["0 24 * * *", "hour: 24 is not in 0–23: 0 24 * * *"],
    ["0 0 0 * *", "day of month: 0 is not in 1–31: 0 0 0 * *"],
    ["0 0 32 * *", "day of month: 32 is not in 1–31: 0 0 32 * *"],
    ["0 0 * 13 *", "month: 13 is not in 1–12: 0 0 * 13 *"],
    ["0 0 * * 8", "day of week: 8 is not in 0–7: 0 0 * * 8"],
    ["0 0 * * MONDAY", 'day of week: "MONDAY" is not a value in 0–7: 0 0 * * MONDAY'],
    ["*/0 * * * *", 'minute: the step "0" is not a number from 1 on: */0 * * * *'],
    ["*/x * * * *", 'minute: the step "x" is not a number from 1 on: */x * * * *'],
    ["30-10 * * * *", "minute: the range 30-10 runs backwards: 30-10 * * * *"],
    ["1-2-3 * * * *", 'minute: cannot read "1-2-3": 1-2-3 * * * *'],
    ["1/2/3 * * * *", 'minute: cannot read "1/2/3": 1/2/3 * * * *'],
    ["-5 * * * *", 'minute: cannot read "-5": -5 * * * *'],
    ["0 0 L * *", 'day of month: "L" is not a value in 1–31: 0 0 L * *'],
    ["0 0 * * 5#2", 'day of week: "5#2" is not a value in 0–7: 0 0 * * 5#2'],
    ["H * * * *", 'minute: "H" is not a value in 0–59: H * * * *'],
    ["1.5 * * * *", 'minute: "1.5" is not a value in 0–59: 1.5 * * * *'],
    ["@every 5", '@every needs a duration like "90s", "5m" or "1h30m": @every 5'],
    ["@every", '@every needs a duration like "90s", "5m" or "1h30m": @every'],
    ["TZ=Mars/Olympus 0 0 * * *", "unknown time zone Mars/Olympus: TZ=Mars/Olympus 0 0 * * *"],
    ["TZ=UTC", "Expected 5 or 6 fields, found 0: TZ=UTC"],
  ])("%s", (line, message) => {
    expect(() => parseCrontab(line)).toThrow(CrontabError);
    expect(() => parseCrontab(line)).toThrow(message);
  });

  test.each(["@minutely", "@secondly", "@weekdays", "@Daily", "@reboot"])("%s is no name", (line) => {
    expect(() => parseCrontab(line)).toThrow(/^unknown name, not one of @yearly, .*: @/);
  });
});

describe("warning for lines that fire each second, or never", () => {
  test.each([
    [
      "* 30 12 * * *",
      "`* 30 12 * * *` fires each second of a minute that matches; for once a minute write `0 30 12 * * *`",
    ],
    [
      "* 0 * * * *",
      "`* 0 * * * *` fires each second of a minute that matches; for once a minute write `0 0 * * * *`",
    ],
    [
      "* * 3 * * *",
      "`* * 3 * * *` fires each second of a minute that matches; for once a minute write `0 * 3 * * *`",
    ],
    ["* * * * * *", undefined],
    ["* * * * *", undefined],
    ["0 30 12 * * *", undefined],
    ["*/10 30 12 * * *", undefined],
    ["30 12 * * *", undefined],
    ["0 0 30 2 *", "`0 0 30 2 *` never fires: none of its months has day 30"],
    [
      "TZ=UTC 0 0 0 31 feb,4-6/2,9,11 ?",
      "`0 0 0 31 feb,4-6/2,9,11 ?` never fires: none of its months has day 31",
    ],
    ["0 0 29 2 *", undefined],
    ["0 0 29-31 2 *", undefined],
    ["0 0 31 4,5 *", undefined],
    ["0 0 30 2 1", undefined],
  ])("%s", (line, warning) => {
    expect(parseCrontab(line).warning).toBe(warning);
  });
});

describe("a field of commas, which allows nothing, as in Go", () => {
  const after = Date.UTC(2026, 0, 2);
  test.each([", * * * *", "0 , * * *", "0 0 * , *", "0 0 , * *", "0 0 * * ,", "0 0 , * ,,", ", 0 0 * * *"])(
    "%s never fires",
    (line) => {
      const crontab = parseCrontab(line);
      expect(crontab.next(after, new TimeZone("UTC"))).toBeUndefined();
      expect(crontab.warning).toBe(`\`${line}\` never fires: a field has no value`);
    },
  );

  test.each([
    ["0 0 1 * ,", Date.UTC(2026, 1, 1)],
    ["0 0 , * MON", Date.UTC(2026, 0, 5)],
    ["0 0 30 2 ,", undefined],
  ])("%s fires by the other day field", (line, next) => {
    expect(parseCrontab(line).next(after, new TimeZone("UTC"))).toBe(next);
  });
});
