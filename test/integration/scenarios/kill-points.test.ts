import { expect, test } from "vitest";

import { eventually } from "../../support/cluster.ts";
import { atRest, expectNothingLeft, expectPicture, pictureOf } from "../../support/final-state.ts";
import type { Picture } from "../../support/final-state.ts";
import { KILL_POINTS } from "../../support/kill-points.ts";
import type { Act } from "../../support/kill-points.ts";
import type { OperatorProcess } from "../../support/operator.ts";
import { addons, reload, seed } from "../../support/scene-addons.ts";
import { openScene } from "../../support/scene.ts";
import type { Scene } from "../../support/scene.ts";

const LONG = process.env["LONG"] !== undefined;

async function prepare(): Promise<Scene> {
  const scene = await openScene("kill");
  addons(scene);
  await seed(scene);
  return scene;
}

/** What leads from one picture to the next. */
const ACTS: Readonly<Record<Exclude<Act, "install">, (scene: Scene) => Promise<void>>> = {
  upgrade: (scene) => scene.configure({ app: "size: 2\nkept: yes\n" }),
  delete: (scene) => scene.configure({ appEnabled: "false" }),
  purge: async (scene) => {
    scene.remove("modules/020-app");
    await reload(scene);
  },
};

/** The pictures that an operator leaves which nobody disturbs: the truth for all others. */
async function undisturbed(act: Act): Promise<Picture> {
  const scene = await prepare();
  const operator = await scene.start();
  await settled(scene, operator, "install");
  if (act !== "install") {
    await ACTS[act](scene);
    await settled(scene, operator, act);
  }
  const picture = await pictureOf(scene);
  await expectNothingLeft(scene, operator);
  return picture;
}

const isThere = (act: Act): boolean => act === "install" || act === "upgrade";

async function settled(scene: Scene, operator: OperatorProcess, act: Act): Promise<void> {
  await atRest(operator);
  await eventually(async () => {
    const { objects, releases, statuses } = await pictureOf(scene);
    expect(Object.values(releases)).toEqual(Object.keys(releases).map(() => "deployed inputs managed-by"));
    expect(objects["ConfigMap app"] !== undefined).toBe(isThere(act));
    expect(objects["ConfigMap app"]).toMatchObject(act === "upgrade" ? { size: "2" } : {});
    expect(Object.keys(statuses)).toHaveLength(act === "purge" ? 2 : 3);
    for (const status of Object.values(statuses)) expect(status).toMatch(/^(Ready|Disabled) Current$/);
  }, act);
  await atRest(operator);
}

const truths = new Map<Act, Promise<Picture>>();

function truth(act: Act): Promise<Picture> {
  const known = truths.get(act) ?? undisturbed(act);
  truths.set(act, known);
  return known;
}

test.each(KILL_POINTS.filter((point) => LONG || point.always === true))(
  "$act: killed $name",
  { timeout: 90_000 },
  async ({ act, stop, revisions, withHelm }) => {
    const expected = await truth(act);
    const scene = await prepare();
    const install = act === "install" ? stop(scene) : undefined;
    const first = await scene.start();
    if (act !== "install") await atRest(first);
    const reached = install ?? stop(scene);
    if (act !== "install") await ACTS[act](scene);
    await reached();
    await first.kill9();
    if (withHelm === true) scene.killHelm();
    const second = await scene.start();
    await expectPicture(scene, second, {
      ...expected,
      revisions: { ...expected.revisions, ...revisions },
    });
    await expectNothingLeft(scene, second);
  },
);
