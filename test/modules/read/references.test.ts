import { mkdir, mkdtemp, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";

import { ProblemError } from "../../../src/base/model/index.ts";
import type { Json, Tree } from "../../../src/base/model/index.ts";
import { ChartArchives, readTree } from "../../../src/modules/index.ts";
import { compileSchemas } from "../../../src/values/index.ts";
import { ManualClock } from "../../support/clock.ts";

let root: string;
/** Far in the future of the files, so that their stamps count as settled. */
const clock = new ManualClock(Date.now() + 86_400_000);

beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), "references-test-"));
});
afterEach(() => rm(root, { recursive: true, force: true }));

async function put(rel: string, text: string): Promise<void> {
  await mkdir(dirname(join(root, rel)), { recursive: true });
  await writeFile(join(root, rel), text);
}

const read = (previous?: Tree, schemaDirs: readonly string[] = []): Promise<Tree> =>
  readTree({
    modulesDirs: [join(root, "m")],
    globalHooksDir: undefined,
    unnumberedOrder: 1,
    strict: false,
    schemaDirs,
    previous,
    archives: new ChartArchives(join(root, "tmp")),
    clock,
  });

/** What the schema of the one module finds wrong with `value`, or what is wrong with the schema. */
function judge({ modules }: Tree, value: Json): string[] {
  try {
    const schemas = compileSchemas(modules[0]?.schemas ?? {});
    return schemas.validateConfig(value).map(({ path, rule }) => `${path} ${rule}`);
  } catch (error) {
    if (error instanceof ProblemError) return error.problems.map(({ key, message }) => `${key}: ${message}`);
    throw error;
  }
}

const SCHEMA = "m/a/openapi/config-values.yaml";

test("a schema refers to files of its module, also from there and in a circle", async () => {
  await put(SCHEMA, "properties: {a: {$ref: 'defs.yaml#/x'}, t: {$ref: '../lib/tree.yaml'}}\n");
  await put("m/a/openapi/defs.yaml", "x: {$ref: '#/w/0'}\nw: [{type: integer}]\n");
  await put("m/a/lib/tree.yaml", "properties: {v: {$ref: '../openapi/defs.yaml#/x'}, t: {$ref: '#'}}\n");
  const tree = await read();
  expect(judge(tree, { a: 1, t: { v: 1, t: { t: {} } } })).toEqual([]);
  expect(judge(tree, { a: "x", t: { t: { v: "x", z: 1 } } })).toEqual([
    "/a type",
    "/t/t/z additionalProperties",
    "/t/t/v type",
  ]);
});

test("an absolute path counts, and both schemas may refer to the same", async () => {
  const defs = join(root, "m/a/defs.yaml");
  await put("m/a/defs.yaml", "x: {type: integer}\nz: {type: string}\n");
  await put(SCHEMA, `properties: {a: {$ref: '${defs}#/x'}}\n`);
  await put(
    "m/a/openapi/values.yaml",
    `{x-extend: {schema: config-values.yaml}, properties: {b: {$ref: '${defs}#/z'}}}\n`,
  );
  const schemas = compileSchemas((await read()).modules[0]?.schemas ?? {});
  const found = schemas.validateValues({ a: "x", b: 1 });
  expect(found.map(({ path, rule }) => `${path} ${rule}`)).toEqual(["/a type", "/b type"]);
});

test("a change of the other file is noticed, also that it comes and goes", async () => {
  await put(SCHEMA, "properties: {a: {$ref: '../defs.yaml#/x'}}\n");
  const missing = await read();
  const message = `/properties/a: $ref to ${join(root, "m/a/defs.yaml")}: there is no such file`;
  expect(judge(missing, {})).toEqual([message]);
  await put("m/a/defs.yaml", "x: {type: integer}\n");
  const first = await read(missing);
  expect(judge(first, { a: "x" })).toEqual(["/a type"]);
  const same = await read(first);
  expect(same.modules[0]).toBe(first.modules[0]);
  await put("m/a/defs.yaml", "x: {type: string}\n");
  const second = await read(same);
  expect(judge(second, { a: "x" })).toEqual([]);
  await rm(join(root, "m/a/defs.yaml"));
  expect(judge(await read(second), {})).toEqual([message]);
});

test("no path and no link leads out of the module, and no fragment to nothing", async () => {
  await put("secret.yaml", "x: {type: integer}\n");
  await put("m/a/defs.yaml", "w: 1\n");
  await put("m/a/broken.yaml", "w: [\n");
  await put("m/a/large.yaml", "# ".repeat(600_000));
  await symlink(join(root, "secret.yaml"), join(root, "m/a/link.yaml"));
  const refs = {
    "../../../secret.yaml#/x": "it lies outside of the directory of the module (see --schema-dirs)",
    "../link.yaml#/x": "it lies outside of the directory of the module (see --schema-dirs)",
    "../large.yaml#/x": "it is larger than 1 MiB",
    "../defs.yaml#/none": "points to nothing",
    "../defs.yaml#/w": "points to nothing",
    "../broken.yaml#/w": "not valid YAML",
  };
  for (const [ref, wanted] of Object.entries(refs)) {
    await put(SCHEMA, `properties: {a: {$ref: '${ref}'}}\n`);
    expect(judge(await read(), {})).toEqual([expect.stringContaining(wanted)]);
  }
});

test("a schema refers to files outside of its module where --schema-dirs allows it, and no further", async () => {
  await put(SCHEMA, "properties: {a: {$ref: '../../../shared/defs.yaml#/x'}}\n");
  await put("shared/defs.yaml", "x: {type: integer}\n");
  await put("shared-not/defs.yaml", "x: {type: integer}\n");
  const allowed = [join(root, "shared"), join(root, "missing")];
  expect(judge(await read(), { a: "x" }).join()).toContain("(see --schema-dirs)");
  expect(judge(await read(undefined, allowed), { a: "x" })).toEqual(["/a type"]);
  await put(SCHEMA, "properties: {a: {$ref: '../../../shared-not/defs.yaml#/x'}}\n");
  expect(judge(await read(undefined, allowed), { a: "x" }).join()).toContain("lies outside");
});
