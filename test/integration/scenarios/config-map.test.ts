import { expect, test } from "vitest";

import { eventually } from "../../support/cluster.ts";
import { atRest, expectNothingLeft, expectPicture } from "../../support/final-state.ts";
import { reload } from "../../support/scene-addons.ts";
import { PICTURES, prepare } from "../../support/scene-story.ts";
import type { Scene } from "../../support/scene.ts";

interface Content {
  readonly data?: Readonly<Record<string, string>>;
}

const PLACE = ["configmap", "addon-operator", "-n"] as const;

/** Deletes the ConfigMap; the result makes it again with the same content. */
async function lose({ cluster, namespace }: Scene): Promise<() => Promise<void>> {
  const { data = {} } = await cluster.json<Content>(["get", ...PLACE, namespace]);
  await cluster.kubectl(["delete", ...PLACE, namespace]);
  return () =>
    cluster.apply({
      apiVersion: "v1",
      kind: "ConfigMap",
      metadata: { name: "addon-operator", namespace },
      data,
    });
}

async function isMissed({ cluster, namespace }: Scene): Promise<void> {
  await cluster.kubectl([
    "wait",
    "addonoperator/addon-operator",
    "-n",
    namespace,
    "--for=jsonpath={.status.conditions[?(@.type=='Ready')].reason}=ConfigMapMissing",
    "--timeout=20s",
  ]);
}

test("the ConfigMap is deleted and made again, with a module switched off by its absence", async () => {
  const scene = await prepare("lost");
  scene.file("modules/020-app/values.yaml", "app: {size: 1}\n");
  const { cluster, namespace } = scene;
  const metadata = { name: "addon-operator", namespace };
  await cluster.apply({ apiVersion: "v1", kind: "ConfigMap", metadata, data: { appEnabled: "true" } });
  const operator = await scene.start();
  const expected = {
    ...PICTURES.install,
    config: { ...(PICTURES.install.config as object), appEnabled: "true" },
  };
  await expectPicture(scene, operator, expected);
  const recreate = await lose(scene);
  await isMissed(scene);
  await reload(scene);
  // The hook's own patch is refused, so the reload comes as far as the module and no further.
  await eventually(() => /Module run failed.*module=app/.test(operator.log()), "app waits for its ConfigMap");
  await recreate();
  await expectPicture(scene, operator, expected);
  expect(scene.helmRuns()).not.toContain("uninstall app");
  await expectNothingLeft(scene, operator);
});

test("the ConfigMap is deleted while the operator is down", async () => {
  const scene = await prepare("down");
  const first = await scene.start();
  await atRest(first);
  expect(await first.stop()).toMatchObject({ code: 0 });
  const runs = scene.helmRuns();
  const recreate = await lose(scene);
  const second = await scene.start();
  await isMissed(scene);
  expect((await second.http("/readyz")).status).toBe(500);
  expect(second.log()).not.toContain("Reload all modules");
  await recreate();
  await expectPicture(scene, second, PICTURES.install);
  expect(scene.helmRuns()).toEqual(runs);
  await expectNothingLeft(scene, second);
});

test("the ConfigMap is replaced while a module runs", async () => {
  const scene = await prepare("replace");
  const running = scene.close("app-beforeHelm");
  const operator = await scene.start();
  await running.reached();
  const recreate = await lose(scene);
  running.open();
  await eventually(() => /Module run failed.*module=app/.test(operator.log()), "the hook's patch fails");
  await recreate();
  await expectPicture(scene, operator, PICTURES.install);
  await expectNothingLeft(scene, operator);
});
