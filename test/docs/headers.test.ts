import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";

const src = join(import.meta.dirname, "../../src");
/** A door only re-exports, in each room the same. */
const files = globSync("**/*.ts", { cwd: src, exclude: ["**/index.ts"] });

test("each file of src begins with a sentence that says what it is for", () => {
  expect(files.length).toBeGreaterThan(200);
  const silent = files.filter((path) => {
    const [comment = ""] = /^\/\*\*[^]*?\*\//.exec(readFileSync(join(src, path), "utf8")) ?? [];
    return !/^\/\*\*\s+(?:\* )?[A-Z`][^]*\s[^]*[.…]/.test(comment);
  });
  expect(silent).toEqual([]);
});
