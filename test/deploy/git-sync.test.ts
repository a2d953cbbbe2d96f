import { readFileSync } from "node:fs";

import { describe, expect, it } from "vitest";

import { locate } from "../../scripts/setup/tools.mjs";
import { parseYaml } from "../../src/base/index.ts";
import type { JsonObject } from "../../src/base/model/index.ts";
import { objectsOf, render } from "../charts/matrix.ts";

interface Container {
  readonly name: string;
  readonly env: readonly { readonly name: string; readonly value?: string }[];
  readonly volumeMounts: readonly { name: string; mountPath: string; readOnly?: boolean }[];
}
interface Pod {
  readonly containers: readonly Container[];
  readonly initContainers: readonly Container[];
}

const without = locate().missing.some((tool) => tool === "helm");
const file = new URL("../../deploy/git-sync/values.yaml", import.meta.url);
const values = parseYaml(readFileSync(file, "utf8"), "values.yaml").value as JsonObject;

describe.skipIf(without)("deploy/git-sync (needs helm from `npm run setup`)", () => {
  it("gives the operator what git-sync's link leads to, to be read and watched", () => {
    const deployment = objectsOf(render("helm", values)).find(({ kind }) => kind === "Deployment");
    const { containers, initContainers } = (deployment as unknown as { spec: { template: { spec: Pod } } })
      .spec.template.spec;
    const [operator, gitSync] = containers;
    const variable = (container: Container | undefined, name: string): string | undefined =>
      container?.env.find((each) => each.name === name)?.value;
    const link = `${variable(gitSync, "GITSYNC_ROOT")}/${variable(gitSync, "GITSYNC_LINK")}`;
    expect(variable(operator, "MODULES_DIR")).toBe(`${link}/modules`);
    expect(variable(operator, "GLOBAL_HOOKS_DIR")).toBe(`${link}/global-hooks`);
    expect(variable(operator, "WATCH_DIRS")).toBe("true");
    expect(initContainers[0]?.env).toEqual(gitSync?.env);
    const mounts = [operator, gitSync].map((each) => each?.volumeMounts.find(({ name }) => name === "git"));
    expect(mounts).toEqual([
      { name: "git", mountPath: "/git", readOnly: true },
      { name: "git", mountPath: "/git" },
    ]);
  });
});
