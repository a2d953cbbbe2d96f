import { expect, test } from "vitest";

import type { Analyzer } from "../../src/releases/object-state.ts";
import type { KindWatches } from "../../src/releases/kind-watches.ts";
import { ManualClock, settle } from "../support/clock.ts";
import { FOLLOWED, followedBy, quiet } from "./quiet-analyzers.ts";

const kinds = { setWatchedObjects: () => {} } as unknown as KindWatches;

/** A release whose analyzers are due again after `everyMs`. */
function scheduled(everyMs: { readonly selfHeal: number; readonly drift: number; readonly health: number }) {
  const clock = new ManualClock(0);
  const calls: string[] = [];
  const due =
    (name: keyof typeof everyMs): Analyzer["check"] =>
    () => {
      calls.push(`${name} ${clock.monotonic()}`);
      return clock.monotonic() + everyMs[name];
    };
  const release = followedBy(
    { kinds, clock },
    {
      selfHeal: quiet("selfHeal", due("selfHeal")),
      drift: quiet("drift", due("drift")),
      health: quiet("health", due("health")),
    },
  );
  return { clock, release, take: () => calls.splice(0) };
}

test("one timer serves all analyzers, each when it is due", async () => {
  const { clock, release, take } = scheduled({ selfHeal: 500, drift: 300, health: Infinity });
  release.watchRevision({ ...FOLLOWED, objects: [] });
  expect(take()).toEqual(["selfHeal 0", "drift 0", "health 0"]);
  await clock.advance(299);
  expect([take(), clock.timers]).toEqual([[], 1]);
  await clock.advance(1);
  expect(take()).toEqual(["drift 300"]);
  await clock.advance(300);
  expect([take(), clock.timers]).toEqual([["selfHeal 500", "drift 600"], 1]);
});

test("an event checks again what it concerns, and moves the timer", async () => {
  const { clock, release, take } = scheduled({ selfHeal: 500, drift: Infinity, health: 400 });
  release.watchRevision({ ...FOLLOWED, objects: [] });
  await clock.advance(100);
  take();
  release.onFindingChanged();
  expect([take(), clock.nextTimerAt]).toEqual([["health 100"], 500]);
  release.onEventsLost();
  expect([take(), clock.nextTimerAt]).toEqual([["selfHeal 100", "drift 100"], 500]);
});

test("an analyzer that waits for the server is checked once when it has the answer, whatever happens meanwhile", async () => {
  const clock = new ManualClock(0);
  const answer = Promise.withResolvers<void>();
  let checks = 0;
  const healing = (): number | Promise<void> => (++checks === 1 ? answer.promise : Infinity);
  const release = followedBy({ kinds, clock }, { selfHeal: quiet("selfHeal", healing) });
  release.watchRevision({ ...FOLLOWED, objects: [] });
  release.onEventsLost();
  release.onEventsLost();
  expect(checks).toBe(1);
  answer.resolve();
  await settle();
  expect(checks).toBe(2);
});

test("a closed release checks nothing, and leaves no timer", async () => {
  const { clock, release, take } = scheduled({ selfHeal: 500, drift: 300, health: 400 });
  release.watchRevision({ ...FOLLOWED, objects: [] });
  take();
  release.close();
  release.onEventsLost();
  release.onFindingChanged();
  await clock.advance(1000);
  expect([take(), clock.timers]).toEqual([[], 0]);
});
