// Runs at night: restarts.
import { expect, test } from "vitest";

import { atRest, expectNothingLeft, expectPicture } from "../../support/final-state.ts";
import { KILL_POINTS, markedFailed, midUpgrade } from "../../support/kill-points.ts";
import { ACTS, PICTURES, prepare } from "../../support/scene-story.ts";

const LONG = process.env["LONG"] !== undefined;

const REPORTED = ["delete", ...(LONG ? (["upgrade", "purge"] as const) : [])] as const;

test.each(REPORTED)("undisturbed %s", { timeout: 240_000 }, async (act) => {
  const pageState = await prepare("calm");
  const operator = await pageState.start();
  await expectPicture(pageState, operator, PICTURES.install);
  // In no order: the second may be started while the first is at work.
  const runs = pageState.helmRuns().filter((run) => !run.startsWith("version"));
  expect(runs.toSorted()).toEqual(["upgrade app", "upgrade base"]);
  await ACTS[act](pageState);
  await expectPicture(pageState, operator, PICTURES[act]);
  await expectNothingLeft(pageState, operator);
});

test.each(KILL_POINTS.filter((point) => LONG || point.always === true))(
  "$act: killed $name",
  { timeout: 240_000 },
  async ({ act, stop, revisions }) => {
    const pageState = await prepare("kill");
    const install = act === "install" ? stop(pageState) : undefined;
    const first = await pageState.start();
    if (act !== "install") await atRest(first);
    const reached = install ?? stop(pageState);
    if (act !== "install") await ACTS[act](pageState);
    await reached();
    await first.kill9();
    const second = await pageState.start();
    const picture = PICTURES[act];
    await expectPicture(pageState, second, { ...picture, revisions: { ...picture.revisions, ...revisions } });
    await expectNothingLeft(pageState, second);
  },
);

test.runIf(LONG)(
  "killed in the middle of helm, and again while that is mended (needs LONG=1)",
  { timeout: 240_000 },
  async () => {
    const pageState = await prepare("twice");
    const reached = midUpgrade(pageState);
    const first = await pageState.start();
    await reached();
    await first.kill9();
    pageState.killHelm();
    const fixed = markedFailed(pageState);
    const second = await pageState.start();
    await fixed();
    await second.kill9();
    const third = await pageState.start();
    await expectPicture(pageState, third, { ...PICTURES.install, revisions: { app: 2, base: 1 } });
    await expectNothingLeft(pageState, third);
  },
);
