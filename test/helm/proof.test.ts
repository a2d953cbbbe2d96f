import { expect, test } from "vitest";

import { Proofs } from "../../src/helm/rollback.ts";
import { ManualClock } from "../support/clock.ts";

// docs/LIFECYCLE.md, "Rollback": a container that crashes is ready for a moment each time.

test("a module has to be healthy for a minute, without a break", async () => {
  const clock = new ManualClock();
  const proofs = new Proofs(clock);
  const proved: string[] = [];
  const look = (module: string, isHealthy: boolean): void =>
    proofs.look(module, isHealthy, () => void proved.push(module));
  look("crashes", true);
  look("works", true);
  for (let restart = 0; restart < 5; restart++) {
    await clock.advance(20_000);
    look("crashes", false);
    await clock.advance(10);
    look("crashes", true);
  }
  expect(proved).toEqual(["works"]);
  look("works", false);
  await clock.advance(60_000);
  expect(proved).toEqual(["works", "crashes"]);
  look("ends", true);
  proofs.close();
  expect(clock.timers).toBe(0);
});
