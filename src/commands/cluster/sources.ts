/** The commands `source list`, `source sync` and `source approve`: they read and annotate objects of the cluster. */

import { UsageError } from "../../config.ts";
import { sleep, systemClock, escapeControlCharacters } from "../../lib/index.ts";
import { APPROVE_UPDATE } from "../../state/index.ts";
import { ADDON_MODULES, MODULE_SOURCES, type IModuleSource } from "../../status/index.ts";
import { REQUESTED_AT } from "../../model/index.ts";
import type { Line, Terminal } from "../table/row.ts";
import { withReader, type Reader } from "./read-resources.ts";

export type SourceCommand = "list" | "sync" | "approve";

type Status = NonNullable<IModuleSource["status"]>;
type Listed = NonNullable<Status["modules"]>[number];

const ASK_MS = 500;
const LONGEST_CHECK_MS = 60_000;

/** Runs a command; returns the exit code. */
export async function runSource(which: SourceCommand, line: Line, terminal: Terminal): Promise<number> {
  return withReader(line, terminal, (reader) => COMMANDS[which](reader, line, terminal));
}

type Command = (reader: Reader, line: Pick<Line, "args">, terminal: Terminal) => Promise<number>;

/** Exits with 1 if a source is not Ready. */
const list: Command = async (reader, _, terminal) => show(await found(reader), terminal);

/** Requests a check of one source or all, and waits for it. */
const sync: Command = async (reader, { args: [name] }, terminal) => {
  const all = await found(reader);
  const chosen = all.filter(({ metadata }) => name === undefined || metadata.name === name);
  if (chosen.length === 0) throw new UsageError([`there is no ModuleSource ${name}`]);
  const token = new Date(systemClock.now()).toISOString();
  for (const source of chosen)
    await reader.annotate({ ...placeOf(source), resource: MODULE_SOURCES }, { [REQUESTED_AT]: token });
  const names = new Set(chosen.map(({ metadata }) => metadata.name));
  const endsAt = systemClock.monotonic() + LONGEST_CHECK_MS;
  for (;;) {
    const now = (await found(reader)).filter(({ metadata }) => names.has(metadata.name));
    if (now.every(({ status }) => status?.lastHandledReconcileAt === token)) return show(now, terminal);
    if (systemClock.monotonic() > endsAt) {
      terminal.printError("The operator has not checked them within a minute; see its log\n");
      return 1;
    }
    await sleep(systemClock, ASK_MS);
  }
};

/** Approves what waits for a module. */
const approve: Command = async (reader, { args: [module = "", version] }, { print }) => {
  const waiting = (await found(reader)).flatMap((source) =>
    (source.status?.modules ?? []).flatMap(({ name, next }) =>
      name === module && next ? [{ source, next }] : [],
    ),
  );
  const [first] = waiting;
  if (first === undefined)
    throw new UsageError([`nothing waits for the module ${module}: see \`source list\``]);
  const { source, next } = first;
  if (version !== undefined && version !== next.version)
    throw new UsageError([`${next.version} waits for the module ${module}, not ${version}`]);
  const approval = `${next.version}@${next.digest}`;
  const { namespace } = placeOf(source);
  await reader.annotate({ resource: ADDON_MODULES, namespace, name: module }, { [APPROVE_UPDATE]: approval });
  print(escapeControlCharacters(`approved: ${module} ${approval}\n`));
  return 0;
};

const COMMANDS: Readonly<Record<SourceCommand, Command>> = { list, sync, approve };

/** All ModuleSources. Throws UsageError without one. */
async function found(reader: Reader): Promise<readonly IModuleSource[]> {
  const { namespace, sources } = await reader.sources();
  if (namespace === undefined)
    throw new UsageError(["no AddonOperator found. Use -n to search another namespace"]);
  if (sources.length === 0) throw new UsageError([`there is no ModuleSource in the namespace ${namespace}`]);
  return sources;
}

function placeOf({ metadata }: IModuleSource): { readonly namespace: string; readonly name: string } {
  return { namespace: metadata.namespace ?? "", name: metadata.name };
}

/** Prints sources and their modules; returns 1 if a source is not Ready. */
function show(sources: readonly IModuleSource[], { print }: Terminal): number {
  print(escapeControlCharacters(sources.map(textOf).join("")));
  return sources.every(({ status }) => readyOf(status)?.status === "True") ? 0 : 1;
}

function readyOf(status: Status | undefined): NonNullable<Status["conditions"]>[number] | undefined {
  return status?.conditions?.find(({ type }) => type === "Ready");
}

function textOf({ metadata, status = {} }: IModuleSource): string {
  const { summary = "0", waiting = 0, lastCheck = "never", modules = [], conditions = [] } = status;
  const news = conditions.filter(isNews).map(({ message }) => message);
  const head = `${metadata.name}: ${stateOf(status)}, ${summary} modules, ${waiting} waiting, last check ${lastCheck}`;
  return `${[head, ...news].join("; ")}\n${modules.map(rowOf).join("")}`;
}

function stateOf(status: Status): string {
  const ready = readyOf(status);
  return ready?.status === "True" ? "Ready" : (ready?.reason ?? "not checked yet");
}

function isNews({ type, status }: { readonly type: string; readonly status: string }): boolean {
  return type === "Withdrawn" || type === "Rejected" || (type === "Reachable" && status === "False");
}

function rowOf({ name, version = "none", verifiedBy, error, next }: Listed): string {
  const by = verifiedBy === undefined ? "" : ` (${verifiedBy})`;
  // What a first installation waits for is its error, too.
  const news = next && `next ${next.version}: ${next.held}`;
  const notes = [error === next?.held ? undefined : error, news];
  return `  ${[`${name} ${version}${by}`, ...notes].filter((note) => note !== undefined).join("; ")}\n`;
}
