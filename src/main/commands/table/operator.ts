/** The rows of commands that query a running operator: each sends an HTTP request to its debug socket (`/module/NAME/values.yaml`). */

import { UsageError } from "../../../config/settings/index.ts";
import { LOG_LEVELS } from "../../../base/index.ts";
import { getFromSocket, type Flag, type CommandLine, type CommandRow, type SocketRequest } from "./row.ts";

const FORMATS = ["text", "yaml", "json"];
const GRAPH_FORMATS = ["dot", "mermaid"];
export const OUTPUT_FLAG: Flag = {
  flags: "-o, --output <FORMAT>",
  help: "text, yaml, or json",
  values: FORMATS,
};
const GRAPH_OUTPUT_FLAG: Flag = {
  flags: "-o, --output <FORMAT>",
  help: "text, dot, mermaid, yaml, or json",
  values: [...FORMATS, ...GRAPH_FORMATS],
};
/** Ignored: scripts for the Go operator set it. */
const SOCKET_TIMEOUT_FLAG: Flag = { flags: "-t <SECONDS>", help: "", isHidden: true };
export const WATCH_FLAG: Flag = {
  flags: "-w, --watch",
  help: "repeat every second until you interrupt the command",
};
const SHOW_EMPTY_FLAG: Flag = { flags: "-e, --show-empty", help: "include empty queues" };
const GLOBAL_FLAG: Flag = { flags: "-g, --global", help: "include the global section" };
const EXPLAIN_FLAG: Flag = {
  flags: "--explain",
  help: "print the layer of each value instead of the value",
};
const DIFF_FLAG: Flag = { flags: "--diff", help: "print the differences from the manifest of the release" };

/** Flags that become query parameters of the same name. */
const QUERY_FLAGS = ["showEmpty", "global", "explain", "diff"] as const;

type Arguments = Pick<CommandLine, "args" | "flags">;

/** The format of `-o`, or `fallback` without the flag. Throws UsageError for an unknown format. */
function parseFormat({ flags }: Arguments, fallback: string): string {
  // `-o=json` is accepted, too.
  const format = flags.output?.replace(/^=/, "") ?? fallback;
  if (FORMATS.includes(format) || GRAPH_FORMATS.includes(format)) return format;
  throw new UsageError([`-o: "${format}" is not accepted; use text, yaml or json`]);
}

/** Returns a function that builds the GET request for `path`, with the first argument in place of NAME and the format of `-o` as its ending. */
function requestBuilder(path: string, fallback = "yaml"): NonNullable<CommandRow["request"]> {
  return ({ args, flags }) => {
    const format = parseFormat({ args, flags }, fallback);
    if (GRAPH_FORMATS.includes(format))
      throw new UsageError([`-o: "${format}" is for module graph; use text, yaml or json`]);
    const queries = QUERY_FLAGS.filter((name) => flags[name] === true).map((name) => `${name}=true`);
    const query = queries.length === 0 ? "" : `?${queries.join("&")}`;
    const [name = ""] = args;
    return getFromSocket(`${path.replace("NAME", encodeURIComponent(name))}.${format}${query}`);
  };
}

/** The request of `module graph`: as data, or drawn in another format. */
function buildGraphRequest(line: Arguments): SocketRequest {
  const format = parseFormat(line, "text");
  const isData = format === "yaml" || format === "json";
  return getFromSocket(isData ? `/module/graph.${format}` : `/module/graph.text?as=${format}`);
}

/** The request of `config set`. */
function buildSetRequest(line: Arguments): SocketRequest {
  const [name = "", value = "", duration = ""] = line.args;
  return { ...requestBuilder("/config/set")(line), method: "POST", form: { name, value, duration } };
}

/** A command that queries a running operator, before `operatorRow` completes it. */
type OperatorCommand = Omit<CommandRow, "run" | "example"> & {
  /** Default: the words of the command. */
  readonly example?: string;
  /** The response is always text, so the command has no flag `-o`. */
  readonly isText?: boolean;
  /** The function of `operator/query.ts` that prints the response. */
  readonly printer?: "printResponse" | "printDiff" | "printPlan";
};

/**
 * The row of a command that sends one request and prints the response by the function `printer`. By default, `module list` requests
 * `/module/list`. A command whose response is only text has no flag `-o`.
 */
function operatorRow({ flags = [], isText, printer = "printResponse", ...row }: OperatorCommand): CommandRow {
  const hasOutputFlag = flags.some((each) => each.flags.startsWith("-o"));
  const commandFlags = isText === true || hasOutputFlag ? flags : [...flags, OUTPUT_FLAG];
  return {
    example: row.words,
    request: requestBuilder(`/${row.words.replace(" ", "/")}`),
    ...row,
    flags: [...commandFlags, SOCKET_TIMEOUT_FLAG],
    run: async (line, terminal) => (await import("../operator/query.ts"))[printer](line, terminal),
  };
}

/** The row of `module VIEW NAME`, which prints one view of a module, such as its values. */
function moduleRow(
  view: string,
  help: string,
  options: Pick<OperatorCommand, "flags" | "more" | "isText" | "printer" | "request"> = {},
): CommandRow {
  return operatorRow({
    request: requestBuilder(`/module/NAME/${view}`),
    ...options,
    words: `module ${view}`,
    args: "NAME",
    offers: ["module"],
    needs: "the name of a module",
    help,
    example: `module ${view} ingress-nginx${options.flags?.includes(EXPLAIN_FLAG) === true ? " --explain" : ""}`,
  });
}

/** The path of a part of a module on the debug socket. */
function modulePath(name: string, part: string): string {
  return `/module/${encodeURIComponent(name)}/${part}`;
}

export const OPERATOR_COMMANDS: readonly CommandRow[] = [
  operatorRow({
    words: "queue list",
    help: "print the tasks of the queues, their failures, and the time of the next retry",
    example: "queue list --watch",
    flags: [SHOW_EMPTY_FLAG, WATCH_FLAG],
    request: requestBuilder("/queue/list", "text"),
  }),
  operatorRow({
    words: "queue main",
    help: "print the tasks of the queue main",
    example: "queue main -o json",
    flags: [SHOW_EMPTY_FLAG, WATCH_FLAG],
    request: requestBuilder("/queue/main", "text"),
  }),
  operatorRow({ words: "global list", help: "print the global hooks" }),
  operatorRow({ words: "global values", help: "print the merged global values" }),
  operatorRow({ words: "global config", help: "print the global values in the ConfigMap and the overlay" }),
  operatorRow({ words: "global patches", help: "print the patches that hooks make to the global values" }),
  operatorRow({
    words: "global snapshots",
    help: "print the snapshots of kubernetes bindings of global hooks",
  }),
  {
    ...operatorRow({
      words: "module list",
      help: "print the enabled modules",
      more: "On a terminal, the output is a table with the state, health, drift, version, last run, and message of each module. In a pipe and with -o, the output contains only names. In a pipe with --watch, the output contains a line for each change.",
      example: "module list --watch",
      flags: [WATCH_FLAG],
    }),
    run: async (line, terminal) => (await import("../operator/overview.ts")).listModules(line, terminal),
  },
  operatorRow({
    words: "module resource-monitor",
    help: "print the objects that the operator watches for each module",
  }),
  operatorRow({
    words: "module graph",
    help: "print the modules with their states and requirements",
    example: "module graph -o mermaid",
    flags: [GRAPH_OUTPUT_FLAG],
    request: buildGraphRequest,
  }),
  moduleRow("values", "print the merged values of a module", { flags: [GLOBAL_FLAG, EXPLAIN_FLAG] }),
  moduleRow("config", "print the values of a module in the ConfigMap and the overlay", {
    flags: [GLOBAL_FLAG],
  }),
  moduleRow("render", "print the manifest that Helm renders with the current values", {
    flags: [DIFF_FLAG],
    isText: true,
  }),
  moduleRow("patches", "print the patches that hooks make to the values of a module"),
  moduleRow("snapshots", "print the snapshots of kubernetes bindings of the module's hooks"),
  moduleRow(
    "why",
    "print why a module is enabled or disabled, what it waits for, its failures, and its missing objects",
    { request: requestBuilder("/module/NAME/why", "text") },
  ),
  moduleRow("status", "print the state of the AddonModule and its conditions Ready and Healthy"),
  moduleRow("diff", "print the changes that a run would make in the cluster", {
    isText: true,
    more: "The command uses dry runs on the API server. The exit code is 10 if there are differences, 0 if there are none, and 1 if the comparison fails.",
    printer: "printDiff",
  }),
  moduleRow("run", "request a run of a module", {
    isText: true,
    request: ({ args: [name = ""] }) => ({ method: "POST", path: modulePath(name, "run") }),
  }),
  operatorRow({
    words: "module rollback",
    isText: true,
    args: "NAME [REVISION]",
    offers: ["module"],
    needs: "the name of a module",
    help: "roll the release of a module back to an earlier revision",
    more: "The default REVISION is the revision before the current one. The rollback stays in effect until you change the chart or the values or request a run.",
    example: "module rollback ingress-nginx 3",
    request: ({ args: [name = "", revision = ""] }) => ({
      method: "POST",
      path: modulePath(name, "rollback"),
      form: { revision },
    }),
  }),
  operatorRow({ words: "config list", help: "print the runtime parameters" }),
  operatorRow({
    words: "config set",
    args: "NAME VALUE [DURATION]",
    offers: [["log.level"], LOG_LEVELS],
    needs: "a name and a value",
    help: "set a runtime parameter",
    more: "After DURATION, the operator restores the previous value. Without DURATION, the operator resets the log level debug after 30 minutes and keeps any other value.",
    example: "config set log.level debug 5m",
    request: buildSetRequest,
  }),
  operatorRow({
    words: "plan",
    help: "print what a start would install, upgrade, delete, and purge",
    more: "If no operator runs, or with `--modules-dir`, `--global-hooks-dir`, or `--namespace`, the command computes the plan from the files and the cluster. In this case, set the same settings as for the operator. The exit code is 1 if a start would fail.",
    example: "plan -o json",
    printer: "printPlan",
  }),
  operatorRow({
    words: "raw",
    isText: true,
    args: "PATH",
    needs: "a path, such as /discovery",
    help: "print the page of the debug socket with this path",
    example: "raw /discovery",
    request: ({ args: [path = ""] }) => getFromSocket(path.startsWith("/") ? path : `/${path}`),
  }),
];
