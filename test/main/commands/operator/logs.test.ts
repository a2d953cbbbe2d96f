import { expect, it } from "vitest";

import { printLogs } from "../../../../src/main/commands/operator/logs.ts";
import { answeringSocket } from "../../../support/answering-socket.ts";
import { ManualClock, settle } from "../../../support/clock.ts";
import { lineOf } from "../../../support/command-line.ts";
import { T0 } from "../../../report/views.ts";

const task = {
  traceId: "t",
  spanId: "a",
  kind: "task",
  name: "run-module web",
  attributes: { about: "run-module web: ConfigMap changed" },
  startMs: T0,
};
const from = { kind: "cause", name: "edit", startMs: T0 };
const line = (n: number, message: string) => ({
  n,
  timeMs: T0 + n * 1000,
  level: "info",
  message,
  fields: { hook: "a b" },
});
const view = (isOver: boolean, lines: readonly unknown[], ending: object = { endMs: T0 + 4000 }) => ({
  id: "a",
  task: { ...task, ...(isOver ? ending : {}) },
  from,
  isOver,
  spans: [],
  lines,
  dropped: 0,
});

/** An operator that gives these answers one after the other, and then goes. */
async function logs(given: readonly string[], answers: readonly object[]) {
  const rest = [...answers];
  const requested: string[] = [];
  const { setting } = await answeringSocket((path) => {
    requested.push(path);
    if (path.startsWith("/module/nope/")) return { status: 500, body: "module not found: nope\n" };
    if (path.startsWith("/module/")) return "{}";
    const next = rest.shift();
    return next === undefined ? { status: 503, body: "gone\n" } : JSON.stringify(next);
  });
  let printed = "";
  let complained = "";
  const clock = new ManualClock(T0);
  const terminal = {
    env: {},
    print: (text: string) => void (printed += text),
    printError: (text: string) => void (complained += text),
    confirm: () => Promise.resolve(false),
    isTerminal: false,
    columns: 80,
  };
  const over = { is: false };
  const work = printLogs(lineOf(["logs", ...given, setting]), terminal, clock);
  const end = (): void => void (over.is = true);
  void work.then(end, end);
  while (!over.is) {
    await settle();
    if (clock.timers > 0) await clock.advance(500);
  }
  return { code: await work, printed, complained, requested };
}

it("prints the runs that are kept, with their lines, cause and end", async () => {
  const { code, printed, requested } = await logs(
    ["web"],
    [{ cursor: 3, runs: [view(true, [line(1, "one"), line(3, "two")])] }],
  );
  expect([code, requested]).toEqual([0, ["/runs.json?module=web&since=0&lines=true"]]);
  expect(printed.split("\n")).toEqual([
    "2026-01-01T00:00:00Z --- run-module web: ConfigMap changed (edit)",
    '2026-01-01T00:00:01Z INFO  one hook="a b"',
    '2026-01-01T00:00:03Z INFO  two hook="a b"',
    "2026-01-01T00:00:04Z --- run-module web: succeeded after 4s",
    "",
  ]);
});

it("a run that an edit ends did not end well", async () => {
  const interrupted = "an edit supersedes it";
  const ending = { endMs: T0 + 4000, attributes: { interrupted } };
  const { printed } = await logs(["web"], [{ cursor: 1, runs: [view(true, [], ending)] }]);
  expect(printed).toContain("run-module web: interrupted: an edit supersedes it after 4s");
});

it("a run begins after its wait in the queue, which does not count", async () => {
  const wait = { kind: "wait", name: "wait in queue", startMs: T0, endMs: T0 + 3000 };
  const { printed } = await logs(["web"], [{ cursor: 1, runs: [{ ...view(true, []), spans: [wait] }] }]);
  expect(printed).toBe(
    "2026-01-01T00:00:03Z --- run-module web: ConfigMap changed (edit)\n" +
      "2026-01-01T00:00:04Z --- run-module web: succeeded after 1s\n",
  );
});

it("-f prints each new line once until the operator ends", async () => {
  const failed = { endMs: T0 + 4000, error: "exit code 1" };
  const { code, printed, complained, requested } = await logs(
    ["web", "-f"],
    [
      { cursor: 1, runs: [view(false, [line(1, "one")])] },
      { cursor: 1, runs: [] },
      { cursor: 3, runs: [view(true, [line(1, "one"), line(2, "two")], failed)] },
      // Its status was written meanwhile.
      { cursor: 4, runs: [view(true, [line(1, "one"), line(2, "two")], failed)] },
    ],
  );
  expect([code, complained]).toEqual([1, "gone\n"]);
  expect(requested[1]).toBe("/runs.json?module=web&since=1&lines=true");
  expect(printed.match(/one/g)).toHaveLength(1);
  expect(printed.match(/ConfigMap changed/g)).toHaveLength(1);
  expect(printed).toMatch(/two[^]*failed: exit code 1 after 4s\n$/);
  expect(printed.match(/exit code 1/g)).toHaveLength(1);
});

it("prints no cause for a run without an external cause", async () => {
  const run = { ...view(true, []), from: { ...from, name: "due" } };
  const { printed } = await logs(["web"], [{ cursor: 1, runs: [run] }]);
  expect(printed).toContain("--- run-module web: ConfigMap changed\n");
});

it("-o json prints each run as a line", async () => {
  const { printed } = await logs(["-o", "json"], [{ cursor: 1, runs: [view(true, [])] }]);
  expect(JSON.parse(printed)).toMatchObject({ id: "a", isOver: true });
});

it.each([
  ["nope", 1, "module not found: nope\n"],
  ["web", 0, "web: the operator has no record of a run. It keeps only the last runs since its start\n"],
])("says that there is no run of %s", async (name, code, message) => {
  expect(await logs([name], [{ cursor: 0, runs: [] }])).toMatchObject({
    code,
    complained: message,
    printed: "",
  });
});
