/** Commands that send one request to the debug socket of a running operator and print the response, in colours on a terminal. */

import { UsageError } from "../../../config/settings/index.ts";
import { parseYaml, sleep, systemClock, escapeControlCharacters } from "../../../base/index.ts";
import { isJsonObject } from "../../../base/model/index.ts";
import { VERSION } from "../../../config/settings/index.ts";
import { NoOperatorError, type SocketRequest, type CommandLine, type Terminal } from "../table/row.ts";
import { operatorClient, type SocketResponse } from "./socket.ts";

const EXIT_REFUSED = 1;
/** The exit code of `module diff` if there are differences. */
const EXIT_DIFFERS = 10;
const WATCH_MS = 1000;
const RUNNING_OPERATOR_NOTE =
  "A running operator made this plan with its own directories and namespace, not with those of this command line. To compute the plan from these settings, omit --debug-unix-socket.\n";

/** Creates a function that sends the request of a command. It returns the body or, if the operator refuses, undefined after a message on stderr. */
function createSender(line: CommandLine, terminal: Terminal): () => Promise<string | undefined> {
  const query = operatorClient(line, terminal);
  const request = buildRequest(line);
  return async () => {
    const answer = await query(request);
    if (answer.status < 400) return answer.body;
    // With `raw` a user chooses the path, so a 404 says nothing about the operator's version.
    if (line.row.words === "raw") terminal.printError(escapeControlCharacters(answer.body));
    else reportRefusal(terminal, answer);
    return undefined;
  };
}

/** Reports on stderr why the operator refused a request; returns the exit code. */
export function reportRefusal({ printError }: Terminal, answer: SocketResponse): number {
  printError(escapeControlCharacters(refusalMessage(answer)));
  return EXIT_REFUSED;
}

/** Why the operator refused a request. An operator that does not know the path may be older than this program. */
export function refusalMessage({ status, body }: SocketResponse): string {
  if (status !== 404) return body;
  return `${body}The running operator may be older than this command (${VERSION}). Use the program of the operator's version\n`;
}

/** The request of a command. Throws UsageError for a command without one. */
function buildRequest(line: CommandLine): SocketRequest {
  const request = line.row.request?.(line);
  if (request === undefined) throw new UsageError([`${line.row.words}: sends no request`]);
  return request;
}

/** Prints the response; with `--watch` each second until it is interrupted, on a terminal in place. */
export async function printResponse(line: CommandLine, terminal: Terminal): Promise<number> {
  const watches = line.flags.watch === true;
  const send = createSender(line, terminal);
  // Scripts get JSON and YAML unchanged. Text is for people, who may pipe it into a pager that interprets control characters.
  const mustEscape = terminal.isTerminal || buildRequest(line).path.includes(".text");
  for (;;) {
    const body = await send();
    if (body === undefined) return EXIT_REFUSED;
    if (watches && terminal.isTerminal) terminal.print(CLEAR_SCREEN);
    terminal.print(mustEscape ? escapeControlCharacters(body) : body);
    if (!watches) return 0;
    await sleep(systemClock, WATCH_MS);
  }
}

/** `module diff`: prints the differences. Returns exit code 10 if there are some, and 1 if a comparison failed, which the text says. */
export async function printDiff(line: CommandLine, terminal: Terminal): Promise<number> {
  const body = await createSender(line, terminal)();
  if (body === undefined) return EXIT_REFUSED;
  if (body === "") {
    terminal.print("No differences\n");
    return 0;
  }
  terminal.print(paintDiff(escapeControlCharacters(body), terminal));
  return FAILED_COMPARISON.test(body) ? EXIT_REFUSED : EXIT_DIFFERS;
}

/** The head of an object in a diff whose comparison failed. */
const FAILED_COMPARISON = /^# .*: cannot be compared: /m;

/** Colours a diff for a terminal: names of objects bold, removed lines red, added lines green. */
function paintDiff(text: string, terminal: Terminal): string {
  const colours = { "#": "bold", "-": "red", "+": "green" } as const;
  const paintLine = (line: string): string => {
    const colour = colours[line.charAt(0) as keyof typeof colours];
    return colour === undefined ? line : paint(terminal, colour, line);
  };
  return text.split("\n").map(paintLine).join("\n");
}

/**
 * `plan`: prints what a start would do. A running operator computes the plan, with its own settings. Without an operator, this process
 * computes the plan, and also if the command line has directories or a namespace: the operator that runs here may be another one.
 */
export async function printPlan(line: CommandLine, terminal: Terminal): Promise<number> {
  // Settings of the command line alone: it takes precedence over the environment.
  const { modulesDir, globalHooksDir, namespace, debugSocket } = line.settings(NO_SOCKET).settings;
  const hasOwnPlace = [modulesDir, globalHooksDir, namespace].some((each) => each !== undefined);
  if (hasOwnPlace && debugSocket === NO_SOCKET.DEBUG_UNIX_SOCKET) return printOwnPlan(line, terminal);
  try {
    const plan = await createSender(line, terminal)();
    if (plan === undefined) return EXIT_REFUSED;
    terminal.print(terminal.isTerminal ? escapeControlCharacters(plan) : plan);
    if (hasOwnPlace) terminal.printError(RUNNING_OPERATOR_NOTE);
    return planExitCode(plan);
  } catch (error) {
    if (!(error instanceof NoOperatorError)) throw error;
    return printOwnPlan(line, terminal);
  }
}

/** An environment whose socket is in force if the command line names none. */
const NO_SOCKET = { DEBUG_UNIX_SOCKET: "none" };

/** Computes the plan in this process, from the files and the cluster, and prints it. */
async function printOwnPlan(line: CommandLine, terminal: Terminal): Promise<number> {
  const { previewPlan } = await import("../../wiring/preview-plan.ts");
  const format = buildRequest(line).path.endsWith(".json") ? "json" : "yaml";
  const plan = await previewPlan(line.settings(terminal.env).settings, terminal.env, format);
  terminal.print(plan);
  return planExitCode(plan);
}

/** The exit code for a plan: 1 if a start would fail, which a plan reports with its key `refuses`. */
function planExitCode(plan: string): number {
  const { value } = parseYaml(plan, "plan");
  return isJsonObject(value) && value["refuses"] !== undefined ? EXIT_REFUSED : 0;
}

/** ANSI codes: cursor home, clear the rest of the screen. */
export const CLEAR_SCREEN = "\u001b[H\u001b[J";

const COLOUR_CODES = { bold: 1, red: 31, green: 32, yellow: 33, grey: 90 } as const;

export type Colour = keyof typeof COLOUR_CODES;

/** The text in a colour, on terminals unless NO_COLOR is set. */
export function paint(terminal: Pick<Terminal, "isTerminal" | "env">, colour: Colour, text: string): string {
  const isColoured = terminal.isTerminal && !terminal.env["NO_COLOR"];
  return isColoured ? `\u001b[${COLOUR_CODES[colour]}m${text}\u001b[0m` : text;
}
