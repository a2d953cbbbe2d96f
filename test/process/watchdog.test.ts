import { spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { describe, expect, onTestFinished, test } from "vitest";

import { until } from "../support/until.ts";

const PROCESS = new URL("../../src/process/index.ts", import.meta.url).href;

/** A program with a watchdog and a child that is deaf to SIGTERM, and has a child itself. */
const PROGRAM = `
import { Children, watchdog } from "${PROCESS}";
const guard = watchdog();
const say = (text) => process.stdout.write(text + "\\n");
const child = () => new Children().run({
  file: "/bin/sh",
  args: ["-c", "trap '' TERM; sleep 600 & echo $$ $!; wait"],
  cwd: "/",
  env: process.env,
  onLine: (_, line) => say(line),
});
const busy = (ms) => { for (const end = performance.now() + ms; performance.now() < end; ); };
`;

/** Runs the program with `body` after it. */
function program(body: string) {
  const child = spawn(process.execPath, ["--input-type=module", "-e", PROGRAM + body], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  const pid = child.pid ?? 0;
  onTestFinished(() => void child.kill("SIGKILL"));
  const lines: string[] = [];
  createInterface({ input: child.stdout }).on("line", (line) => lines.push(line));
  const end = once(child, "close").then(([code, signal]) => ({ code, signal }) as const);
  return { pid, lines, end };
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
      void child();
      setTimeout(() => {
        guard.expireAfter(300, "it's the last word \\\\n");
        busy(600_000);
      }, 500);
    `);
    expect(await end).toEqual(KILLED);
    expect(lines.slice(1)).toEqual([`it's the last word \\n`]);
    const pids = lines[0]?.split(" ").map(Number) ?? [];
    expect(pids).toHaveLength(2);
    await until(() => !pids.some(isAlive));
  });

  test("ends a process that is frozen, and its children", async () => {
    const body = `void child(); guard.expireAfter(1500, "bitten"); setInterval(() => {}, 1000);`;
    const frozen = program(body);
    await until(() => frozen.lines.length > 0);
    process.kill(frozen.pid, "SIGSTOP");
    expect(await frozen.end).toEqual(KILLED);
    expect(frozen.lines.slice(1)).toEqual(["bitten"]);
    const pids = frozen.lines[0]?.split(" ").map(Number) ?? [];
    await until(() => !pids.some(isAlive));
  });

  test("goes on after its supervisor was killed", async () => {
    const { lines, end } = program(`
      import { readFileSync } from "node:fs";
      guard.expireAfter(60_000, "too late");
      const [supervisor] = readFileSync(\`/proc/self/task/\${process.pid}/children\`, "utf8").split(" ");
      process.kill(Number(supervisor), "SIGKILL");
      setTimeout(() => { guard.expireAfter(100, "bitten"); busy(600_000); }, 500);
    `);
    expect(await end).toEqual(KILLED);
    expect(lines).toEqual(["bitten"]);
  });

  test("does nothing while it is reset in time, or after it was disarmed", async () => {
    const { lines, end } = program(`
      guard.expireAfter(200, "bitten");
      busy(100);
      guard.expireAfter(60_000, "bitten");
      busy(400);
      guard.expireAfter(200, "bitten");
      guard.disarm();
      busy(400);
    `);
    expect(await end).toEqual({ code: 0, signal: null });
    expect(lines).toEqual([]);
  });
});
