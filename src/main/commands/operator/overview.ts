/** Commands that show the operator and all modules: `module list` on a terminal, and `status`. Both return the exit code. */

import { UsageError } from "../../../config/settings/index.ts";
import { sleep, systemClock, toYaml, escapeControlCharacters, type Clock } from "../../../base/index.ts";
import type { Json } from "../../../base/model/index.ts";
import type { Overview } from "../../../report/index.ts";
import { getFromSocket, type CommandLine, type Terminal } from "../table/row.ts";
import { CLEAR_SCREEN, printResponse, paint, reportRefusal } from "./query.ts";
import { quickTimeout, parseObject, operatorClient } from "./socket.ts";
import { renderModulesTable, renderStatus, type Style } from "./tables.ts";

const CHECK_MS = 1000;

type Renderer = (overview: Overview, style: Style) => string;

/** `module list`: a table on a terminal, else the operator's response as it is, which scripts read. */
export async function listModules(
  line: CommandLine,
  terminal: Terminal,
  clock: Clock = systemClock,
): Promise<number> {
  const watches = line.flags.watch === true;
  if (line.flags.output !== undefined || (!terminal.isTerminal && !watches))
    return printResponse(line, terminal);
  return showOverview(line, terminal, { clock, render: renderModulesTable, exitCode: () => 0 });
}

/** `status`: problems and their reasons. The exit code is 0 if all enabled modules are Ready, else 1. */
export async function showStatus(
  line: CommandLine,
  terminal: Terminal,
  clock: Clock = systemClock,
): Promise<number> {
  return showOverview(line, terminal, { clock, render: renderStatus, exitCode: readyExitCode });
}

/** The exit code for an overview: 0 if all enabled modules are Ready, else 1. */
export function readyExitCode({ ready }: Overview): number {
  return ready === "True" ? 0 : 1;
}

/** The renderer for the format of `-o`; `renderText` is the one for people. Throws UsageError. */
function selectRenderer({ flags: { output } }: CommandLine, renderText: Renderer): Renderer {
  if (output === undefined || output === "text") return renderText;
  if (output === "json") return (overview) => `${JSON.stringify(overview)}\n`;
  if (output === "yaml") return (overview) => toYaml(overview as unknown as Json);
  throw new UsageError([`-o: "${output}" is not accepted; use text, yaml or json`]);
}

/** How an overview is fetched and rendered. */
export interface DisplayOptions {
  readonly clock: Clock;
  readonly render: Renderer;
  readonly exitCode: (overview: Overview) => number;
  /** The overview, or an exit code after an error, which it has reported. */
  readonly fetch: () => Promise<Overview | number>;
}

/** Fetches the overview from the running operator and displays it. If the operator refuses the request, prints why. */
async function showOverview(
  line: CommandLine,
  terminal: Terminal,
  options: Omit<DisplayOptions, "fetch">,
): Promise<number> {
  const query = operatorClient(line, terminal);
  const fetch = async (): Promise<Overview | number> => {
    const answer = await query(getFromSocket("/overview.json"), quickTimeout());
    return answer.status < 400 ? (parseObject(answer.body) as Overview) : reportRefusal(terminal, answer);
  };
  return displayOverview(line, terminal, { ...options, fetch });
}

/**
 * Prints the overview that `fetch` returns, and returns the exit code (`fetch` returns one instead, if it failed and has printed why).
 * With `--watch` it goes on until it is interrupted, in place on a terminal, else with a line for each change.
 */
export async function displayOverview(
  line: CommandLine,
  terminal: Terminal,
  { clock, render: renderText, exitCode, fetch }: DisplayOptions,
): Promise<number> {
  const paintText: Style["paint"] = (colour, text) => paint(terminal, colour, text);
  const render = selectRenderer(line, renderText);
  let previousTexts: ReadonlyMap<string, string> = new Map();
  for (;;) {
    const fetched = await fetch();
    if (typeof fetched === "number") return fetched;
    // JSON and YAML escape control characters themselves.
    const overview = render === renderText ? withVisibleTexts(fetched) : fetched;
    const style = { now: clock.now(), columns: terminal.columns, paint: paintText };
    if (line.flags.watch !== true) {
      terminal.print(render(overview, style));
      return exitCode(overview);
    }
    if (terminal.isTerminal) terminal.print(`${CLEAR_SCREEN}${render(overview, style)}`);
    else previousTexts = printChanges(overview, previousTexts, terminal);
    await sleep(clock, CHECK_MS);
  }
}

/** Escapes control characters in all texts, which a terminal would interpret. */
function withVisibleTexts(overview: Overview): Overview {
  const escapeText = (_key: string, value: unknown) =>
    typeof value === "string" ? escapeControlCharacters(value) : value;
  return JSON.parse(JSON.stringify(overview), escapeText) as Overview;
}

/** Prints a line for each changed state or message: of the operator (key `""`) and of modules. Returns all lines by name, for the next comparison. */
function printChanges(
  { state, message, modules }: Overview,
  previousTexts: ReadonlyMap<string, string>,
  { print }: Terminal,
): ReadonlyMap<string, string> {
  const texts = new Map([
    ["", `${state}: ${message}`],
    ...modules.map((row): [string, string] => [row.name, `${row.name}: ${row.state}: ${row.message}`]),
  ]);
  for (const [name, text] of texts) if (previousTexts.get(name) !== text) print(`${text}\n`);
  return texts;
}
