import { readFileSync, readdirSync } from "node:fs";
import { describe, expect, test } from "vitest";

import { parseYaml } from "../../src/lib/index.ts";

const root = new URL("../../", import.meta.url);
const text = (path: string): string => readFileSync(new URL(path, root), "utf8");
const { scripts } = JSON.parse(text("package.json")) as { scripts: Record<string, string> };

interface Workflow {
  readonly on: object;
  readonly permissions: Record<string, string>;
  readonly jobs: Record<
    string,
    { readonly steps: readonly { readonly uses?: string; readonly run?: string }[] }
  >;
}

const files = readdirSync(new URL(".github/workflows/", root));

test("there are the two of them", () => {
  expect(files.toSorted()).toEqual(["ci.yaml", "release.yaml"]);
});

describe.each(files)("%s", (file) => {
  const workflow = parseYaml(text(`.github/workflows/${file}`), file).value as unknown as Workflow;
  const steps = Object.values(workflow.jobs).flatMap((job) => job.steps);
  const commands = steps.flatMap(({ run }) => run ?? []).join("\n");

  test("calls only scripts of package.json", () => {
    const called = [...commands.matchAll(/npm run ([\w:-]+)/g)].map(([, name = ""]) => name);
    expect(called.length).toBeGreaterThan(0);
    expect(called.filter((name) => !Object.hasOwn(scripts, name))).toEqual([]);
  });

  test("names a version of every action, and says what it may do", () => {
    const actions = steps.flatMap(({ uses }) => uses ?? []);
    expect(actions.length).toBeGreaterThan(0);
    expect(actions.filter((action) => !/^[\w-]+\/[\w./-]+@(v\d+|[0-9a-f]{40})$/.test(action))).toEqual([]);
    expect(Object.keys(workflow.permissions).length).toBeGreaterThan(0);
  });

  test("runs nothing of the checkout but those scripts", () => {
    expect(commands).not.toMatch(/\bnode scripts\//);
  });
});

test("build arguments that workflows give are the Dockerfile's", () => {
  const dockerfile = text("Dockerfile");
  const known = new Set([...dockerfile.matchAll(/^ARG (\w+)/gm)].map(([, name]) => name));
  const given = files
    .flatMap((file) => [
      ...text(`.github/workflows/${file}`).matchAll(/--build-arg (\w+)=|^ {12}([A-Z]+)=/gm),
    ])
    .map(([, first, second]) => first ?? second ?? "");
  expect(new Set(given)).toEqual(new Set(["BUNDLE", "TOOLS", "VERSION", "REVISION"]));
  expect(given.filter((name) => !known.has(name))).toEqual([]);
});
