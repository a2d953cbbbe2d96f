import { rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";

import { eventually } from "../../support/cluster.ts";
import { atRest, expectNothingLeft, expectPicture, pictureOf } from "../../support/final-state.ts";
import { midUpgrade } from "../../support/kill-points.ts";
import { hookText, mark, reload } from "../../support/scene-addons.ts";
import { ACTS, PICTURES, prepare } from "../../support/scene-story.ts";
import type { Scene } from "../../support/scene.ts";

const LONG = process.env["LONG"] !== undefined;

/** An `enabled` script whose answer is the content of a file; without one it fails. */
function flapping(scene: Scene): (answer: string | undefined) => void {
  const file = join(scene.dir, "answer");
  scene.file("modules/020-app/enabled", '#!/bin/sh\ncat "$SCENE/answer" > "$MODULE_ENABLED_RESULT"\n');
  return (answer) => {
    if (answer === undefined) rmSync(file);
    else writeFileSync(file, answer);
  };
}

test("helm is killed in the middle of an upgrade", async () => {
  const scene = await prepare("helm");
  const operator = await scene.start();
  await atRest(operator);
  const reached = midUpgrade(scene);
  await ACTS.upgrade(scene);
  await reached();
  scene.killHelm();
  const { upgrade } = PICTURES;
  await expectPicture(scene, operator, { ...upgrade, revisions: { ...upgrade.revisions, app: 3 } });
  await expectNothingLeft(scene, operator);
});

test("a hook that fails for ever holds up neither named queues nor edits nor being switched off", async () => {
  const scene = await prepare("hook");
  const side = { kubernetes: [{ kind: "ConfigMap", nameSelector: { matchNames: ["side"] }, queue: "side" }] };
  const told = { executeHookOnEvent: ["Added"], executeHookOnSynchronization: false };
  const [binding] = side.kubernetes;
  const config = { kubernetes: [{ ...binding, ...told }] };
  scene.file("global-hooks/side.sh", hookText("global-side", config, { KUBERNETES: mark("side-seen") }));
  const operator = await scene.start();
  await atRest(operator);
  scene.file("modules/020-app/hooks/beforeHelm.sh", hookText("never", { beforeHelm: 1 }, "exit 1"));
  await ACTS.upgrade(scene);
  await eventually(() => /Module run failed.*module=app/.test(operator.log()), "app fails");
  const { namespace, cluster } = scene;
  await cluster.apply({ apiVersion: "v1", kind: "ConfigMap", metadata: { name: "side", namespace } });
  const sees = (name: string, data: object): Promise<void> =>
    eventually(async () => {
      expect((await pictureOf(scene)).objects).toMatchObject({ [`ConfigMap ${name}`]: data });
    }, name);
  await sees("side-seen", {});
  await scene.configure({ base: "size: 2\n" });
  await sees("base", { size: "2" });
  await scene.configure({ appEnabled: "false" });
  const { delete: deleted } = PICTURES;
  await expectPicture(scene, operator, {
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
  await expectNothingLeft(scene, operator);
});

test("a hook of a named queue that fails for ever holds up nothing else", async () => {
  const scene = await prepare("side");
  const side = { schedule: [{ crontab: "* * * * * *", queue: "side" }] };
  scene.file("modules/020-app/hooks/side.sh", hookText("app-side", side, "exit 1"));
  const operator = await scene.start();
  await eventually(() => /Hook failed.*hook=.*side/.test(operator.log()), "the hook fails");
  await ACTS.upgrade(scene);
  // The failing hook is reported, and nothing else differs.
  const statuses = { ...PICTURES.upgrade.statuses, "AddonOperator addon-operator": "Retrying InProgress" };
  await eventually(async () => {
    expect(await pictureOf(scene)).toEqual({ ...PICTURES.upgrade, statuses });
  }, "the state of an undisturbed run");
  scene.remove("modules/020-app/hooks/side.sh");
  await reload(scene);
  await expectPicture(scene, operator, PICTURES.upgrade);
  await expectNothingLeft(scene, operator);
});

test("an enabled script that flaps: off, failing, on", async () => {
  const scene = await prepare("flap");
  const answer = flapping(scene);
  answer("true");
  const operator = await scene.start();
  await atRest(operator);
  const leaving = scene.close("app-beforeDeleteHelm");
  answer("false");
  await reload(scene);
  await leaving.reached();
  answer(undefined);
  await reload(scene);
  leaving.open();
  await eventually(() => operator.log().includes("enabled script of app failed"), "the script fails");
  answer("true");
  const { objects } = PICTURES.delete;
  await expectPicture(scene, operator, {
    ...PICTURES.install,
    objects: { ...objects, ...PICTURES.install.objects },
  });
  await expectNothingLeft(scene, operator);
});

test.runIf(LONG)(
  "an enabled script that flaps: on again before anything was deleted (needs LONG=1)",
  async () => {
    const scene = await prepare("flip");
    const answer = flapping(scene);
    answer("true");
    const hook = "modules/020-app/hooks/beforeDeleteHelm.sh";
    scene.file(hook, hookText("app-beforeDeleteHelm", { beforeDeleteHelm: 1 }, "exit 1"));
    const operator = await scene.start();
    await atRest(operator);
    answer("false");
    await reload(scene);
    await eventually(() => operator.log().includes("Module delete failed"), "the delete fails");
    answer("true");
    await reload(scene);
    await expectPicture(scene, operator, PICTURES.install);
    expect(scene.helmRuns()).not.toContain("uninstall app");
    await expectNothingLeft(scene, operator);
  },
);

test("two operators on one ConfigMap: one works, the other waits and takes over", async () => {
  const scene = await prepare("twin");
  const operators = await Promise.all([scene.start(), scene.start()]);
  const isWaiting = /Another operator works on this ConfigMap/;
  const [waiting] = await eventually(() => {
    const found = operators.filter((each) => isWaiting.test(each.log()));
    return found.length === 1 && found;
  }, "one of the two waits");
  const working = operators.find((each) => each !== waiting);
  if (waiting === undefined || working === undefined) throw new Error("both work");
  await expectPicture(scene, working, PICTURES.install);
  expect((await waiting.http("/readyz")).status).toBe(500);
  expect(waiting.log()).not.toContain("Reload all modules");
  await working.kill9();
  await expectPicture(scene, waiting, PICTURES.install);
  // In no order: the second may be started while the first is at work.
  const upgrades = scene.helmRuns().filter((run) => run.startsWith("upgrade"));
  expect(upgrades.toSorted()).toEqual(["upgrade app", "upgrade base"]);
  await expectNothingLeft(scene, waiting);
});
