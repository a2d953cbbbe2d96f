import { expect, test } from "vitest";

import { Scope } from "../../../src/base/index.ts";
import { keepSecrets } from "../../../src/main/wiring/kept-secrets.ts";
import { ManualClock } from "../../support/clock.ts";
import { keepLog } from "../../support/logged.ts";
import type { LoggedLine } from "../../support/logged.ts";

const MINUTE = 60_000;

test("Secrets are checked every three minutes, until the operator stops; a failed check ends no other", async () => {
  const clock = new ManualClock();
  const scope = new Scope();
  const logged: LoggedLine[] = [];
  const checks: string[] = [];
  const restore = (name: string, answer: () => boolean) => () => {
    checks.push(name);
    return Promise.try(answer);
  };
  const secrets = new Map([
    [
      "broken",
      restore("broken", () => {
        throw new Error("etcd is down");
      }),
    ],
    ["deleted", restore("deleted", () => checks.length < 4)],
  ]);
  keepSecrets(secrets, { clock, scope, logger: keepLog(logged) });
  await clock.advance(2 * MINUTE);
  expect(checks).toEqual([]);
  await clock.advance(4 * MINUTE);
  expect(checks).toEqual(["broken", "deleted", "broken", "deleted"]);
  const warning = "A Secret of the operator was deleted; it is created again";
  expect(logged.filter(([level]) => level === "warn")).toEqual([["warn", warning, { secret: "deleted" }]]);
  await scope.close();
  await clock.advance(6 * MINUTE);
  expect(checks).toHaveLength(4);
});
