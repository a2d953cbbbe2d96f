// Runs at night: restarts.
import { afterAll, beforeAll, expect, test } from "vitest";

import { startCluster } from "../../../scripts/control-plane.mjs";
import type { ControlPlane } from "../../support/cluster.ts";
import { eventually } from "../../support/cluster.ts";
import { atRest, expectNothingLeft, expectPicture } from "../../support/final-state.ts";
import type { OperatorProcess } from "../../support/operator.ts";
import { ACTS, PICTURES, prepare } from "../../support/scene-story.ts";
import type { PageState } from "../../support/scene.ts";

const LEASE = ["--lease-duration=8s", "--lease-renew-deadline=5s", "--lease-retry-period=500ms"];

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

async function upgraded(pageState: PageState, operator: OperatorProcess): Promise<void> {
  await expectPicture(pageState, operator, PICTURES.upgrade);
  await expectNothingLeft(pageState, operator);
}

test(
  "the API server is restarted in the middle of a converge, of helm and of a delete",
  { timeout: 240_000 },
  async () => {
    const pageState = await prepare("server", plane);
    const steps = ["app-beforeHelm", "before-upgrade app"].map(pageState.close);
    const operator = await pageState.start();
    for (const step of steps) {
      await step.reached();
      await plane.stopApiServer();
      step.open();
      await plane.startApiServer();
    }
    await expectPicture(pageState, operator, PICTURES.install);
    const leaving = pageState.close("before-uninstall app");
    await ACTS.delete(pageState);
    await leaving.reached();
    await plane.restartApiServer();
    leaving.open();
    await expectPicture(pageState, operator, PICTURES.delete);
    await expectNothingLeft(pageState, operator);
  },
);

test("etcd stands still again and again while modules run", { timeout: 240_000 }, async () => {
  const pageState = await prepare("etcd", plane);
  const steps = ["app-onStartup", "app-beforeHelm", "before-upgrade app", "app-afterHelm"].map(
    pageState.close,
  );
  const operator = await pageState.start();
  for (const step of steps) {
    await step.reached();
    const goOn = freeze();
    const before = pageState.proxy.seen.length;
    step.open();
    await eventually(() => pageState.proxy.seen.length > before, "a request waits for etcd");
    goOn();
  }
  await atRest(operator);
  await ACTS.upgrade(pageState);
  await upgraded(pageState, operator);
});

test("etcd stands still for longer than the lease lasts", { timeout: 240_000 }, async () => {
  const pageState = await prepare("lease", plane);
  const first = await pageState.start({ args: LEASE });
  await atRest(first);
  const running = pageState.close("app-afterHelm");
  await ACTS.upgrade(pageState);
  await running.reached();
  const goOn = freeze();
  // In order, or on a busy machine by the watchdog.
  expect([
    { code: 0, signal: null },
    { code: null, signal: "SIGKILL" },
  ]).toContainEqual(await first.exit);
  expect(first.log()).toContain("The lease is lost");
  expect(pageState.processes()).toEqual([]);
  goOn();
  const second = await pageState.start({ args: LEASE });
  await upgraded(pageState, second);
});
