import { expect, it } from "vitest";

import { HelmError } from "../../src/helm/index.ts";
import { oneLine } from "../../src/lib/index.ts";

const failed = (stderr: string): HelmError =>
  new HelmError("upgrade web", {
    outcome: "failed",
    message: "exit code 1",
    stdout: "",
    stderr,
  } as HelmError["result"]);

it("a long error of nested templates keeps where it was, and what is wrong", () => {
  const step = (depth: number): string =>
    `web/templates/_helpers.tpl:${depth}:33\n  executing "web.store" at <include "web.store${depth}" (list $ "default")>:\n    error calling include:\n`;
  const chain = Array.from({ length: 9 }, (_, depth) => step(depth)).join("");
  const { message } = failed(`Error: web/templates/secret.yaml:1:25\n${chain}  set web.password\n`);
  // As the status and the log cut it.
  expect(oneLine(message)).toMatch(
    /^helm upgrade web: web\/templates\/secret\.yaml:1:25 .* … .* set web\.password$/,
  );
});

it("a short one is told as it is", () => {
  expect(failed("WARNING: x\nError: set web.password\n").message).toBe("helm upgrade web: set web.password");
});
