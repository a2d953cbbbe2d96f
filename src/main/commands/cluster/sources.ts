/** The commands `source list`, `sync` and `approve`: they read ModuleSources (registries of modules) from the cluster, and annotate objects. */

import { UsageError } from "../../../config/settings/index.ts";
import { sleep, systemClock, escapeControlCharacters } from "../../../base/index.ts";
import { APPROVE_UPDATE } from "../../../engine/state/index.ts";
import {
  ADDON_MODULES,
  describeSourceProblem,
  MODULE_SOURCES,
  type IModuleSource,
} from "../../../report/index.ts";
import { REQUESTED_AT } from "../../../base/model/index.ts";
import { selectsJson, type CommandLine, type Terminal } from "../table/row.ts";
import { withReader, type Reader } from "./read-resources.ts";

export type SourceCommand = "list" | "sync" | "approve";

type Status = NonNullable<IModuleSource["status"]>;
type Condition = NonNullable<Status["conditions"]>[number];
type ListedModule = NonNullable<Status["modules"]>[number];

const POLL_MS = 500;
/** How long `source sync` waits for the operator, which may be down or slow. */
const MAX_CHECK_MS = 60_000;

/** Runs a command; returns the exit code. */
export async function runSource(name: SourceCommand, line: CommandLine, terminal: Terminal): Promise<number> {
  return withReader(line, terminal, (reader) => COMMANDS[name](reader, line, terminal));
}

type Command = (
  reader: Reader,
  line: Pick<CommandLine, "args" | "flags">,
  terminal: Terminal,
) => Promise<number>;

/** Prints all ModuleSources. Exits with 1 if one is not Ready. */
const listCommand: Command = async (reader, line, terminal) => {
  const isJson = selectsJson(line);
  const sources = await readSources(reader);
  if (!isJson) return printSources(sources, terminal);
  const data = sources.map((source) => ({ ...namespacedName(source), ...source.status }));
  terminal.print(`${JSON.stringify(data, undefined, 2)}\n`);
  return readyExitCode(sources);
};

/** Requests a check of one ModuleSource or all, waits until the operator has done it, and prints the result. Exits with 1 if one is not Ready or cannot be checked. */
const syncCommand: Command = async (reader, { args: [name] }, terminal) => {
  const all = await readSources(reader);
  const chosen = all.filter(({ metadata }) => name === undefined || metadata.name === name);
  if (chosen.length === 0) throw new UsageError([`there is no ModuleSource ${name}`]);
  const token = new Date(systemClock.now()).toISOString();
  for (const source of chosen)
    await reader.annotate({ ...namespacedName(source), resource: MODULE_SOURCES }, { [REQUESTED_AT]: token });
  const names = new Set(chosen.map(({ metadata }) => metadata.name));
  const deadline = systemClock.monotonic() + MAX_CHECK_MS;
  for (;;) {
    const current = (await readSources(reader)).filter(({ metadata }) => names.has(metadata.name));
    if (current.every(({ status }) => status?.lastHandledReconcileAt === token)) {
      const code = printSources(current, terminal);
      return current.some((source) => describeSourceProblem(source) !== undefined) ? 1 : code;
    }
    if (systemClock.monotonic() > deadline) {
      terminal.printError("The operator has not checked them within a minute; see its log\n");
      return 1;
    }
    await sleep(systemClock, POLL_MS);
  }
};

/** Approves the update that waits for a module, by an annotation with its version and digest. */
const approveCommand: Command = async (reader, { args: [module = "", version] }, { print }) => {
  const waitingVersions = (await readSources(reader)).flatMap((source) =>
    (source.status?.modules ?? []).flatMap(({ name, next }) =>
      name === module && next ? [{ source, next }] : [],
    ),
  );
  const [first] = waitingVersions;
  if (first === undefined)
    throw new UsageError([`nothing waits for the module ${module}: see \`source list\``]);
  const { source, next } = first;
  if (version !== undefined && version !== next.version)
    throw new UsageError([`${next.version} waits for the module ${module}, not ${version}`]);
  const approval = `${next.version}@${next.digest}`;
  const { namespace } = namespacedName(source);
  await reader.annotate({ resource: ADDON_MODULES, namespace, name: module }, { [APPROVE_UPDATE]: approval });
  print(escapeControlCharacters(`approved: ${module} ${approval}\n`));
  return 0;
};

const COMMANDS: Readonly<Record<SourceCommand, Command>> = {
  list: listCommand,
  sync: syncCommand,
  approve: approveCommand,
};

/** Reads all ModuleSources. Throws UsageError if there is none. */
async function readSources(reader: Reader): Promise<readonly IModuleSource[]> {
  const { namespace, sources } = await reader.sources();
  if (namespace === undefined)
    throw new UsageError(["no AddonOperator found. Use -n to search another namespace"]);
  if (sources.length === 0) throw new UsageError([`there is no ModuleSource in the namespace ${namespace}`]);
  return sources;
}

/** Namespace and name of a ModuleSource. */
function namespacedName({ metadata }: IModuleSource): { readonly namespace: string; readonly name: string } {
  return { namespace: metadata.namespace ?? "", name: metadata.name };
}

/** Prints ModuleSources with their modules; returns exit code 1 if one is not Ready. */
function printSources(sources: readonly IModuleSource[], { print }: Terminal): number {
  print(escapeControlCharacters(sources.map(sourceText).join("")));
  return readyExitCode(sources);
}

/** The exit code: 1 if a ModuleSource is not Ready. */
function readyExitCode(sources: readonly IModuleSource[]): number {
  return sources.every(({ status }) => readyCondition(status)?.status === "True") ? 0 : 1;
}

/** The condition Ready of a ModuleSource; undefined before the first check. */
function readyCondition(status: Status | undefined): Condition | undefined {
  return status?.conditions?.find(({ type }) => type === "Ready");
}

/** A ModuleSource as text: a line for itself, and one for each module. */
function sourceText({ metadata, status = {} }: IModuleSource): string {
  const { summary = "0", waiting = 0, lastCheck = "never", modules = [], conditions = [] } = status;
  const conditionTexts = conditions.filter(isNoteworthy).map(({ message }) => message);
  const summaryText = `${metadata.name}: ${readyText(status)}, ${summary} modules, ${waiting} waiting, last check ${lastCheck}`;
  return `${[summaryText, ...conditionTexts].join("; ")}\n${modules.map(moduleLine).join("")}`;
}

/** `Ready`, or the reason why the ModuleSource is not. */
function readyText(status: Status): string {
  const ready = readyCondition(status);
  return ready?.status === "True" ? "Ready" : (ready?.reason ?? "not checked yet");
}

/** Whether a condition reports a problem that its message explains, and that no line of a module does. */
function isNoteworthy({ type, status, reason }: Condition): boolean {
  if (type === "Ready") return reason === "Invalid";
  if (type === "Reachable") return status === "False";
  return type === "Withdrawn" || type === "Rejected" || type === "CheckFailed";
}

/** A line for a module: its version, who signed it, its error, and the update that waits, with the reason (`next.held`). */
function moduleLine({ name, version = "none", verifiedBy, error, next }: ListedModule): string {
  const signerText = verifiedBy === undefined ? "" : ` (${verifiedBy})`;
  const updateText = next && `next ${next.version}: ${next.held}`;
  // Before the first installation, the error is the reason why the update waits, which would appear twice.
  const errorText = error === next?.held ? undefined : error;
  const notes = [errorText, updateText];
  return `  ${[`${name} ${version}${signerText}`, ...notes].filter((note) => note !== undefined).join("; ")}\n`;
}
