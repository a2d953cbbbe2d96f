import { expect, test } from "vitest";

import {
  waitUntilPermitted,
  waitUntilRefused,
} from "../../../../src/hooks/bindings/kubernetes/permission.ts";
import { MissingPermissionsError } from "../../../../src/kube/index.ts";
import { ManualClock } from "../../../support/clock.ts";

const missing = new MissingPermissionsError({ namespace: "team-a", name: "deployer" }, ["list secrets"]);

/** A permission whose checks have these results, one after another; the last one stays. */
function permission(...results: (Error | undefined)[]) {
  const clock = new ManualClock();
  const stop = new AbortController();
  let checks = 0;
  const check = (): Promise<void> => {
    const result = results[Math.min(checks++, results.length - 1)];
    return result === undefined ? Promise.resolve() : Promise.reject(result);
  };
  return { clock, stop, given: { check, clock, signal: stop.signal }, checks: () => checks };
}

test("waits until the account has the rights", async () => {
  const { clock, given, checks } = permission(missing, missing, undefined);
  const refusals: Error[] = [];
  const granted = waitUntilPermitted(given, (error) => void refusals.push(error));
  await clock.advance(20_000);
  await granted;
  expect(refusals.map(({ message }) => message)).toEqual([missing.message, missing.message]);
  expect(missing.message).toBe("ServiceAccount team-a/deployer may not list secrets; grant it these rights");
  expect(checks()).toBe(3);
});

test("reports that rights were lost, not that the API server is away", async () => {
  const { clock, given, checks } = permission(undefined, new Error("connection refused"), missing);
  const lost = waitUntilRefused(given);
  await clock.advance(2 * 300_000);
  expect(checks()).toBe(2);
  await clock.advance(300_000);
  expect(await lost).toBe(missing);
});

test("ends when the binding is closed", async () => {
  const { clock, stop, given } = permission(missing);
  const [granted, lost] = [waitUntilPermitted(given, () => {}), waitUntilRefused(given)];
  await clock.advance(1000);
  stop.abort();
  await granted;
  expect(await lost).toBeUndefined();
  expect(clock.timers).toBe(0);
});
