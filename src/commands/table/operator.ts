/** The rows of commands that query a running operator: each sends an HTTP request to its debug socket (`/module/NAME/values.yaml`). */

import { UsageError } from "../../config.ts";
import { getFromSocket, type Flag, type CommandLine, type CommandRow, type SocketRequest } from "./row.ts";

const FORMATS = ["text", "yaml", "json"];
const GRAPH_FORMATS = ["dot", "mermaid"];
export const OUTPUT_FLAG: Flag = {
  flags: "-o, --output <FORMAT>",
  help: "text, yaml or json",
  values: FORMATS,
};
const GRAPH_OUTPUT_FLAG: Flag = {
  flags: "-o, --output <FORMAT>",
  help: "text, dot, mermaid, yaml or json",
  values: [...FORMATS, ...GRAPH_FORMATS],
};
/** Ignored: scripts for the Go operator set it. */
const SOCKET_TIMEOUT_FLAG: Flag = { flags: "-t <SECONDS>", help: "", isHidden: true };
export const WATCH_FLAG: Flag = { flags: "-w, --watch", help: "repeat each second until interrupted" };
const SHOW_EMPTY_FLAG: Flag = { flags: "-e, --show-empty", help: "include empty queues" };
const GLOBAL_FLAG: Flag = { flags: "-g, --global", help: "include the global section" };
const EXPLAIN_FLAG: Flag = {
  flags: "--explain",
  help: "the layer that set each value, instead of the value",
};
const DIFF_FLAG: Flag = { flags: "--diff", help: "differences from the manifest of the release" };

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
    help: "tasks of the queues, their failures and the next try",
    example: "queue list --watch",
    flags: [SHOW_EMPTY_FLAG, WATCH_FLAG],
    request: requestBuilder("/queue/list", "text"),
  }),
  operatorRow({
    words: "queue main",
    help: "tasks of the queue main only",
    example: "queue main -o json",
    flags: [SHOW_EMPTY_FLAG, WATCH_FLAG],
    request: requestBuilder("/queue/main", "text"),
  }),
  operatorRow({ words: "global list", help: "global hooks" }),
  operatorRow({ words: "global values", help: "merged global values" }),
  operatorRow({ words: "global config", help: "global values of the ConfigMap (and overlay)" }),
  operatorRow({ words: "global patches", help: "patches of global values by hooks" }),
  operatorRow({ words: "global snapshots", help: "snapshots of kubernetes bindings of global hooks" }),
  {
    ...operatorRow({
      words: "module list",
      help: "enabled modules; on a terminal with state, health, drift, version, last run and message",
      more: "In a pipe, or with -o, it is a list of names. With --watch in a pipe each change is a line.",
      example: "module list --watch",
      flags: [WATCH_FLAG],
    }),
    run: async (line, terminal) => (await import("../operator/overview.ts")).listModules(line, terminal),
  },
  operatorRow({ words: "module resource-monitor", help: "objects that are watched for each module" }),
  operatorRow({
    words: "module graph",
    help: "modules with their states and what they require",
    example: "module graph -o mermaid",
    flags: [GRAPH_OUTPUT_FLAG],
    request: buildGraphRequest,
  }),
  moduleRow("values", "merged values of a module", { flags: [GLOBAL_FLAG, EXPLAIN_FLAG] }),
  moduleRow("config", "values of a module in the ConfigMap (and overlay)"),
  moduleRow("render", "the manifest that helm renders with the current values", {
    flags: [DIFF_FLAG],
    isText: true,
  }),
  moduleRow("patches", "patches of a module's values by hooks"),
  moduleRow("snapshots", "snapshots of kubernetes bindings of the module's hooks"),
  moduleRow(
    "why",
    "why it is enabled or disabled, what it waits for, what failed, which objects are missing",
    { isText: true },
  ),
  moduleRow("status", "state, Ready and Healthy, as in the AddonModule"),
  moduleRow("diff", "what a run would change in the cluster, by dry runs on the API server", {
    isText: true,
    more: "Exits with 10 for differences, with 0 for none, and with 1 if the comparison fails.",
    printer: "printDiff",
  }),
  moduleRow("run", "request a run of a module now", {
    isText: true,
    request: ({ args: [name = ""] }) => ({ method: "POST", path: modulePath(name, "run") }),
  }),
  operatorRow({
    words: "module rollback",
    isText: true,
    args: "NAME [REVISION]",
    needs: "the name of a module",
    help: "go back to an earlier revision of a module's release",
    more: "Without REVISION it restores the revision before the current one. The rollback stays in force until you change chart or values, or request a run.",
    example: "module rollback ingress-nginx 3",
    request: ({ args: [name = "", revision = ""] }) => ({
      method: "POST",
      path: modulePath(name, "rollback"),
      form: { revision },
    }),
  }),
  operatorRow({ words: "config list", help: "runtime parameters" }),
  operatorRow({
    words: "config set",
    args: "NAME VALUE [DURATION]",
    needs: "a name and a value",
    help: "set a runtime parameter",
    more: "The value reverts after DURATION; log level debug reverts after 30 minutes without one.",
    example: "config set log.level debug 5m",
    request: buildSetRequest,
  }),
  operatorRow({
    words: "plan",
    help: "what a start would install, upgrade, delete and purge",
    more: "Without a running operator the command computes the plan itself from files and cluster, with the same settings. Exits with 1 if a start would fail.",
    example: "plan -o json",
    printer: "printPlan",
  }),
  operatorRow({
    words: "raw",
    isText: true,
    args: "PATH",
    needs: "a path, such as /discovery",
    help: "any path of the debug socket",
    example: "raw /discovery",
    request: ({ args: [path = ""] }) => getFromSocket(path.startsWith("/") ? path : `/${path}`),
  }),
];
