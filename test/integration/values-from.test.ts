import { expect, test } from "vitest";

import { cluster, eventually, freshNamespace } from "../support/cluster.ts";
import { hookLab } from "../support/hook-files.ts";
import { startOperator } from "../support/operator.ts";
import { condition, module, of } from "../support/requiring.ts";

// docs/reference/values.md, "Values from Secrets".

const { kubectl, apply, json } = cluster();

const secret = (namespace: string, size: string): object => ({
  apiVersion: "v1",
  kind: "Secret",
  metadata: { name: "sizes", namespace },
  stringData: { size },
});

async function sizeOf(namespace: string): Promise<string | undefined> {
  const args = ["get", "configmap", "web", "-n", namespace, "--ignore-not-found"];
  return (await json<{ data?: { size?: string } }>(args)).data?.size;
}

test(
  "a module waits for its Secret, runs when it comes and changes, keeps its content when it goes, and shows it nowhere",
  { timeout: 240_000 },
  async () => {
    const namespace = await freshNamespace("values-from");
    const lab = hookLab("values-from");
    module(lab, "010-web", "valuesFrom: [{kind: Secret, name: sizes, key: size, path: /size}]");
    module(lab, "020-other");
    lab.hook(
      "modules/010-web/hooks/look.sh",
      { configVersion: "v1", beforeHelm: 1 },
      'jq -r .web.size "$VALUES_PATH"; jq -c .web "$CONFIG_VALUES_PATH" >"$RECORDS/config"',
    );
    const operator = await startOperator({ namespace, modulesDir: lab.modulesDir });
    const stateOf = async (name: string) => (await of(namespace, name)).status?.state;
    await eventually(async () => (await stateOf("other")) === "Ready", "the other one is Ready");
    expect(await condition(namespace, "web", "Ready")).toMatch(
      new RegExp(
        `^Unknown ValuesMissing: waits for Secret ${namespace}/sizes, which does not exist \\(since `,
      ),
    );

    await apply(secret(namespace, "first-4711"));
    await eventually(async () => (await sizeOf(namespace)) === "first-4711", "the value is in the object");
    await apply(secret(namespace, "second-4711"));
    await eventually(async () => (await sizeOf(namespace)) === "second-4711", "so is the new one");
    await eventually(async () => (await stateOf("web")) === "Ready", "it is Ready");

    await kubectl(["delete", "secret", "sizes", "-n", namespace]);
    const deleted = `Secret ${namespace}/sizes: `;
    const kept =
      ": the Secret does not exist (put it back, or remove it from valuesFrom of module web); its last good content stays in force";
    await eventually(async () => {
      const message = await condition(namespace, "web", "Ready");
      return message.includes(deleted) && message.endsWith(kept);
    }, "it reports the deletion");
    expect(await sizeOf(namespace)).toBe("second-4711");

    const shown = [
      await kubectl(["get", "addonmodules,addonoperators,events", "-n", namespace, "-o", "json"]),
      operator.log(),
    ].join("\n");
    expect(shown).not.toMatch(/(?:first|second)-4711/);
    expect(shown).toContain("look.sh");
  },
);
