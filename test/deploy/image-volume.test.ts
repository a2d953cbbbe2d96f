import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { describe, expect, it, onTestFinished } from "vitest";

import { locate } from "../../scripts/setup/tools.mjs";
import { parseYaml } from "../../src/base/index.ts";
import type { JsonObject } from "../../src/base/model/index.ts";
import { objectsOf, render } from "../charts/matrix.ts";

interface Container {
  readonly image: string;
  readonly command: readonly string[];
  readonly env: readonly { readonly name: string; readonly value?: string }[];
  readonly volumeMounts: readonly { name: string; mountPath: string; readOnly?: boolean }[];
}
interface Pod {
  readonly containers: readonly Container[];
  readonly initContainers: readonly Container[];
  readonly volumes: readonly { readonly name: string; readonly image?: { readonly reference: string } }[];
}

const without = locate().missing.some((tool) => tool === "helm");
const file = new URL("../../deploy/image-volume/values.yaml", import.meta.url);
const values = parseYaml(readFileSync(file, "utf8"), "values.yaml").value as JsonObject;

function rendered(): Pod {
  const deployment = objectsOf(render("helm", values)).find(({ kind }) => kind === "Deployment");
  return (deployment as unknown as { spec: { template: { spec: Pod } } }).spec.template.spec;
}

describe.skipIf(without)("deploy/image-volume (needs helm from `npm run setup`)", () => {
  it("gives the operator the copies of all images, to be read", () => {
    const { containers, initContainers, volumes } = rendered();
    const [operator] = containers;
    const [copy] = initContainers;
    const dir = operator?.env.find(({ name }) => name === "MODULES_DIR")?.value;
    const mount = operator?.volumeMounts.find(({ mountPath }) => mountPath === dir);
    expect(mount).toEqual({ name: "modules", mountPath: dir, readOnly: true });
    expect(copy?.command.at(-1)).toBe(`${dir}/`);
    const images = volumes.flatMap(({ name, image }) => (image === undefined ? [] : [name]));
    expect(images).not.toEqual([]);
    const source = copy?.command.at(-2)?.replace(/\.$/, "") ?? "";
    for (const name of images)
      expect(copy?.volumeMounts.find((each) => each.name === name)?.mountPath.startsWith(source)).toBe(true);
    expect(copy?.volumeMounts.find(({ name }) => name === mount?.name)?.mountPath).toBe(dir);
  });

  it("copies with the image of the operator, and hooks can be executed", () => {
    const { containers, initContainers } = rendered();
    const [copy] = initContainers;
    expect(copy?.image).toBe(containers[0]?.image);
    const root = mkdtempSync(join(tmpdir(), "image-volume-"));
    onTestFinished(() => rmSync(root, { recursive: true, force: true }));
    const hooks = join(root, "images/010-web/hooks");
    for (const dir of [hooks, join(root, "fetched/modules")]) mkdirSync(dir, { recursive: true });
    writeFileSync(join(hooks, "start.sh"), "#!/bin/sh\n", { mode: 0o755 });
    const [program = "", ...words] = copy?.command ?? [];
    execFileSync(
      program,
      words.map((word) => (word.startsWith("/") ? `${root}${word}` : word)),
    );
    expect(statSync(join(root, "fetched/modules/010-web/hooks/start.sh")).mode & 0o777).toBe(0o755);
  });
});
