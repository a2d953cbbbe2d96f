import { readFileSync } from "node:fs";

import { describe, expect, test } from "vitest";

const read = (path: string): string => readFileSync(new URL(`../../${path}`, import.meta.url), "utf8");
const page = read("docs/INSTALL.md");
/** The last stage is the image; lines that go on are one. */
const [image = ""] = read("Dockerfile")
  .replaceAll("\\\n", "")
  .split(/^FROM /m)
  .slice(-1);

describe("the image", () => {
  test("has what docs/INSTALL.md tells, and what it asks for by a build argument", () => {
    const [, told = ""] = /It has (.*?), runs as user 1000/.exec(page) ?? [];
    const [, packages = ""] = /apt-get install (.*?)&&/.exec(image) ?? [];
    const tools = read("scripts/setup/image-tools.mjs");
    const there = (tool: string): boolean =>
      packages.split(/\s+/).includes(tool) || tools.includes(`"${tool}"`) || image.includes(` ${tool}\n`);
    const names = told.replaceAll("`", "").split(/, | and /);
    expect(names.length).toBeGreaterThan(5);
    expect(names.filter((name) => !there(name))).toEqual([]);
    expect(packages).toContain("${EXTRA_PACKAGES}");
  });

  test("runs `start` as user 1000, with the shell library in its place and little memory", () => {
    expect(image).toMatch(/^USER 1000:1000$/m);
    expect(image).toMatch(/^CMD \["start"\]$/m);
    expect(image).toMatch(/^ENTRYPOINT .*addon-operator\/main\.js"\]$/m);
    expect(image).toContain("SHELL_LIB_PATH=/shell_lib.sh");
    expect(image).toMatch(/^ENV MALLOC_ARENA_MAX=1 MALLOC_TRIM_THRESHOLD_=/m);
    expect(image).toMatch(/^ENV HOME=\/tmp /m);
  });
});

test("the example of an image is examples/image", () => {
  const instructions = (text: string): string[] =>
    text.split("\n").filter((line) => /^(FROM|COPY|ARG) /.test(line));
  const [, told = ""] = /```dockerfile\n([^]*?)```/.exec(page) ?? [];
  const [, base = ""] = /^ARG OPERATOR=(.+)$/m.exec(read("examples/image/Dockerfile")) ?? [];
  const example = read("examples/image/Dockerfile").replace("${OPERATOR}", base);
  expect(instructions(told)).toEqual(instructions(example).filter((line) => !line.startsWith("ARG")));
});
