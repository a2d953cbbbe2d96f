import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { afterAll, beforeAll, expect, it } from "vitest";

import { eventually } from "../../../scripts/eventually.mjs";
import { Helm } from "../../../src/helm/binary/helm.ts";
import { silentLogger, systemClock } from "../../../src/base/index.ts";
import { Children, findOrphanedProcesses } from "../../../src/base/process/index.ts";

let dir = "";

beforeAll(() => {
  dir = mkdtempSync(join(tmpdir(), "helm-ended-"));
});
afterAll(() => rmSync(dir, { recursive: true, force: true }));

/** Of an operator that is called as all others here, but works with that API server. */
function helmOf(server: string, script: string): Helm {
  const bin = join(dir, `helm-${server}`);
  writeFileSync(bin, `#!/bin/sh\n${script}\n`, { mode: 0o755 });
  return new Helm({
    children: new Children(),
    bin,
    server,
    namespace: "n",
    managedBy: `v1-${process.pid}`,
    timeoutMs: 60_000,
    historyMax: 1,
    validate: false,
    tmpDir: dir,
    env: { PATH: process.env["PATH"] ?? "" },
    logger: silentLogger,
    clock: systemClock,
  });
}

const release = { release: "web", signal: new AbortController().signal };

/** What became of a helm that runs until it is ended. */
async function hanging(helm: Helm, server: string, signal = release.signal): Promise<{ reported?: string }> {
  const seen: { reported?: string } = {};
  void helm.uninstall({ ...release, signal }).catch((error: Error) => void (seen.reported = error.message));
  const isIts = (each: readonly string[]): boolean =>
    each.includes(`ADDON_OPERATOR_HELM_SERVER=${server}`) &&
    each.some((variable) => variable.includes(`v1-${process.pid}/web`));
  await eventually(async () => (await findOrphanedProcesses(isIts)).length > 0, "helm at work");
  return seen;
}

it.runIf(process.platform === "linux")(
  "what an operator of another cluster does is no left-over of this one, whose own is ended",
  async () => {
    const [here, there] = [helmOf("here", "exec sleep 60"), helmOf("there", "exec sleep 60")];
    const seen = await hanging(there, "there");
    await here.endOrphanedProcesses();
    expect(seen.reported).toBeUndefined();
    await there.endOrphanedProcesses();
    await eventually(() => {
      expect(seen.reported).toBe(
        "helm uninstall web: ended by SIGTERM; a signal that is not this operator's ended it",
      );
    }, "helm is ended");
  },
);

it("a helm that somebody else ended says so, in its own words first", async () => {
  const script = `echo "Release web has been cancelled."; echo "Error: context canceled" >&2; exit 1`;
  await expect(helmOf("said", script).uninstall(release)).rejects.toThrow(
    "helm uninstall web: context canceled; a signal that is not this operator's ended it",
  );
});

it.runIf(process.platform === "linux")("one that this operator ends says why", async () => {
  const ending = new AbortController();
  const seen = await hanging(helmOf("own", "exec sleep 60"), "own", ending.signal);
  ending.abort(new DOMException("an edit came meanwhile", "AbortError"));
  await eventually(() => {
    expect(seen.reported).toBe("helm uninstall web: cancelled: an edit came meanwhile");
  }, "helm is ended");
});

const NO_MORE = "; the operator's memory limit leaves it no more";

it.each([
  [
    "Go",
    "exit 2",
    "fatal error: runtime: out of memory\n\nruntime stack:\n",
    "exit code 2: fatal error: runtime: out of memory",
  ],
  ["another program", "exit 1", "Out of memory!\n", "exit code 1: Out of memory!"],
])("a helm that gets no more memory says so, in the words of %s", async (_, exit, stderr, words) => {
  await expect(
    helmOf("short", `printf '${stderr.replaceAll("\n", "\\n")}' >&2; ${exit}`).uninstall(release),
  ).rejects.toThrow(new RegExp(`^helm uninstall web: ${words}${NO_MORE}$`));
});

it("an error of the API server about memory is none of helm's memory", async () => {
  const script = `echo "Error: admission webhook denied: Pods are out of memory" >&2; exit 1`;
  await expect(helmOf("other", script).uninstall(release)).rejects.toThrow(/denied: Pods are out of memory$/);
});
