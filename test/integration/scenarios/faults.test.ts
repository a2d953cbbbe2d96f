// Runs at night: faults.
import { rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";

import { eventually } from "../../support/cluster.ts";
import { atRest, expectNothingLeft, expectPicture, pictureOf } from "../../support/final-state.ts";
import { midUpgrade } from "../../support/kill-points.ts";
import { hookText, mark, converge } from "../../support/scene-addons.ts";
import { ACTS, PICTURES, prepare } from "../../support/scene-story.ts";
import type { PageState } from "../../support/scene.ts";

const LONG = process.env["LONG"] !== undefined;

/** An `enabled` script whose answer is the content of a file; without one it fails. */
function flapping(pageState: PageState): (answer: string | undefined) => void {
  const file = join(pageState.dir, "answer");
  pageState.file("modules/020-app/enabled", '#!/bin/sh\ncat "$SCENE/answer" > "$MODULE_ENABLED_RESULT"\n');
  return (answer) => {
    if (answer === undefined) rmSync(file);
    else writeFileSync(file, answer);
  };
}

test("helm is killed in the middle of an upgrade", async () => {
  const pageState = await prepare("helm");
  const operator = await pageState.start();
  await atRest(operator);
  const reached = midUpgrade(pageState);
  await ACTS.upgrade(pageState);
  await reached();
  pageState.killHelm();
  const { upgrade } = PICTURES;
  await expectPicture(pageState, operator, { ...upgrade, revisions: { ...upgrade.revisions, app: 3 } });
  await expectNothingLeft(pageState, operator);
});

test("a hook that fails for ever delays neither named queues nor edits nor being switched off", async () => {
  const pageState = await prepare("hook");
  const side = { kubernetes: [{ kind: "ConfigMap", nameSelector: { matchNames: ["side"] }, queue: "side" }] };
  const reported = { executeHookOnEvent: ["Added"], executeHookOnSynchronization: false };
  const [binding] = side.kubernetes;
  const config = { kubernetes: [{ ...binding, ...reported }] };
  pageState.file("global-hooks/side.sh", hookText("global-side", config, { KUBERNETES: mark("side-seen") }));
  const operator = await pageState.start();
  await atRest(operator);
  pageState.file("modules/020-app/hooks/beforeHelm.sh", hookText("never", { beforeHelm: 1 }, "exit 1"));
  await ACTS.upgrade(pageState);
  await eventually(() => /Module run failed.*module=app/.test(operator.log()), "app fails");
  const { namespace, cluster } = pageState;
  await cluster.apply({ apiVersion: "v1", kind: "ConfigMap", metadata: { name: "side", namespace } });
  const sees = (name: string, data: object): Promise<void> =>
    eventually(async () => {
      expect((await pictureOf(pageState)).objects).toMatchObject({ [`ConfigMap ${name}`]: data });
    }, name);
  await sees("side-seen", {});
  await pageState.configure({ base: "size: 2\n" });
  await sees("base", { size: "2" });
  await pageState.configure({ appEnabled: "false" });
  const { delete: deleted } = PICTURES;
  await expectPicture(pageState, operator, {
    ...deleted,
    revisions: { base: 2 },
    objects: {
      ...deleted.objects,
      "ConfigMap base": { size: "2" },
      "ConfigMap side": {},
      "ConfigMap side-seen": {},
    },
    config: { ...(PICTURES.upgrade.config as object), appEnabled: "false", base: "size: 2\n" },
  });
  await expectNothingLeft(pageState, operator);
});

test("a hook of a named queue that fails for ever delays nothing else", async () => {
  const pageState = await prepare("side");
  const side = { schedule: [{ crontab: "* * * * * *", queue: "side" }] };
  pageState.file("modules/020-app/hooks/side.sh", hookText("app-side", side, "exit 1"));
  const operator = await pageState.start();
  await eventually(() => /Hook failed.*hook=.*side/.test(operator.log()), "the hook fails");
  // Else the first release may have the upgrade in it.
  await operator.waitReady();
  await ACTS.upgrade(pageState);
  // The failing hook is reported, and nothing else differs.
  const statuses = { ...PICTURES.upgrade.statuses, "AddonOperator addon-operator": "Retrying InProgress" };
  await eventually(async () => {
    expect(await pictureOf(pageState)).toEqual({ ...PICTURES.upgrade, statuses });
  }, "the state of an undisturbed run");
  pageState.remove("modules/020-app/hooks/side.sh");
  await converge(pageState);
  await expectPicture(pageState, operator, PICTURES.upgrade);
  await expectNothingLeft(pageState, operator);
});

test("an enabled script that flaps: off, failing, on", async () => {
  const pageState = await prepare("flap");
  const answer = flapping(pageState);
  answer("true");
  const operator = await pageState.start();
  await atRest(operator);
  const leaving = pageState.close("app-beforeDeleteHelm");
  answer("false");
  await converge(pageState);
  await leaving.reached();
  answer(undefined);
  await converge(pageState);
  leaving.open();
  await eventually(() => operator.log().includes("enabled script of app failed"), "the script fails");
  answer("true");
  const { objects } = PICTURES.delete;
  await expectPicture(pageState, operator, {
    ...PICTURES.install,
    objects: { ...objects, ...PICTURES.install.objects },
  });
  await expectNothingLeft(pageState, operator);
});

test.runIf(LONG)(
  "an enabled script that flaps: on again before anything was deleted (needs LONG=1)",
  async () => {
    const pageState = await prepare("flip");
    const answer = flapping(pageState);
    answer("true");
    const hook = "modules/020-app/hooks/beforeDeleteHelm.sh";
    pageState.file(hook, hookText("app-beforeDeleteHelm", { beforeDeleteHelm: 1 }, "exit 1"));
    const operator = await pageState.start();
    await atRest(operator);
    answer("false");
    await converge(pageState);
    await eventually(() => operator.log().includes("Module delete failed"), "the delete fails");
    answer("true");
    await converge(pageState);
    await expectPicture(pageState, operator, PICTURES.install);
    expect(pageState.helmRuns()).not.toContain("uninstall app");
    await expectNothingLeft(pageState, operator);
  },
);

test("two operators on one ConfigMap: one works, the other waits and takes over", async () => {
  const pageState = await prepare("twin");
  const operators = await Promise.all([pageState.start(), pageState.start()]);
  const isWaiting = /Another operator works on this ConfigMap/;
  const [waiting] = await eventually(() => {
    const found = operators.filter((each) => isWaiting.test(each.log()));
    return found.length === 1 && found;
  }, "one of the two waits");
  const working = operators.find((each) => each !== waiting);
  if (waiting === undefined || working === undefined) throw new Error("both work");
  await expectPicture(pageState, working, PICTURES.install);
  expect((await waiting.http("/readyz")).status).toBe(500);
  expect(waiting.log()).not.toContain("Converge started");
  await working.kill9();
  await expectPicture(pageState, waiting, PICTURES.install);
  // In no order: the second may be started while the first is at work.
  const upgrades = pageState.helmRuns().filter((run) => run.startsWith("upgrade"));
  expect(upgrades.toSorted()).toEqual(["upgrade app", "upgrade base"]);
  await expectNothingLeft(pageState, waiting);
});
