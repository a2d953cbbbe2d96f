// The end of the output of `npm test` names what failed: often no more than the end is kept.
import { join } from "node:path";
import { expect, test } from "vitest";
import { failuresOf, failuresText } from "../../scripts/test/vitest.mjs";
import { root } from "../../scripts/setup/versions.mjs";

const name = join(root, "test", "some.test.ts");

test("a failed test is named with its file and the beginning of its error", () => {
  const failures = failuresOf({
    name,
    status: "failed",
    message: "",
    assertionResults: [
      { status: "passed", fullName: "a good one", failureMessages: [] },
      {
        status: "failed",
        fullName: "a bad one",
        failureMessages: [`${"x".repeat(1000)}\n${"line\n".repeat(500)}`],
      },
    ],
  });
  const text = failuresText(failures);
  expect(text).toMatch(/^FAILED: test\/some\.test\.ts > a bad one\n {4}x+\n {4}line\n/);
  expect(text).not.toContain("a good one");
  expect(text.length).toBeLessThan(1000);
});

test("a file that broke before its tests is one failure", () => {
  const failures = failuresOf({ name, status: "failed", message: "no such module", assertionResults: [] });
  expect(failuresText(failures)).toBe("FAILED: test/some.test.ts\n    no such module");
});
