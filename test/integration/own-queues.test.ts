// Runs at night: restarts, in queues that test/scenarios/own-queues.test.ts checks.
import { writeFileSync } from "node:fs";
import { join } from "node:path";

import { expect, test } from "vitest";

import { cluster, eventually, freshNamespace } from "../support/cluster.ts";
import { hookLab } from "../support/hook-files.ts";
import { startOperator } from "../support/operator.ts";
import { condition, module, of } from "../support/requiring.ts";

// docs/reference/lifecycle.md, "A queue for each module".

const { kubectl, json } = cluster();
const OWN = { ADDON_OPERATOR_MODULE_QUEUES: "own" };
const HOOK = { configVersion: "v1", beforeHelm: 1 };

const stateOf = async (namespace: string, name: string): Promise<string | undefined> =>
  (await of(namespace, name)).status?.state;

async function releases(namespace: string): Promise<string[]> {
  interface Secrets {
    readonly items: readonly { readonly metadata: { readonly name: string } }[];
  }
  const { items } = await json<Secrets>(["get", "secrets", "-n", namespace, "-l", "owner=helm"]);
  return items.map(({ metadata }) => metadata.name.replace("sh.helm.release.v1.", "")).toSorted();
}

test(
  "the others arrive around a module that fails, side by side; only those that require it wait",
  { timeout: 240_000 },
  async () => {
    const namespace = await freshNamespace("own");
    const lab = hookLab("own");
    const names = ["one", "two", "three"];
    module(lab, "010-broken");
    module(lab, "010-scripted");
    const script = join(lab.modulesDir, "010-scripted", "enabled");
    writeFileSync(script, "#!/bin/sh\necho True\n", { mode: 0o755 });
    module(lab, "020-user", 'requires: {modules: {broken: "*"}}');
    for (const name of names) module(lab, `020-${name}`);
    lab.hook("modules/010-broken/hooks/fail.sh", HOOK, '[ -e "$RECORDS/go-mended" ]');
    // Each waits until all of them have begun.
    for (const name of names) {
      const all = names.map((each) => `-e "$RECORDS/meet-${each}"`).join(" -a ");
      lab.hook(
        `modules/020-${name}/hooks/meet-${name}.sh`,
        HOOK,
        `touch "$RECORDS/meet-${name}"; wait_until [ ${all} ]`,
      );
    }
    lab.hook("global-hooks/after.sh", { configVersion: "v1", afterAll: 1 });
    await kubectl(["create", "configmap", "addon-operator", "-n", namespace]);
    const operator = await startOperator({
      namespace,
      modulesDir: lab.modulesDir,
      globalHooksDir: lab.globalHooksDir,
      env: { ...OWN, RETRY_DELAY_MIN: "5s", RETRY_DELAY_MAX: "5s" },
    });
    for (const name of names)
      await eventually(async () => (await stateOf(namespace, name)) === "Ready", `${name} is Ready`, {
        context: () => operator.log(),
      });
    await eventually(() => lab.runs("after").length === 1, "afterAll ran");
    // Now and then it runs.
    await eventually(async () => (await stateOf(namespace, "broken")) === "Retrying", "broken is Retrying");
    expect(await condition(namespace, "user", "Ready")).toMatch(
      /^Unknown DependencyNotReady: waits for broken/,
    );
    expect((await operator.cli(["queue", "list"])).stdout).toMatch(
      /Queue 'module\/broken': length 1, status: '(sleep after fail|repeat head task)/,
    );

    expect(await condition(namespace, "scripted", "Ready")).toMatch(
      /^False ScriptFailed: .*010-scripted\/enabled: the enabled script failed: it answered "True"/,
    );

    lab.release("mended");
    writeFileSync(script, "#!/bin/sh\necho true\n");
    for (const name of ["broken", "user", "scripted"])
      await eventually(async () => (await stateOf(namespace, name)) === "Ready", `${name} is Ready`);
    expect(await releases(namespace)).toEqual(
      ["broken", "one", "scripted", "three", "two", "user"].map((name) => `${name}.v1`),
    );
  },
);

test(
  "killed with ten runs under way, nothing is lost and no helm runs twice",
  { timeout: 180_000 },
  async () => {
    const namespace = await freshNamespace("own-kill");
    const lab = hookLab("own-kill");
    const names = Array.from({ length: 10 }, (_, index) => `m${index}`);
    for (const [index, name] of names.entries()) {
      module(lab, `010-${name}`);
      // Half of them are stopped before helm, half of them after it.
      const config = { configVersion: "v1", [index % 2 === 0 ? "beforeHelm" : "afterHelm"]: 1 };
      lab.hook(`modules/010-${name}/hooks/wait-${name}.sh`, config, "wait_for all");
    }
    await kubectl(["create", "configmap", "addon-operator", "-n", namespace]);
    const options = { namespace, modulesDir: lab.modulesDir, env: OWN };
    const runs = (): number[] => names.map((name) => lab.runs(`wait-${name}`).length);
    const first = await startOperator({ ...options, killed: true });
    await eventually(() => runs().every((count) => count === 1), "all ten are under way", {
      timeoutMs: 60_000,
      context: () => first.log(),
    });
    await first.kill9();
    const second = await startOperator(options);
    await eventually(() => runs().every((count) => count === 2), "all ten are under way again", {
      timeoutMs: 90_000,
      context: () => second.log(),
    });
    lab.release("all");
    await second.waitReady();
    for (const name of names)
      await eventually(async () => (await stateOf(namespace, name)) === "Ready", `${name} is Ready`);
    expect(await releases(namespace)).toEqual(names.map((name) => `${name}.v1`));
    expect(runs()).toEqual(names.map(() => 2));
  },
);
