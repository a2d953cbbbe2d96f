import { describe, expect, it, test } from "vitest";

import { printDiff, printResponse, reportRefusal } from "../../../../src/main/commands/operator/query.ts";
import { printCandidates } from "../../../../src/main/commands/operator/completion.ts";
import { printLogs } from "../../../../src/main/commands/operator/logs.ts";
import { showStatus } from "../../../../src/main/commands/operator/overview.ts";
import { waitForModule } from "../../../../src/main/commands/operator/wait.ts";
import { COMPLETED } from "../../../../src/main/commands/table/commands.ts";
import { escapeControlCharacters } from "../../../../src/base/index.ts";
import { ProblemError } from "../../../../src/base/model/index.ts";
import { answeringSocket } from "../../../support/answering-socket.ts";
import { lineOf } from "../../../support/command-line.ts";

/** Colours, a title, a line that goes back, another direction, and the one-character form of an escape. */
const EVIL = "\u001B[31mred\u001B]0;title\u0007\r\u202Etxt.exe\u009B2J";
const OBEYED = /(?![\n\t])[\p{Cc}\u202A-\u202E]/u;

const row = {
  name: EVIL,
  order: 1,
  enabled: true,
  state: EVIL,
  ready: "False",
  healthy: EVIL,
  message: EVIL,
};
const task = {
  traceId: "t",
  spanId: "a",
  kind: "task",
  name: EVIL,
  attributes: {},
  startMs: 1,
  endMs: 2,
  error: EVIL,
};
const logged = { n: 1, timeMs: 1, level: "info", message: EVIL, fields: { [EVIL]: EVIL } };
const run = {
  id: "a",
  task,
  from: { kind: "cause", name: EVIL, startMs: 1 },
  isOver: true,
  spans: [],
  lines: [logged],
  dropped: 0,
};

function evilAnswer(path: string): string {
  if (path.startsWith("/overview"))
    return JSON.stringify({
      state: EVIL,
      ready: "False",
      message: EVIL,
      converge: {},
      modules: [{ ...row, drifted: 0 }],
    });
  if (path.startsWith("/runs")) return JSON.stringify({ cursor: 1, runs: [run] });
  if (path.endsWith("status.json")) return JSON.stringify({ ...row, ready: "True" });
  return `${EVIL}\n`;
}

function screen() {
  const seen = { text: "" };
  const print = (text: string): void => void (seen.text += text);
  const terminal = { env: { NO_COLOR: "1" }, print, printError: print, isTerminal: true, columns: 1000 };
  return { seen, terminal: { ...terminal, confirm: () => Promise.resolve(false) } };
}

describe("control characters from any source are made visible", () => {
  it.each([
    ["status", showStatus],
    ["logs", printLogs],
    ["wait web", waitForModule],
    ["queue list", printResponse],
    ["module diff web", printDiff],
  ] as const)("%s", async (words, command) => {
    const { setting } = await answeringSocket(evilAnswer);
    const { seen, terminal } = screen();
    await command(lineOf([...words.split(" "), setting]), terminal);
    expect(seen.text).toContain(String.raw`\u001b[31mred\u001b]0;title\u0007\u000d\u202etxt.exe\u009b2J`);
    expect(seen.text).not.toMatch(OBEYED);
  });

  test("refusals", () => {
    const { seen, terminal } = screen();
    reportRefusal(terminal, { status: 500, body: EVIL });
    expect(seen.text).not.toMatch(OBEYED);
  });

  test("line ends and tabs stay", () => {
    expect(escapeControlCharacters("a\tb\nc")).toBe("a\tb\nc");
  });
});

test.each(["", "null", "[", "no JSON"])("an answer that holds %j is reported as a problem", async (body) => {
  const { setting } = await answeringSocket(() => body);
  const { terminal } = screen();
  for (const [words, command] of [
    ["status", showStatus],
    ["logs", printLogs],
    ["wait web", waitForModule],
  ] as const)
    await expect(command(lineOf([...words.split(" "), setting]), terminal)).rejects.toThrow(ProblemError);
});

test("no name is completed that a shell would run", async () => {
  const names = ["web", "$(touch x)", "`x`", "a;b", "a b", "a\nb", "*", "'"];
  const { setting, socket } = await answeringSocket(() =>
    JSON.stringify({ modules: names.map((name) => ({ name })) }),
  );
  const { seen, terminal } = screen();
  const env = { DEBUG_UNIX_SOCKET: socket };
  const line = lineOf(["__complete", "--", "module", "why", ""]);
  await printCandidates(line, { ...terminal, env }, COMPLETED);
  expect([seen.text, setting]).toEqual(["web\n", expect.any(String)]);
});
