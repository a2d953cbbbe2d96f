import { mkdirSync, renameSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";

import { eventually } from "../support/cluster.ts";
import type { OperatorProcess } from "../support/operator.ts";
import { openScene } from "../support/scene.ts";
import type { PageState } from "../support/scene.ts";

/** A module with one ConfigMap and a hook. */
function module(pageState: PageState, dir: string, says: string): void {
  pageState.file(`${dir}/templates/x.yaml`, template(says));
  pageState.file(`${dir}/hooks/h.sh`, HOOK);
}

const template = (says: string): string =>
  `apiVersion: v1\nkind: ConfigMap\nmetadata: {name: {{ .Release.Name }}-x}\ndata: {says: ${says}}\n`;

const HOOK = `#!/bin/sh
if [ "$1" = --config ]; then echo '{"configVersion": "v1", "beforeHelm": 1}'; exit 0; fi
`;

const saying =
  ({ cluster, namespace }: PageState, module: string) =>
  async (): Promise<unknown> => {
    const get = ["get", "configmap", `${module}-x`, "-n", namespace, "--ignore-not-found"];
    const { data } = await cluster.json<{ data?: { says?: string } }>(get).catch(() => ({ data: undefined }));
    return data?.says;
  };

function runsOf(operator: OperatorProcess, module: string): number {
  return operator.lines.filter(
    (line) => /Module run succeeded/.test(line) && line.includes(`module=${module} `),
  ).length;
}

/** Its first run has ended, which is a moment after its object is there. */
const hasRun = (operator: OperatorProcess, module: string) =>
  eventually(() => expect(runsOf(operator, module)).toBe(1), `the first run of ${module}`);

async function switchOn({ cluster, namespace }: PageState): Promise<void> {
  const flags = ["a", "b", "c"].map((name) => `--from-literal=${name}Enabled=true`);
  await cluster.kubectl(["create", "configmap", "addon-operator", "-n", namespace, ...flags]);
}

test("--watch-dirs: a template, values, a new module, and one that goes take effect by themselves", async () => {
  const pageState = await openScene("watch-dirs");
  for (const name of ["a", "b"]) module(pageState, `modules/${name}`, "one");
  await switchOn(pageState);
  const operator = await pageState.start({ args: ["--watch-dirs"] });
  await hasRun(operator, "b");
  pageState.file("modules/a/templates/x.yaml", template("two"));
  await eventually(async () => expect(await saying(pageState, "a")()).toBe("two"), "the template counts");
  expect(runsOf(operator, "b")).toBe(1);
  module(pageState, "modules/c", "new");
  await eventually(async () => expect(await saying(pageState, "c")()).toBe("new"), "the new module runs");
  pageState.remove("modules/c");
  await eventually(async () => expect(await saying(pageState, "c")()).toBe(undefined), "it is purged");
  expect(operator.log()).toMatch(/second check/);
});

/** What git-sync does: another directory, then its link leads there. */
const committer =
  (pageState: PageState) =>
  (name: string, says: Record<string, string>): void => {
    for (const [each, text] of Object.entries(says)) module(pageState, `git/${name}/modules/${each}`, text);
    mkdirSync(join(pageState.dir, "git", name, "global-hooks"));
    symlinkSync(name, join(pageState.dir, "git/next"));
    renameSync(join(pageState.dir, "git/next"), join(pageState.dir, "git/current"));
  };

const startAtLink = (pageState: PageState): Promise<OperatorProcess> =>
  pageState.start({
    args: ["--watch-dirs"],
    modulesDir: join(pageState.dir, "git/current/modules"),
    globalHooksDir: join(pageState.dir, "git/current/global-hooks"),
  });

test("--watch-dirs: a link that is swapped while helm runs does not change what helm reads", async () => {
  const pageState = await openScene("watch-swap");
  const commit = committer(pageState);
  commit("c1", { a: "one" });
  await switchOn(pageState);
  const operator = await startAtLink(pageState);
  await hasRun(operator, "a");
  const [before, after] = [pageState.close("before-upgrade a"), pageState.close("after-upgrade a")];
  commit("c2", { a: "two" });
  await before.reached();
  commit("c3", { a: "three" });
  pageState.remove("git/c2");
  before.open();
  await after.reached();
  expect(await saying(pageState, "a")()).toBe("two");
  after.open();
  await eventually(async () => expect(await saying(pageState, "a")()).toBe("three"), "the next commit");
});

test("--watch-dirs: git-sync's link leads to another commit, which removes the last one", async () => {
  const pageState = await openScene("watch-link");
  const commit = committer(pageState);
  commit("c1", { a: "one", b: "one" });
  await switchOn(pageState);
  const operator = await startAtLink(pageState);
  await hasRun(operator, "b");
  for (const [index, says] of ["two", "three", "four"].entries()) {
    commit(`c${index + 2}`, { a: says, b: "one" });
    pageState.remove(`git/c${index + 1}`);
    await eventually(async () => expect(await saying(pageState, "a")()).toBe(says), `commit ${index + 2}`);
  }
  expect(runsOf(operator, "b")).toBe(1);
});
