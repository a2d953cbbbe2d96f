import { mkdirSync, truncateSync } from "node:fs";
import { expect, test } from "vitest";

import { hashModuleFiles } from "../../../src/modules/index.ts";
import { directories } from "../module-directories.ts";

test("the content of modules is that of all their files, whatever their time stamps", async () => {
  const on = await directories();
  await on.put("m/a/templates/map.yaml", "a: 1\n");
  const { modules } = await on.read();
  const before = hashModuleFiles(modules);
  await on.put("m/a/templates/map.yaml", "a: 1\n");
  expect(hashModuleFiles(modules)).toBe(before);
  const paths = [
    "templates/map.yaml",
    "values.yaml",
    "hooks/h.sh",
    "hooks/lib/l.sh",
    "docs/d",
    "crds/c.yaml",
  ];
  for (const path of paths) {
    const last = hashModuleFiles(modules);
    await on.put(`m/a/${path}`, "a: 2\n", 0o755);
    expect(hashModuleFiles(modules)).not.toBe(last);
  }
  const complete = hashModuleFiles(modules);
  for (const path of [".hidden", "values.yaml~", "ignored/x"]) await on.put(`m/a/${path}`, "a: 2\n");
  await on.put("m/a/.helmignore", "ignored/\nhooks/\n");
  const withIgnoreFile = hashModuleFiles(modules);
  await on.put("m/a/ignored/x", "a: 3\n");
  expect([withIgnoreFile === complete, hashModuleFiles(modules)]).toEqual([false, withIgnoreFile]);
  // A file that is too large to read counts with its size and times; the content of the others still counts.
  truncateSync(on.at("m/a/crds/c.yaml"), 20 * 2 ** 30);
  for (const path of ["values.yaml", "crds/c.yaml"]) {
    const last = hashModuleFiles(modules);
    await on.put(`m/a/${path}`, "a: 3\n");
    expect(hashModuleFiles(modules)).not.toBe(last);
  }
  await on.remove("m/a");
  expect(hashModuleFiles(modules)).toMatch(/^[0-9a-f]+$/);
});

test("files that lie too deep do not count, because each access to them takes long", async () => {
  const on = await directories();
  const deepest = `m/a/${"d/".repeat(100)}`;
  mkdirSync(on.at(`${deepest}d`), { recursive: true });
  const { modules } = await on.read();
  const before = hashModuleFiles(modules);
  await on.put(`${deepest}d/x`);
  expect(hashModuleFiles(modules)).toBe(before);
  await on.put(`${deepest}x`);
  expect(hashModuleFiles(modules)).not.toBe(before);
});
