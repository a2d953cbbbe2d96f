import { describe, expect, test } from "vitest";
import type { Hook, HookTask, ScheduleBinding } from "../../../src/base/model/index.ts";
import { createSources } from "../../../src/hooks/bindings/index.ts";
import { bindingsWith } from "../build.ts";
import { ManualClock } from "../../support/clock.ts";
import { renderContext } from "../../../src/hooks/bindings/index.ts";
import { hookWith } from "../build.ts";
import { hookOf } from "../build.ts";

const schedule = (crontab: string, name = "schedule"): ScheduleBinding => ({
  type: "schedule",
  id: `schedule ${name}`,
  name,
  allowFailure: false,
  queue: "main",
  group: undefined,
  includeSnapshotsFrom: [],
  crontab,
});
const hook = (name: string, ...schedules: ScheduleBinding[]): Hook => {
  const plain = hookOf(name, []);
  return { ...plain, config: { ...plain.config, bindings: bindingsWith({ schedule: schedules }) } };
};

function lab() {
  const clock = new ManualClock();
  const reported: string[] = [];
  const offer = (_: string, { hook: of, trigger }: HookTask) =>
    reported.push(`${of.name} ${trigger.binding.name}`);
  const schedules = createSources({ clock, zone: "UTC", queues: { offer } });
  return { clock, schedules, take: () => reported.splice(0) };
}
const MINUTE = 60_000;

describe("schedules", () => {
  test("hooks of one line fire in alphabetical order, whoever was enabled first", async () => {
    const { clock, schedules, take } = lab();
    schedules.enable(hook("b", schedule("* * * * *")));
    schedules.enable(hook("a", schedule("* * * * *", "every minute")));
    await clock.advance(MINUTE);
    expect(take()).toEqual(["a every minute", "b schedule"]);
  });

  test("two bindings of one line fire both, in the order of the configuration", async () => {
    const { clock, schedules, take } = lab();
    schedules.enable(hook("a", schedule("* * * * *", "x"), schedule("* * * * *", "c")));
    await clock.advance(MINUTE);
    expect(take()).toEqual(["a x", "a c"]);
  });

  test("enabling twice changes nothing; a disabled hook fires no more, others of its line do", async () => {
    const { clock, schedules, take } = lab();
    const [a, b] = [hook("a", schedule("* * * * *")), hook("b", schedule("* * * * *"))];
    schedules.enable(a);
    schedules.enable(a);
    schedules.enable(b);
    await clock.advance(MINUTE);
    expect(take()).toEqual(["a schedule", "b schedule"]);
    schedules.disable(a);
    schedules.disable(a);
    await clock.advance(MINUTE);
    expect(take()).toEqual(["b schedule"]);
    schedules.disable(b);
    expect(clock.nextTimerAt).toBeUndefined();
  });

  test("a hook whose lines changed keeps no timer of the old ones", async () => {
    const { clock, schedules, take } = lab();
    schedules.enable(hook("a", schedule("* * * * *")));
    schedules.enable(hook("a", schedule("@every 90s", "slower")));
    await clock.advance(90_000);
    expect(take()).toEqual(["a slower"]);
    schedules.enable(hook("a"));
    expect(clock.nextTimerAt).toBeUndefined();
  });

  test("missed ticks are not made up for", async () => {
    const { clock, schedules, take } = lab();
    await clock.advance(10 * MINUTE);
    schedules.enable(hook("a", schedule("* * * * *")));
    expect(take()).toEqual([]);
    schedules.close();
    await clock.advance(10 * MINUTE);
    expect(take()).toEqual([]);
  });
});

test("the documented example, letter by letter: the hook with two schedules and its contexts", async () => {
  const text = `{
  "schedule": [
    {
      "name": "incremental",
      "crontab": "* 2 */3 * * *",
      "allowFailure": true
    },
    {
      "crontab": "* 59 23 * * *",
      "allowFailure": false
    }
  ]
}`;
  const documented = hookWith(text, "hook.sh", "global");
  const clock = new ManualClock(Date.UTC(2026, 0, 1, 11, 59));
  const runs: string[] = [];
  const offer = (_: string, { hook: { config }, trigger }: HookTask): void => {
    const snapshots = { byBindingName: () => [], byBindingId: () => [] };
    const context = [...renderContext({ config, triggers: [trigger], snapshots })].join("");
    runs.push(`${new Date(clock.now()).toISOString().slice(11, 19)} ${context.trim()}`);
  };
  const schedules = createSources({ clock, zone: "UTC", queues: { offer } });
  schedules.enable(documented);
  await clock.advance(4 * MINUTE);
  // Six fields: each second of the minute.
  expect([runs[0], runs.length, runs.at(-1)]).toEqual([
    '12:02:00 [{"binding":"incremental"}]',
    60,
    '12:02:59 [{"binding":"incremental"}]',
  ]);
  await clock.advance((23 * 60 + 58 - 12 * 60 - 3) * MINUTE);
  runs.length = 0;
  await clock.advance(2 * MINUTE);
  expect([runs[0], runs.length]).toEqual(['23:59:00 [{"binding":"schedule"}]', 60]);
  expect(documented.config.bindings.schedule.map((each) => each.allowFailure)).toEqual([true, false]);
  schedules.close();
});
