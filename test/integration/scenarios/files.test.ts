import { mkdirSync, renameSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";

import { eventually } from "../../support/cluster.ts";
import { atRest, expectNothingLeft, expectPicture, pictureOf } from "../../support/final-state.ts";
import type { OperatorProcess } from "../../support/operator.ts";
import { base, reload } from "../../support/scene-addons.ts";
import { ACTS, PICTURES, prepare } from "../../support/scene-story.ts";
import type { Scene } from "../../support/scene.ts";

const LONG = process.env["LONG"] !== undefined;

interface OwnStatus {
  readonly status?: { readonly holds?: readonly string[] };
}

/** Resolves when the operator says what it does not delete, and why. */
async function holds({ cluster, namespace }: Scene, words: RegExp): Promise<void> {
  const get = ["get", "addonoperator", "addon-operator", "-n", namespace];
  await eventually(async () => {
    const { status } = await cluster.json<OwnStatus>(get);
    expect(status?.holds?.join("\\n")).toMatch(words);
  }, `a hold like ${words.source}`);
}

/** Moves a directory away and leaves an empty one, as a volume that is not mounted yet. */
function empty(scene: Scene, dir: string): void {
  renameSync(join(scene.dir, dir), join(scene.dir, `${dir}.away`));
  mkdirSync(join(scene.dir, dir));
}

function comeBack(scene: Scene, dir: string): void {
  scene.remove(dir);
  renameSync(join(scene.dir, `${dir}.away`), join(scene.dir, dir));
}

const why = async (operator: OperatorProcess, module: string): Promise<string> =>
  (await operator.cli(["module", "why", module])).stdout;

test("a module's directory is deleted while it runs, and does not come back", async () => {
  const scene = await prepare("gone");
  const operator = await scene.start();
  await atRest(operator);
  const running = scene.close("app-beforeHelm");
  await ACTS.upgrade(scene);
  await running.reached();
  scene.remove("modules/020-app");
  running.open();
  await eventually(() => /Module run ended before helm.*module=app/.test(operator.log()), "the run ends");
  await reload(scene);
  await expectPicture(scene, operator, { ...PICTURES.purge, config: PICTURES.upgrade.config });
  await expectNothingLeft(scene, operator);
});

test.runIf(LONG)("a module's directory is deleted while it runs, and comes back (needs LONG=1)", async () => {
  const scene = await prepare("back");
  const operator = await scene.start();
  await atRest(operator);
  const running = scene.close("app-beforeHelm");
  await ACTS.upgrade(scene);
  await running.reached();
  empty(scene, "modules/020-app");
  running.open();
  await eventually(() => /Module run ended before helm.*module=app/.test(operator.log()), "the run ends");
  comeBack(scene, "modules/020-app");
  await expectPicture(scene, operator, PICTURES.upgrade);
  await expectNothingLeft(scene, operator);
});

test("all modules directories are empty at a start, then come back", async () => {
  const scene = await prepare("empty");
  const first = await scene.start();
  await atRest(first);
  expect(await first.stop()).toMatchObject({ code: 0 });
  empty(scene, "modules");
  const second = await scene.start();
  await second.waitReady();
  await holds(scene, /not purged: app, base: .*modules/);
  comeBack(scene, "modules");
  await reload(scene);
  await expectPicture(scene, second, PICTURES.install);
  expect(scene.helmRuns()).not.toContain("uninstall app");
  await expectNothingLeft(scene, second);
});

test("one of several modules directories is empty for a while", async () => {
  const scene = await prepare("half");
  scene.remove("modules/030-base");
  base(scene, "more/030-base");
  const modulesDir = ["modules", "more"].map((name) => join(scene.dir, name)).join(":");
  const operator = await scene.start({ modulesDir });
  await expectPicture(scene, operator, PICTURES.install);
  empty(scene, "more");
  await reload(scene);
  await holds(scene, /not purged: base: .*more/);
  comeBack(scene, "more");
  await reload(scene);
  await expectPicture(scene, operator, PICTURES.install);
  expect(scene.helmRuns()).not.toContain("uninstall base");
  await expectNothingLeft(scene, operator);
});

test("a module's values.yaml is half written, at run time and at a start", async () => {
  const scene = await prepare("values");
  const first = await scene.start();
  await expectPicture(scene, first, PICTURES.install);
  const file = "modules/020-app/values.yaml";
  scene.file(file, "appEnabled: true\napp: {size: [1\n");
  await reload(scene);
  await eventually(
    async () => expect(await why(first, "app")).toMatch(/needs a person: .*values\.yaml/),
    "Invalid",
  );
  // The others go on.
  await scene.configure({ base: "size: 2\n" });
  await eventually(async () => {
    expect((await pictureOf(scene)).revisions).toEqual({ app: 1, base: 2 });
  }, "base is upgraded");
  await scene.configure({ base: null });
  await atRest(first);
  expect(await first.stop()).toMatchObject({ code: 0 });
  const second = await scene.start();
  await second.waitReady();
  expect(await why(second, "app")).toMatch(/needs a person: .*values\.yaml/);
  scene.file(file, "appEnabled: true\napp: {size: 1}\n");
  await reload(scene);
  await expectPicture(scene, second, { ...PICTURES.install, revisions: { app: 1, base: 3 } });
  await expectNothingLeft(scene, second);
});

test("modules/values.yaml is half written for a while", async () => {
  const scene = await prepare("common");
  const text = "global: {common: yes}\nbase: {size: 1}\n";
  scene.file("modules/values.yaml", text);
  const operator = await scene.start();
  await expectPicture(scene, operator, PICTURES.install);
  scene.file("modules/values.yaml", "global: {common: yes}\nbase: {size: [");
  await reload(scene);
  await eventually(() => /modules\/values\.yaml/.test(operator.log()), "the file is named");
  scene.file("modules/values.yaml", text);
  await reload(scene);
  await expectPicture(scene, operator, PICTURES.install);
  await expectNothingLeft(scene, operator);
});
