import { afterAll, beforeAll, expect, test } from "vitest";

import { startCluster } from "../../../scripts/control-plane.mjs";
import type { ControlPlane } from "../../support/cluster.ts";
import { eventually } from "../../support/cluster.ts";
import { atRest, expectNothingLeft, expectPicture } from "../../support/final-state.ts";
import type { OperatorProcess } from "../../support/operator.ts";
import { ACTS, PICTURES, prepare } from "../../support/scene-story.ts";
import type { Scene } from "../../support/scene.ts";

const LEASE = ["--lease-duration=5s", "--lease-renew-deadline=2s", "--lease-retry-period=500ms"];

let plane: ControlPlane;

beforeAll(async () => {
  plane = await startCluster();
});

afterAll(() => plane.stop());

/** Stops etcd; the result lets it go on. */
function freeze(): () => void {
  const { etcd } = plane.pids();
  if (etcd === undefined) throw new Error("no etcd");
  process.kill(etcd, "SIGSTOP");
  return () => process.kill(etcd, "SIGCONT");
}

async function upgraded(scene: Scene, operator: OperatorProcess): Promise<void> {
  await expectPicture(scene, operator, PICTURES.upgrade);
  await expectNothingLeft(scene, operator);
}

test(
  "the API server is restarted in the middle of a converge, of helm and of a delete",
  { timeout: 90_000 },
  async () => {
    const scene = await prepare("server", plane);
    const steps = ["app-beforeHelm", "before-upgrade app"].map(scene.close);
    const operator = await scene.start();
    for (const step of steps) {
      await step.reached();
      await plane.stopApiServer();
      step.open();
      await plane.startApiServer();
    }
    await expectPicture(scene, operator, PICTURES.install);
    const leaving = scene.close("before-uninstall app");
    await ACTS.delete(scene);
    await leaving.reached();
    await plane.restartApiServer();
    leaving.open();
    await expectPicture(scene, operator, PICTURES.delete);
    await expectNothingLeft(scene, operator);
  },
);

test("etcd stands still again and again while modules run", { timeout: 90_000 }, async () => {
  const scene = await prepare("etcd", plane);
  const steps = ["app-onStartup", "app-beforeHelm", "before-upgrade app", "app-afterHelm"].map(scene.close);
  const operator = await scene.start();
  for (const step of steps) {
    await step.reached();
    const goOn = freeze();
    const before = scene.proxy.seen.length;
    step.open();
    await eventually(() => scene.proxy.seen.length > before, "a request waits for etcd");
    goOn();
  }
  await atRest(operator);
  await ACTS.upgrade(scene);
  await upgraded(scene, operator);
});

test("etcd stands still for longer than the lease lasts", { timeout: 90_000 }, async () => {
  const scene = await prepare("lease", plane);
  const first = await scene.start({ args: LEASE });
  await atRest(first);
  const running = scene.close("app-afterHelm");
  await ACTS.upgrade(scene);
  await running.reached();
  const goOn = freeze();
  expect(await first.exit).toMatchObject({ code: 0 });
  expect(first.log()).toContain("The lease is lost");
  expect(scene.processes()).toEqual([]);
  goOn();
  const second = await scene.start({ args: LEASE });
  await upgraded(scene, second);
});
