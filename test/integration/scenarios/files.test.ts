// Runs at night: faults.
import { mkdirSync, renameSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";

import { eventually } from "../../support/cluster.ts";
import { atRest, expectNothingLeft, expectPicture, pictureOf } from "../../support/final-state.ts";
import type { OperatorProcess } from "../../support/operator.ts";
import { base, converge } from "../../support/scene-addons.ts";
import { ACTS, PICTURES, prepare } from "../../support/scene-story.ts";
import type { PageState } from "../../support/scene.ts";

const LONG = process.env["LONG"] !== undefined;

interface OwnStatus {
  readonly status?: { readonly holds?: readonly string[] };
}

/** Resolves when the operator says what it does not delete, and why. */
async function holds({ cluster, namespace }: PageState, words: RegExp): Promise<void> {
  const get = ["get", "addonoperator", "addon-operator", "-n", namespace];
  await eventually(async () => {
    const { status } = await cluster.json<OwnStatus>(get);
    expect(status?.holds?.join("\\n")).toMatch(words);
  }, `a hold like ${words.source}`);
}

/** Moves a directory away and leaves an empty one, as a volume that is not mounted yet. */
function empty(pageState: PageState, dir: string): void {
  renameSync(join(pageState.dir, dir), join(pageState.dir, `${dir}.away`));
  mkdirSync(join(pageState.dir, dir));
}

function comeBack(pageState: PageState, dir: string): void {
  pageState.remove(dir);
  renameSync(join(pageState.dir, `${dir}.away`), join(pageState.dir, dir));
}

const why = async (operator: OperatorProcess, module: string): Promise<string> =>
  (await operator.cli(["module", "why", module])).stdout;

test("a module's directory is deleted while it runs, and does not come back", async () => {
  const pageState = await prepare("gone");
  const operator = await pageState.start();
  await atRest(operator);
  const running = pageState.close("app-beforeHelm");
  await ACTS.upgrade(pageState);
  await running.reached();
  pageState.remove("modules/020-app");
  running.open();
  await eventually(() => /Module run ended before helm.*module=app/.test(operator.log()), "the run ends");
  await converge(pageState);
  await expectPicture(pageState, operator, { ...PICTURES.purge, config: PICTURES.upgrade.config });
  await expectNothingLeft(pageState, operator);
});

test.runIf(LONG)("a module's directory is deleted while it runs, and comes back (needs LONG=1)", async () => {
  const pageState = await prepare("back");
  const operator = await pageState.start();
  await atRest(operator);
  const running = pageState.close("app-beforeHelm");
  await ACTS.upgrade(pageState);
  await running.reached();
  empty(pageState, "modules/020-app");
  running.open();
  await eventually(() => /Module run ended before helm.*module=app/.test(operator.log()), "the run ends");
  comeBack(pageState, "modules/020-app");
  await expectPicture(pageState, operator, PICTURES.upgrade);
  await expectNothingLeft(pageState, operator);
});

test("all modules directories are empty at a start, then come back", async () => {
  const pageState = await prepare("empty");
  const first = await pageState.start();
  await atRest(first);
  expect(await first.stop()).toMatchObject({ code: 0 });
  empty(pageState, "modules");
  const second = await pageState.start();
  await second.waitReady();
  await holds(pageState, /not purged: app, base: .*modules/);
  comeBack(pageState, "modules");
  await converge(pageState);
  await expectPicture(pageState, second, PICTURES.install);
  expect(pageState.helmRuns()).not.toContain("uninstall app");
  await expectNothingLeft(pageState, second);
});

test("one of several modules directories is empty for a while", async () => {
  const pageState = await prepare("half");
  pageState.remove("modules/030-base");
  base(pageState, "more/030-base");
  const modulesDir = ["modules", "more"].map((name) => join(pageState.dir, name)).join(":");
  const operator = await pageState.start({ modulesDir });
  await expectPicture(pageState, operator, PICTURES.install);
  empty(pageState, "more");
  await converge(pageState);
  await holds(pageState, /not purged: base: .*more/);
  comeBack(pageState, "more");
  await converge(pageState);
  await expectPicture(pageState, operator, PICTURES.install);
  expect(pageState.helmRuns()).not.toContain("uninstall base");
  await expectNothingLeft(pageState, operator);
});

test("a module's values.yaml is half written, at run time and at a start", async () => {
  const pageState = await prepare("values");
  const first = await pageState.start();
  await expectPicture(pageState, first, PICTURES.install);
  const file = "modules/020-app/values.yaml";
  pageState.file(file, "appEnabled: true\napp: {size: [1\n");
  await converge(pageState);
  await eventually(
    async () => expect(await why(first, "app")).toMatch(/requires action: .*values\.yaml/),
    "Invalid",
  );
  // The others go on.
  await pageState.configure({ base: "size: 2\n" });
  await eventually(async () => {
    expect((await pictureOf(pageState)).revisions).toEqual({ app: 1, base: 2 });
  }, "base is upgraded");
  await pageState.configure({ base: null });
  await atRest(first);
  expect(await first.stop()).toMatchObject({ code: 0 });
  const second = await pageState.start();
  await second.waitReady();
  expect(await why(second, "app")).toMatch(/requires action: .*values\.yaml/);
  pageState.file(file, "appEnabled: true\napp: {size: 1}\n");
  await converge(pageState);
  await expectPicture(pageState, second, { ...PICTURES.install, revisions: { app: 1, base: 3 } });
  await expectNothingLeft(pageState, second);
});

test("modules/values.yaml is half written for a while", async () => {
  const pageState = await prepare("common");
  const text = "global: {common: yes}\nbase: {size: 1}\n";
  pageState.file("modules/values.yaml", text);
  const operator = await pageState.start();
  await expectPicture(pageState, operator, PICTURES.install);
  pageState.file("modules/values.yaml", "global: {common: yes}\nbase: {size: [");
  await converge(pageState);
  await eventually(() => /modules\/values\.yaml/.test(operator.log()), "the file is named");
  pageState.file("modules/values.yaml", text);
  await converge(pageState);
  await expectPicture(pageState, operator, PICTURES.install);
  await expectNothingLeft(pageState, operator);
});
