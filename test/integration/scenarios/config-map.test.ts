// Runs at night: faults.
import { expect, test } from "vitest";

import { eventually } from "../../support/cluster.ts";
import { atRest, expectNothingLeft, expectPicture } from "../../support/final-state.ts";
import { converge } from "../../support/scene-addons.ts";
import { PICTURES, prepare } from "../../support/scene-story.ts";
import type { PageState } from "../../support/scene.ts";

interface Content {
  readonly data?: Readonly<Record<string, string>>;
}

const PLACE = ["configmap", "addon-operator", "-n"] as const;

/** Deletes the ConfigMap; the result makes it again with the same content. */
async function lose({ cluster, namespace }: PageState): Promise<() => Promise<void>> {
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

async function isMissed({ cluster, namespace }: PageState): Promise<void> {
  await cluster.kubectl([
    "wait",
    "addonoperator/addon-operator",
    "-n",
    namespace,
    "--for=jsonpath={.status.conditions[?(@.type=='Ready')].reason}=ConfigMapMissing",
    "--timeout=120s",
  ]);
}

test("the ConfigMap is deleted and made again, with a module switched off by its absence", async () => {
  const pageState = await prepare("lost");
  pageState.file("modules/020-app/values.yaml", "app: {size: 1}\n");
  const { cluster, namespace } = pageState;
  const metadata = { name: "addon-operator", namespace };
  await cluster.apply({ apiVersion: "v1", kind: "ConfigMap", metadata, data: { appEnabled: "true" } });
  const operator = await pageState.start();
  const expected = {
    ...PICTURES.install,
    config: { ...(PICTURES.install.config as object), appEnabled: "true" },
  };
  await expectPicture(pageState, operator, expected);
  const recreate = await lose(pageState);
  await isMissed(pageState);
  await converge(pageState);
  // The hook's own patch is refused, so the converge comes as far as the module and no further.
  await eventually(() => /Module run failed.*module=app/.test(operator.log()), "app waits for its ConfigMap");
  await recreate();
  await expectPicture(pageState, operator, expected);
  expect(pageState.helmRuns()).not.toContain("uninstall app");
  await expectNothingLeft(pageState, operator);
});

test("the ConfigMap is deleted while the operator is down", async () => {
  const pageState = await prepare("down");
  const first = await pageState.start();
  await atRest(first);
  expect(await first.stop()).toMatchObject({ code: 0 });
  const runs = pageState.helmRuns();
  const recreate = await lose(pageState);
  const second = await pageState.start();
  await isMissed(pageState);
  expect((await second.http("/readyz")).status).toBe(500);
  expect(second.log()).not.toContain("Converge started");
  await recreate();
  await expectPicture(pageState, second, PICTURES.install);
  expect(pageState.helmRuns()).toEqual(runs);
  await expectNothingLeft(pageState, second);
});

test("the ConfigMap is replaced while a module runs", async () => {
  const pageState = await prepare("replace");
  const running = pageState.close("app-beforeHelm");
  const operator = await pageState.start();
  await running.reached();
  const recreate = await lose(pageState);
  running.open();
  await eventually(() => /Module run failed.*module=app/.test(operator.log()), "the hook's patch fails");
  await recreate();
  await expectPicture(pageState, operator, PICTURES.install);
  await expectNothingLeft(pageState, operator);
});
