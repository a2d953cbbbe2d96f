import { spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { describe, expect, onTestFinished, test } from "vitest";

import { until } from "../../support/until.ts";

const PROCESS = new URL("../../../src/base/process/index.ts", import.meta.url).href;

/** A program with a watchdog and a child that is deaf to SIGTERM, and has a child itself. */
const PROGRAM = `
import { Children, startWatchdog } from "${PROCESS}";
const guard = startWatchdog();
const say = (text) => process.stdout.write(text + "\\n");
/** Says which processes it is, then calls \`running\`. */
const child = (running) => new Children().run({
  file: "/bin/sh",
  args: ["-c", "trap '' TERM; sleep 600 & echo $$ $!; wait"],
  cwd: "/",
  env: process.env,
  onLine: (_, line) => { say(line); running(); },
});
/** Blocks the event loop. */
const block = (ms) => Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);
`;

/** Runs the program with `body` after it. */
function program(body: string) {
  const child = spawn(process.execPath, ["--input-type=module", "-e", PROGRAM + body], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  onTestFinished(() => void child.kill("SIGKILL"));
  const lines: string[] = [];
  createInterface({ input: child.stdout }).on("line", (line) => lines.push(line));
  const end = once(child, "close").then(([code, signal]) => ({ code, signal }) as const);
  return { lines, end };
}

const KILLED = { code: null, signal: "SIGKILL" };

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

describe.runIf(process.platform === "linux")("the watchdog", () => {
  test("ends a busy process and all of its children, with its last words", async () => {
    const { lines, end } = program(`
      void child(() => {
        guard.expireAfter(300, "it's the last word \\\\n");
        block(600_000);
      });
    `);
    expect(await end).toEqual(KILLED);
    expect(lines.slice(1)).toEqual([`it's the last word \\n`]);
    const pids = lines[0]?.split(" ").map(Number) ?? [];
    expect(pids).toHaveLength(2);
    await until(() => !pids.some(isAlive));
  });

  test("ends a process that is frozen, and its children", async () => {
    const frozen = program(`
      void child(() => {
        guard.expireAfter(300, "bitten");
        process.kill(process.pid, "SIGSTOP");
      });
    `);
    expect(await frozen.end).toEqual(KILLED);
    expect(frozen.lines.slice(1)).toEqual(["bitten"]);
    const pids = frozen.lines[0]?.split(" ").map(Number) ?? [];
    await until(() => !pids.some(isAlive));
  });

  test("goes on after its supervisor was killed", async () => {
    const { lines, end } = program(`
      import { existsSync, readFileSync } from "node:fs";
      guard.expireAfter(60_000, "too late");
      const [supervisor] = readFileSync(\`/proc/self/task/\${process.pid}/children\`, "utf8").split(" ");
      process.kill(Number(supervisor), "SIGKILL");
      // It has gone when its exit was noticed.
      setInterval(() => {
        if (existsSync(\`/proc/\${supervisor}\`)) return;
        guard.expireAfter(100, "bitten");
        block(600_000);
      }, 10);
    `);
    expect(await end).toEqual(KILLED);
    expect(lines).toEqual(["bitten"]);
  });

  test("does nothing while it is reset in time, or after it was disarmed", async () => {
    const { lines, end } = program(`
      const other = startWatchdog();
      for (const each of [guard, other]) each.expireAfter(1000, "bitten");
      guard.expireAfter(600_000, "bitten");
      other.disarm();
      block(1800);
    `);
    expect(await end).toEqual({ code: 0, signal: null });
    expect(lines).toEqual([]);
  });
});
