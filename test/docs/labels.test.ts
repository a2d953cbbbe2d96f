import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";

const root = join(import.meta.dirname, "../..");
const KEY = /"((?:[a-z]+\.)?addon-operator\.io\/[A-Za-z-]+|helm\.sh\/resource-policy)"/g;
/** No keys of objects: the version of the API, and who reports Events. */
const OTHERS = new Set(["addon-operator.io/v", "addon-operator.io/addon-operator"]);

test("docs/reference/status.md lists every label and annotation that the program knows, and no other", () => {
  const source = globSync("src/**/*.ts", { cwd: root })
    .map((path) => readFileSync(join(root, path), "utf8"))
    .join("\n");
  const known = new Set([...source.matchAll(KEY)].map(([, key = ""]) => key));
  const page = readFileSync(join(root, "docs/reference/status.md"), "utf8");
  const listed = [...page.matchAll(/^\| `([^`]+\/[^`]+)` \|/gm)].map(([, key = ""]) => key);
  expect(listed.toSorted()).toEqual([...known].filter((key) => !OTHERS.has(key)).toSorted());
});
