/** Commands that send one request to a running operator and print the response, in colours on a terminal. */

import { UsageError } from "../../config.ts";
import { parseYaml, sleep, systemClock, escapeControlCharacters } from "../../lib/index.ts";
import { isJsonObject } from "../../model/index.ts";
import { VERSION } from "../../version.ts";
import { NoOperatorError, type Call, type Line, type Terminal } from "../table/row.ts";
import { operatorClient, type SocketResponse } from "./socket.ts";

const REFUSED = 1;
/** The exit code of `module diff` if there are differences. */
const DIFFERS = 10;
const WATCH_MS = 1000;
const RUNNING_OPERATOR_NOTE =
  "A running operator made this plan with its own directories and namespace, not with those of this command line. To query another operator or none, set --debug-unix-socket.\n";

/** Sends the request of a command at each call. Undefined if the operator refuses it, which is reported on stderr. */
function callerOf(line: Line, terminal: Terminal): () => Promise<string | undefined> {
  const ask = operatorClient(line, terminal);
  const call = callOfLine(line);
  return async () => {
    const answer = await ask(call);
    if (answer.status < 400) return answer.body;
    if (line.row.words === "raw") terminal.printError(escapeControlCharacters(answer.body));
    else reportRefusal(terminal, answer);
    return undefined;
  };
}

/** Reports on stderr why the operator refused a request; returns the exit code. */
export function reportRefusal({ printError }: Terminal, answer: SocketResponse): number {
  printError(escapeControlCharacters(refusalMessage(answer)));
  return REFUSED;
}

/** Why the operator refused a request. An operator that does not know the path may be older than this program. */
export function refusalMessage({ status, body }: SocketResponse): string {
  if (status !== 404) return body;
  return `${body}The running operator may be older than this command (${VERSION}). Use the program of the operator's version\n`;
}

function callOfLine(line: Line): Call {
  const call = line.row.call?.(line);
  if (call === undefined) throw new UsageError([`${line.row.words}: sends no request`]);
  return call;
}

/** Prints the response; with `--watch` each second until it is interrupted, on a terminal in place. */
export async function printAnswer(line: Line, terminal: Terminal): Promise<number> {
  const watches = line.flags["watch"] === true;
  const ask = callerOf(line, terminal);
  for (;;) {
    const body = await ask();
    if (body === undefined) return REFUSED;
    const displayed =
      terminal.isTerminal || callOfLine(line).path.includes(".text") ? escapeControlCharacters(body) : body;
    terminal.print(`${watches && terminal.isTerminal ? CLEAR : ""}${displayed}`);
    if (!watches) return 0;
    await sleep(systemClock, WATCH_MS);
  }
}

/** `module diff`: exits with 10 if there are differences, and with 1 if a comparison failed. */
export async function printDiff(line: Line, terminal: Terminal): Promise<number> {
  const body = await callerOf(line, terminal)();
  if (body === undefined) return REFUSED;
  terminal.print(body === "" ? "No differences\n" : colourDiff(escapeControlCharacters(body), terminal));
  if (body === "") return 0;
  return /^# .*: cannot be compared: /m.test(body) ? REFUSED : DIFFERS;
}

/** Names in bold, removed lines in red, added lines in green. */
function colourDiff(text: string, terminal: Terminal): string {
  const colours = { "#": "bold", "-": "red", "+": "green" } as const;
  const paintLine = (line: string): string => {
    const colour = colours[line.charAt(0) as keyof typeof colours];
    return colour === undefined ? line : paint(terminal, colour, line);
  };
  return text.split("\n").map(paintLine).join("\n");
}

/** `plan`: computes the plan itself if no operator is running. A running one plans with its own settings, which stderr says. */
export async function printPlan(line: Line, terminal: Terminal): Promise<number> {
  try {
    const plan = await callerOf(line, terminal)();
    if (plan === undefined) return REFUSED;
    terminal.print(terminal.isTerminal ? escapeControlCharacters(plan) : plan);
    const { modulesDir, globalHooksDir, namespace } = line.settings({}).settings;
    if ([modulesDir, globalHooksDir, namespace].some((each) => each !== undefined))
      terminal.printError(RUNNING_OPERATOR_NOTE);
    return planExitCode(plan);
  } catch (error) {
    if (!(error instanceof NoOperatorError)) throw error;
    const { planAlone } = await import("../../wiring/base.ts");
    const isJson = callOfLine(line).path.endsWith(".json");
    const plan = await planAlone(
      line.settings(terminal.env).settings,
      terminal.env,
      isJson ? "json" : "yaml",
    );
    terminal.print(plan);
    return planExitCode(plan);
  }
}

/** 1 if a start would fail; the plan then contains only `refuses`. */
function planExitCode(plan: string): number {
  const { value } = parseYaml(plan, "plan");
  return isJsonObject(value) && value["refuses"] !== undefined ? REFUSED : 0;
}

/** ANSI codes: cursor home, clear the rest of the screen. */
export const CLEAR = "\u001b[H\u001b[J";

const CODES = { bold: 1, red: 31, green: 32, yellow: 33, grey: 90 } as const;

export type Colour = keyof typeof CODES;

/** The text in a colour, on terminals unless NO_COLOR is set. */
export function paint(
  { isTerminal, env }: Pick<Terminal, "isTerminal" | "env">,
  colour: Colour,
  text: string,
): string {
  return isTerminal && !env["NO_COLOR"] ? `\u001b[${CODES[colour]}m${text}\u001b[0m` : text;
}
