/** The commands of `kubectl addon`: they read AddonModules from the cluster and need no access to the operator. */

import { systemClock, escapeControlCharacters } from "../../../base/index.ts";
import { readyExitCode, displayOverview, type DisplayOptions } from "../operator/overview.ts";
import { renderModulesTable, renderStatus } from "../operator/tables.ts";
import { printUntilCondition } from "../operator/wait.ts";
import { selectsJson, type CommandLine, type Terminal } from "../table/row.ts";
import {
  describeConfigProblem,
  describeStaleLease,
  explainState,
  readModuleRow,
  readResources,
} from "./from-resources.ts";
import { withReader, type Reader } from "./read-resources.ts";

export type AddonCommand = "status" | "list" | "why" | "wait";

/** Runs a command of `kubectl addon`; returns the exit code. */
export async function runAddon(name: AddonCommand, line: CommandLine, terminal: Terminal): Promise<number> {
  return withReader(line, terminal, (reader) => COMMANDS[name](reader, line, terminal));
}

type Command = (reader: Reader, line: CommandLine, terminal: Terminal) => Promise<number>;

/** Makes the command `status` or `list`, which differ only in how they display the overview (`render`) and in the exit code. */
function overviewCommand(options: Pick<DisplayOptions, "render" | "exitCode">): Command {
  return (reader, line, terminal) => {
    const fetch = async () => {
      const resources = await reader.listAll();
      if (resources.operator === undefined && resources.modules.length === 0) {
        terminal.printError("No AddonOperator found. Use -n to search another namespace\n");
        return 1;
      }
      const overview = readResources(resources, systemClock.now());
      // The table of `list` has no line for the operator, so a note says that the operator does not run.
      if (options.render === renderModulesTable && overview.reason === "NotRunning")
        terminal.printError(`${escapeControlCharacters(overview.message)}\n`);
      return overview;
    };
    return displayOverview(line, terminal, { ...options, clock: systemClock, fetch });
  };
}

/** Prints why a module has its state, and on stderr what makes that doubtful: a stale Lease, an invalid ConfigMap. */
const whyCommand: Command = async (reader, line, { print, printError }) => {
  const [name = ""] = line.args;
  const isJson = selectsJson(line);
  const modules = await reader.moduleWithAwaited(name);
  const lease = await reader.lease();
  const stale = lease && describeStaleLease(lease, systemClock.now());
  if (stale !== undefined) printError(`${escapeControlCharacters(stale.trim())}\n`);
  const problem = describeConfigProblem(await reader.operator());
  if (problem !== undefined) printError(`${escapeControlCharacters(problem)}\n`);
  if (!modules.has(name)) {
    printError(`AddonModule ${name} does not exist\n`);
    return 1;
  }
  const reasons = explainState(name, modules);
  if (isJson) print(`${JSON.stringify({ module: name, reasons })}\n`);
  else print(`${escapeControlCharacters(reasons.join("\n"))}\n`);
  return 0;
};

/** The status of a module whose AddonModule does not exist: the operator may create it soon. */
const NOT_CREATED_YET = {
  state: "Pending",
  message: "its AddonModule does not exist yet",
  ready: "Unknown",
  healthy: "Unknown",
} as const;

/** Waits until a module is Ready or Healthy, by its AddonModule. */
const waitCommand: Command = (reader, line, terminal) =>
  printUntilCondition(line, terminal, {
    clock: systemClock,
    readStatus: async (name) => {
      const [found, lease] = await Promise.all([reader.module(name), reader.lease()]);
      return found === undefined ? NOT_CREATED_YET : readModuleRow(found, lease, systemClock.now());
    },
  });

const COMMANDS: Readonly<Record<AddonCommand, Command>> = {
  status: overviewCommand({ render: renderStatus, exitCode: readyExitCode }),
  list: overviewCommand({ render: renderModulesTable, exitCode: () => 0 }),
  why: whyCommand,
  wait: waitCommand,
};
