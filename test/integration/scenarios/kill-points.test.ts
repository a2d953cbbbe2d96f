import { expect, test } from "vitest";

import { atRest, expectNothingLeft, expectPicture } from "../../support/final-state.ts";
import { KILL_POINTS, markedFailed, midUpgrade } from "../../support/kill-points.ts";
import { ACTS, PICTURES, prepare } from "../../support/scene-story.ts";

const LONG = process.env["LONG"] !== undefined;

const TOLD = ["delete", ...(LONG ? (["upgrade", "purge"] as const) : [])] as const;

test.each(TOLD)("undisturbed %s", { timeout: 90_000 }, async (act) => {
  const scene = await prepare("calm");
  const operator = await scene.start();
  await expectPicture(scene, operator, PICTURES.install);
  // In no order: the second may be started while the first is at work.
  const runs = scene.helmRuns().filter((run) => !run.startsWith("version"));
  expect(runs.toSorted()).toEqual(["upgrade app", "upgrade base"]);
  await ACTS[act](scene);
  await expectPicture(scene, operator, PICTURES[act]);
  await expectNothingLeft(scene, operator);
});

test.each(KILL_POINTS.filter((point) => LONG || point.always === true))(
  "$act: killed $name",
  { timeout: 90_000 },
  async ({ act, stop, revisions, withHelm }) => {
    const scene = await prepare("kill");
    const install = act === "install" ? stop(scene) : undefined;
    const first = await scene.start();
    if (act !== "install") await atRest(first);
    const reached = install ?? stop(scene);
    if (act !== "install") await ACTS[act](scene);
    await reached();
    await first.kill9();
    if (withHelm === true) scene.killHelm();
    const second = await scene.start();
    const picture = PICTURES[act];
    await expectPicture(scene, second, { ...picture, revisions: { ...picture.revisions, ...revisions } });
    await expectNothingLeft(scene, second);
  },
);

test.runIf(LONG)(
  "killed in the middle of helm, and again while that is mended (needs LONG=1)",
  { timeout: 90_000 },
  async () => {
    const scene = await prepare("twice");
    const reached = midUpgrade(scene);
    const first = await scene.start();
    await reached();
    await first.kill9();
    scene.killHelm();
    const mended = markedFailed(scene);
    const second = await scene.start();
    await mended();
    await second.kill9();
    const third = await scene.start();
    await expectPicture(scene, third, { ...PICTURES.install, revisions: { app: 2, base: 1 } });
    await expectNothingLeft(scene, third);
  },
);
