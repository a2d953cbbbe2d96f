import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { offered } from "../../scripts/demo/ask.mjs";

let dir = "";
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), "demo-test-"));
  mkdirSync(join(dir, ".kube"));
  writeFileSync(join(dir, ".kube", "config"), "");
});
afterEach(() => rmSync(dir, { recursive: true }));

/** What is asked, and what comes of it, with a kubectl that says this is the current context. */
async function offer(context: string, { answers = true, agrees = true } = {}) {
  const script = `#!/bin/sh\ncase "$*" in *readyz*) exit ${answers ? 0 : 1} ;; *) echo ${context} ;; esac\n`;
  writeFileSync(join(dir, "kubectl"), script, { mode: 0o755 });
  const requested: string[] = [];
  const file = await offered({ PATH: dir, HOME: dir }, async (question) => {
    requested.push(question);
    return agrees;
  });
  return { requested, file };
}

describe("the demo offers the current cluster", () => {
  test.each(["kind-kind", "k3d-dev"])("when it is %s and answers", async (context) => {
    const requested = [expect.stringContaining(`${context} is running`)];
    expect(await offer(context)).toEqual({ requested, file: join(dir, ".kube", "config") });
    expect(await offer(context, { agrees: false })).toEqual({ requested, file: undefined });
  });

  test("not when it is another one, does not answer, or there is none", async () => {
    const not = { requested: [], file: undefined };
    expect(await offer("production")).toEqual(not);
    expect(await offer("kind-kind", { answers: false })).toEqual(not);
    rmSync(join(dir, ".kube"), { recursive: true });
    expect(await offer("kind-kind")).toEqual(not);
  });
});
