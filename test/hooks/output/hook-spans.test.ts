import { chmodSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, onTestFinished, test } from "vitest";

import { runHook } from "../../../src/hooks/index.ts";
import { Tracer, getTaskOrigin, span } from "../../../src/base/trace/index.ts";
import type { Span } from "../../../src/base/model/index.ts";
import { Children } from "../../../src/base/process/index.ts";
import { ManualClock } from "../../support/clock.ts";
import { keepLog } from "../../support/logged.ts";
import type { LoggedLine } from "../../support/logged.ts";
import { hookWith, lifecycle } from "../build.ts";

function scratchDir(): string {
  const dir = mkdtempSync(join(tmpdir(), "spans-"));
  onTestFinished(() => rmSync(dir, { recursive: true, force: true }));
  return dir;
}

/** Runs a hook with this script within a span, and returns what lies within that. */
async function within(script: string) {
  const root = scratchDir();
  const path = join(root, "hook");
  writeFileSync(path, `#!/bin/sh\n${script}\n`);
  chmodSync(path, 0o755);
  const lines: LoggedLine[] = [];
  const ended: Span[] = [];
  const tracer = new Tracer({ clock: new ManualClock() });
  tracer.addListener({ onSpanEnded: (each) => ended.push(each) });
  const start = { name: "task", attributes: {}, module: undefined, from: getTaskOrigin(), waitingSince: 0 };
  const settings = {
    env: { PATH: process.env["PATH"] ?? "" },
    children: new Children(),
    workingDir: undefined,
    tmpDir: join(root, "tmp"),
  };
  const run = {
    hook: { ...hookWith("configVersion: v1\nonStartup: 1", "hook"), path, root },
    triggers: [lifecycle("onStartup")],
    context: "[]",
    values: "{}",
    configValues: "{}",
    queue: "main",
    settings: { ...settings, debugKeepTmpFiles: false, logProxyHookJson: false },
    logger: keepLog(lines),
  };
  const result = await tracer.task(start, () => span({ kind: "hook", name: "hook" }, () => runHook(run)));
  const hook = ended.find(({ name }) => name === "hook");
  return { lines, result, spans: ended.filter(({ parentId }) => parentId === hook?.spanId) };
}

const page = readFileSync(join(import.meta.dirname, "../../../docs/reference/metrics.md"), "utf8");

describe("spans that a hook leaves", () => {
  test("become spans within its run, also where it fails", async () => {
    const one = {
      name: "download",
      start: 1700000000,
      end: 1700000001.5,
      attributes: { a: "x", n: 1, b: true, o: {} },
    };
    const two = { name: "unpack", start: 1, end: 1, error: "no\nroom" };
    const { spans, result, lines } = await within(
      `printf '%s' '${JSON.stringify(one)}' >>"$SPANS_PATH"; printf '%s' '${JSON.stringify(two)}' >>"$SPANS_PATH"; exit 3`,
    );
    expect(result.failure).toContain("exit code 3");
    const [first, second] = spans;
    const attributes = { a: "x", n: 1, b: true };
    expect(first).toMatchObject({
      kind: "hook",
      name: "download",
      startMs: 1700000000000,
      endMs: 1700000001500,
    });
    expect(first?.attributes).toEqual(attributes);
    expect(second?.error).toBe("no room");
    expect(lines).toEqual([]);
  });

  test.each([
    ["no JSON", "echo '{\"name\": ' >$SPANS_PATH", "JSON"],
    ["no name", `echo '{"start": 1, "end": 2}' >$SPANS_PATH`, '"name" must be text'],
    [
      "an end before its start",
      `echo '{"name": "a", "start": 2, "end": 1}' >$SPANS_PATH`,
      "seconds since 1970",
    ],
    ["a time that is none", `echo '{"name": "a", "start": "x", "end": 1e99}' >$SPANS_PATH`, "line 1"],
    [
      "too many",
      `for n in $(seq 101); do echo '{"name": "a", "start": 1, "end": 2}'; done >$SPANS_PATH`,
      "more than 100",
    ],
    [
      "a time in milliseconds",
      `echo '{"name": "a", "start": 1700000000000, "end": 1700000001000}' >$SPANS_PATH`,
      "seconds since 1970",
    ],
    ["too large", `head -c 70000 /dev/zero >$SPANS_PATH`, "more than 65536"],
    ["no file any more", `rm $SPANS_PATH; mkfifo $SPANS_PATH`, "no plain file"],
  ])("%s: they are left out with a warning, and the hook succeeds", async (_, script, reason) => {
    const { spans, result, lines } = await within(script);
    expect(result.output).toBeDefined();
    expect(spans).toEqual([]);
    expect(lines).toEqual([
      [
        "warn",
        "Spans of the hook are left out",
        { variable: "SPANS_PATH", error: expect.stringContaining(reason) },
      ],
    ]);
  });

  test("hold no secret that its key gives away, and no number that a collector cannot read", async () => {
    const span = {
      name: "a",
      start: 1,
      end: 2,
      attributes: { password: "hunter2hunter2", large: 1e300, fraction: 1.5 },
    };
    const { spans } = await within(`echo '${JSON.stringify(span)}' >$SPANS_PATH`);
    expect(spans[0]?.attributes).toEqual({
      password: expect.stringMatching(/^<redacted:/),
      large: "1e+300",
      fraction: 1.5,
    });
  });

  test("are written as the page shows", async () => {
    const [, script = ""] = /```\n(start=[^`]*)```/.exec(page) ?? [];
    const { spans, lines } = await within(`curl() { :; }\n${script}`);
    expect(spans).toMatchObject([{ name: "download", attributes: { mirror: "eu" } }]);
    expect(lines).toEqual([]);
  });
});
