/** The commands of `kubectl addon`: they read AddonModules from the cluster and need no access to the operator. */

import { systemClock, escapeControlCharacters, type Clock } from "../../lib/index.ts";
import { readyExitCode, displayOverview, type DisplayOptions } from "../operator/overview.ts";
import { modulesTable, statusText } from "../operator/tables.ts";
import { awaitModule } from "../operator/wait.ts";
import type { Line, Terminal } from "../table/row.ts";
import { configProblem, currentRow, explanationFrom, overviewFrom, staleText } from "./from-resources.ts";
import { withReader, type Reader } from "./read-resources.ts";

export type AddonCommand = "status" | "list" | "why" | "wait";

/** Runs a command of `kubectl addon`; returns the exit code. */
export async function runAddon(which: AddonCommand, line: Line, terminal: Terminal): Promise<number> {
  return withReader(line, terminal, (reader) => COMMANDS[which](reader, line, terminal));
}

type Command = (reader: Reader, line: Line, terminal: Terminal) => Promise<number>;

const NOT_FOUND = (name: string): string => `AddonModule ${name} does not exist\n`;

/** `status` and `list`. */
function show(how: Pick<DisplayOptions, "draw" | "code">): Command {
  return (reader, line, terminal) => {
    const fetch = async () => {
      const found = await reader.listAll();
      if (found.operator !== undefined || found.modules.length > 0) {
        const overview = overviewFrom(found, systemClock.now());
        if (how.draw === modulesTable && overview.reason === "NotRunning")
          terminal.printError(`${escapeControlCharacters(overview.message)}\n`);
        return overview;
      }
      terminal.printError("No AddonOperator found. Use -n to search another namespace\n");
      return 1;
    };
    return displayOverview(line, terminal, { ...how, clock: systemClock, fetch });
  };
}

const why: Command = async (reader, { args: [name = ""] }, { print, printError }) => {
  const found = await reader.module(name);
  const lease = await reader.lease();
  const stale = lease && staleText(lease, systemClock.now());
  if (stale !== undefined) printError(`${escapeControlCharacters(stale.trim())}\n`);
  const problem = configProblem(await reader.operator());
  if (problem !== undefined) printError(`${escapeControlCharacters(problem)}\n`);
  if (found === undefined) printError(NOT_FOUND(name));
  else print(`${escapeControlCharacters(explanationFrom(found).join("\n"))}\n`);
  return found === undefined ? 1 : 0;
};

/** The status of a module without an AddonModule, which the operator may create soon. */
const NOT_YET = {
  state: "Pending",
  message: "its AddonModule does not exist yet",
  ready: "Unknown",
  healthy: "Unknown",
} as const;

const wait: Command = (reader, line, terminal) => {
  const clock: Clock = systemClock;
  return awaitModule(line, terminal, {
    clock,
    check: async (name) => {
      const [found, lease] = await Promise.all([reader.module(name), reader.lease()]);
      return found === undefined ? NOT_YET : currentRow(found, lease, clock.now());
    },
  });
};

const COMMANDS: Readonly<Record<AddonCommand, Command>> = {
  status: show({ draw: statusText, code: readyExitCode }),
  list: show({ draw: modulesTable, code: () => 0 }),
  why,
  wait,
};
