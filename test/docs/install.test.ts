import { readFileSync, readdirSync } from "node:fs";

import { describe, expect, test } from "vitest";

const read = (path: string): string => readFileSync(new URL(`../../${path}`, import.meta.url), "utf8");
const page = read("docs/get-started/install.md");
/** By their names; lines that go on are one. */
const stages = new Map(
  read("Dockerfile")
    .replaceAll("\\\n", "")
    .split(/^FROM /m)
    .slice(1)
    .map((stage) => [/^.* AS (\S+)$/m.exec(stage.split("\n", 1)[0] ?? "")?.[1] ?? "", stage]),
);
const image = stages.get("operator") ?? "";

describe("the image", () => {
  test("has what docs/get-started/install.md says, and what it asks for by a build argument", () => {
    const [, reported = ""] =
      /The base image contains (.*?)\. By default, its containers run as user 1000/.exec(page) ?? [];
    const [, packages = ""] = /packages="(.*?)"/.exec(image) ?? [];
    const tools = read("scripts/setup/image-tools.mjs");
    const there = (tool: string): boolean =>
      packages.split(/\s+/).includes(tool) || tools.includes(`"${tool}"`) || image.includes(` ${tool}\n`);
    const names = reported.replaceAll("`", "").split(/, and |, /);
    expect(names.length).toBeGreaterThan(5);
    expect(names.filter((name) => !there(name))).toEqual([]);
    expect(packages).toContain("${EXTRA_PACKAGES}");
  });

  test("runs `start` as user 1000, with the shell library in its place and little memory", () => {
    expect(image).toMatch(/^USER 1000:1000$/m);
    expect(image).toMatch(/^CMD \["start"\]$/m);
    expect(image).toMatch(/^ENTRYPOINT .*"addon-operator"\]$/m);
    expect(image).toContain("SHELL_LIB_PATH=/shell_lib.sh");
    expect(image).toMatch(/^ENV MALLOC_ARENA_MAX=1 MALLOC_TRIM_THRESHOLD_=/m);
    expect(image).toMatch(/^ENV HOME=\/tmp /m);
  });
});

describe("the image for Dockerfiles of the Go operator", () => {
  const variant = stages.get("go-compatible") ?? "";

  test("is the operator's, run by root, with the variables, and the programs by their paths", () => {
    expect(variant).toMatch(/^operator AS go-compatible$/m);
    expect(variant).toMatch(/^USER 0:0$/m);
    expect(variant).toMatch(/^ENV MODULES_DIR=\/modules GLOBAL_HOOKS_DIR=\/global-hooks$/m);
    expect(variant).toContain("ln -s /opt/addon-operator/addon-operator /addon-operator");
    expect(variant).toContain("/sbin/tini");
    expect(image).toContain("ln -s /frameworks /framework");
  });

  test("is built only by its name: what is built without one is the operator's image, without a change", () => {
    expect([...stages.keys()].at(-1)).toBe("");
    expect(stages.get("")).toBe("operator\n");
  });

  test("may stand on Alpine: packages come from the manager that is there", () => {
    expect(image).toMatch(/^\$\{RUNTIME\} AS operator$/m);
    expect(image).toMatch(
      /if command -v apk .*apk add --no-cache \$packages; .*apt-get install .* \$packages; fi/,
    );
  });

  test.runIf(process.platform === "linux")(
    "the bundle has koffi's part for musl beside that for glibc",
    () => {
      const native = new URL(`../../node_modules/@koromix/koffi-linux-${process.arch}/`, import.meta.url);
      expect(readdirSync(native)).toEqual(
        expect.arrayContaining([`linux_${process.arch}`, `musl_${process.arch}`]),
      );
      expect(read("scripts/build.mjs")).toContain("`@koromix/koffi-${process.platform}-${process.arch}`");
    },
  );
});

test("the example of an image is examples/image, on the published image instead of the one of a clone", () => {
  const instructions = (text: string): string[] =>
    text.split("\n").filter((line) => /^(FROM|COPY|ARG) /.test(line));
  const [, reported = ""] = /```dockerfile\n([^]*?)```/.exec(page) ?? [];
  const [, base = ""] = /^ARG OPERATOR=(.+)$/m.exec(read("examples/image/Dockerfile")) ?? [];
  const example = read("examples/image/Dockerfile").replace("${OPERATOR}", `ghcr.io/OWNER/${base}`);
  expect(instructions(reported)).toEqual(instructions(example).filter((line) => !line.startsWith("ARG")));
});

test("examples/image contains the interpreter of each hook of the examples", () => {
  const installed = read("examples/image/Dockerfile").matchAll(/(?:apk add|apt-get install)(.*)/g);
  const lists = [...installed].map(([, packages = ""]) => packages.split(/[\s;]+/));
  const missing = hooksOfExamples().filter(
    ({ interpreter }) => !/^(ba|)sh$/.test(interpreter) && !lists.every((list) => list.includes(interpreter)),
  );
  expect(lists).toHaveLength(2);
  expect(missing).toEqual([]);
});

/** The hooks in `examples/modules` and `examples/global-hooks`, and the program that the first line of each names. */
function hooksOfExamples(): { path: string; interpreter: string }[] {
  return ["modules", "global-hooks"]
    .flatMap((dir) =>
      readdirSync(new URL(`../../examples/${dir}`, import.meta.url), {
        recursive: true,
        encoding: "utf8",
      }).map((path) => `examples/${dir}/${path}`),
    )
    .filter((path) => /\/hooks\/[^/]+\.\w+$/.test(path))
    .map((path) => ({ path, interpreter: /^#!.*[ /](\S+)/.exec(read(path))?.[1] ?? "" }));
}

test("a Dockerfile for the Go operator's image changes in its first line alone (docs/guides/migrating.md)", () => {
  const blocks = [...read("docs/guides/migrating.md").matchAll(/```dockerfile (before|after)\n([^]*?)```/g)];
  const [before = [], after = []] = blocks.map(([, , text = ""]) => text.split("\n"));
  expect(before.length).toBeGreaterThan(5);
  expect(after.slice(1)).toEqual(before.slice(1));
  expect(after[0]).toMatch(/^FROM registry\.example\.com\//);
});
