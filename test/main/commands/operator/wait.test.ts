import { createServer } from "node:http";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it, onTestFinished } from "vitest";

import { waitForModule } from "../../../../src/main/commands/operator/wait.ts";
import type { CommandLine, Terminal } from "../../../../src/main/commands/table/row.ts";
import { ManualClock, settle } from "../../../support/clock.ts";
import { lineOf } from "../../../support/command-line.ts";

/** Says one after the other, the last one again and again. */
async function terminal(
  ...answers: readonly { state: string; ready: string; healthy?: string; usualSeconds?: number }[]
) {
  const dir = mkdtempSync(join(tmpdir(), "wait-"));
  const socket = join(dir, "socket");
  let requested = 0;
  const server = createServer((request, response) => {
    const said = { message: "so", healthy: "Unknown", ...answers[Math.min(requested++, answers.length - 1)] };
    response.statusCode = request.url === "/module/web/status.json" ? 200 : 404;
    response.end(JSON.stringify(said));
  });
  await new Promise<void>((done) => void server.listen(socket, done));
  onTestFinished(() => {
    server.close();
    rmSync(dir, { recursive: true, force: true });
  });
  const clock = new ManualClock(0);
  const lines: string[] = [];
  const lineAndWorld = (args: readonly string[]): [CommandLine, Terminal] => {
    const print = (text: string): void => void lines.push(text.trimEnd());
    const line = lineOf(["wait", ...args, `--debug-unix-socket=${socket}`]);
    return [
      line,
      {
        env: {},
        print,
        printError: print,
        confirm: () => Promise.resolve(false),
        isTerminal: false,
        columns: 100,
      },
    ];
  };
  const wait = async (...args: string[]): Promise<number> => {
    const over = { is: false };
    const waiting = waitForModule(...lineAndWorld(args), clock);
    const end = (): void => void (over.is = true);
    void waiting.then(end, end);
    while (!over.is) {
      await settle();
      if (clock.timers > 0) await clock.advance(250);
    }
    return waiting;
  };
  return { wait, lines, clock, requested: () => requested };
}

it("prints what changes, once each, until the module is Ready", async () => {
  const running = { state: "Running", ready: "Unknown" };
  const { wait, lines } = await terminal(running, running, { state: "Ready", ready: "True" });
  expect(await wait("web")).toBe(0);
  expect(lines).toEqual(["web: Running: so", "web: Ready: so"]);
});

it("prints a line of JSON for each change with -o json, and nothing else", async () => {
  const running = { state: "Running", ready: "Unknown", usualSeconds: 6 };
  const { wait, lines } = await terminal(running, running, { state: "Ready", ready: "True" });
  expect(await wait("web", "-o", "json")).toBe(0);
  expect(lines.map((line) => JSON.parse(line) as unknown)).toMatchObject([
    { module: "web", state: "Running", ready: "Unknown", message: "so", usualSeconds: 6 },
    { module: "web", state: "Ready", ready: "True" },
  ]);
});

it("reports the usual duration of the current run once", async () => {
  const usualSeconds = 6.2;
  const { wait, lines } = await terminal(
    { state: "Pending", ready: "Unknown", usualSeconds },
    { state: "Running", ready: "Unknown", usualSeconds },
    { state: "Running", ready: "Unknown", usualSeconds },
    { state: "Ready", ready: "True", usualSeconds },
  );
  expect(await wait("web")).toBe(0);
  expect(lines).toEqual([
    "web: Pending: so",
    "web: Running: so",
    "web: a run usually takes 6.2s",
    "web: Ready: so",
  ]);
});

it("waits for Healthy until the timeout", async () => {
  const { wait, lines, clock } = await terminal({ state: "Ready", ready: "True", healthy: "False" });
  expect(await wait("web", "--for=healthy", "--timeout", "3s")).toBe(1);
  expect(lines).toEqual(["web: Ready: so", "web: not healthy within the timeout"]);
  expect(clock.monotonic()).toBe(3000);
});

it("gives up on a Stalled module", async () => {
  const { wait, lines, clock } = await terminal(
    { state: "Ready", ready: "False" },
    { state: "RolledBack", ready: "False" },
  );
  expect(await wait("web")).toBe(1);
  expect(lines.slice(1)).toEqual([
    "web: RolledBack: so",
    "web: the module cannot recover by itself. Fix the cause in the message",
  ]);
  expect(clock.monotonic()).toBe(5000);
});

it.each([
  [[], /^usage: addon-operator wait/],
  [["web", "db"], /^usage: addon-operator wait/],
  [["web", "--until=now"], /^--until: unknown flag; see addon-operator --help/],
  [["web", "--for=done"], /^--for: "done" is not accepted; use ready or healthy/],
  [["web", "--timeout=soon"], /^--timeout: "soon" is not accepted/],
])("%j is wrong usage", async (args, message) => {
  const { wait } = await terminal({ state: "Ready", ready: "True" });
  await expect(wait(...args)).rejects.toThrow(message);
});
