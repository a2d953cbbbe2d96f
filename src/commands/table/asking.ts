/** The rows of commands that ask a running operator. */

import { UsageError } from "../../config.ts";
import { get, type Flag, type Line, type Row, type Call } from "./row.ts";

const FORMATS = ["text", "yaml", "json"];
const DRAWN = ["dot", "mermaid"];
export const OUTPUT: Flag = { flags: "-o, --output <FORMAT>", help: "text, yaml or json", values: FORMATS };
const DRAWN_OUTPUT: Flag = {
  flags: "-o, --output <FORMAT>",
  help: "text, dot, mermaid, yaml or json",
  values: [...FORMATS, ...DRAWN],
};
/** Scripts for the Go operator give it; it has no meaning here. */
const SOCKET_TIMEOUT: Flag = { flags: "-t <SECONDS>", help: "", isHidden: true };
export const WATCH: Flag = { flags: "-w, --watch", help: "again each second, until it is interrupted" };
const SHOW_EMPTY: Flag = { flags: "-e, --show-empty", help: "empty queues, too" };
const GLOBAL: Flag = { flags: "-g, --global", help: "with the global section" };
const EXPLAIN: Flag = { flags: "--explain", help: "the layer that set each leaf, in place of its value" };
const DIFF: Flag = { flags: "--diff", help: "compared with what the release holds" };

/** Flags that are asked for with the path, by their names in its query. */
const QUERIES = ["showEmpty", "global", "explain", "diff"];

type Given = Pick<Line, "args" | "flags">;

function formatIn({ flags }: Given, fallback: string): string {
  const given = flags["output"];
  // `-o=json` is accepted, too.
  const format = typeof given === "string" ? given.replace(/^=/, "") : fallback;
  if (FORMATS.includes(format) || DRAWN.includes(format)) return format;
  throw new UsageError([`-o: "${format}" is not accepted; use text, yaml or json`]);
}

/** A path with the first argument in place of NAME; YAML, unless the line or `fallback` says otherwise. */
function at(path: string, fallback = "yaml"): NonNullable<Row["call"]> {
  return (given) => {
    const format = formatIn(given, fallback);
    if (DRAWN.includes(format))
      throw new UsageError([`-o: "${format}" is for module graph; use text, yaml or json`]);
    const queries = QUERIES.filter((name) => given.flags[name] === true).map((name) => `${name}=true`);
    const query = queries.length === 0 ? "" : `?${queries.join("&")}`;
    const [name = ""] = given.args;
    return get(`${path.replace("NAME", encodeURIComponent(name))}.${format}${query}`);
  };
}

function graph(given: Given): Call {
  const format = formatIn(given, "text");
  const isData = format === "yaml" || format === "json";
  return get(isData ? `/module/graph.${format}` : `/module/graph.text?as=${format}`);
}

function setParameter(given: Given): Call {
  const [name = "", value = "", duration = ""] = given.args;
  return { ...at("/config/set")(given), method: "POST", form: { name, value, duration } };
}

function raw({ args: [path = ""] }: Given): Call {
  return get(path.startsWith("/") ? path : `/${path}`);
}

type Asking = Omit<Row, "run" | "call"> &
  Required<Pick<Row, "call">> & {
    /** Its answer is text, whatever form is asked for: `-o` is refused. */
    readonly isText?: boolean;
  };

function asking(
  { flags = [], isText = false, ...row }: Asking,
  how: "askOperator" | "askForDiff" | "askForPlan" = "askOperator",
): Row {
  const own = isText || flags.some((each) => each.flags.startsWith("-o")) ? flags : [...flags, OUTPUT];
  return {
    ...row,
    flags: [...own, SOCKET_TIMEOUT],
    run: async (line, world) => (await import("../asking/ask.ts"))[how](line, world),
  };
}

function ofModule(
  what: string,
  help: string,
  { flags = [], more, isText = false }: Pick<Row, "flags" | "more"> & Pick<Asking, "isText"> = {},
): Asking {
  return {
    isText,
    words: `module ${what}`,
    args: "NAME",
    needs: "the name of a module",
    help,
    ...(more === undefined ? {} : { more }),
    example: `module ${what} ingress-nginx${flags.includes(EXPLAIN) ? " --explain" : ""}`,
    flags,
    call: at(`/module/NAME/${what}`),
  };
}

function ofGlobal(what: string, help: string): Row {
  return asking({ words: `global ${what}`, help, example: `global ${what}`, call: at(`/global/${what}`) });
}

/** Commands that ask a running operator. */
export const ASKING: readonly Row[] = [
  asking({
    words: "queue list",
    help: "tasks of the queues, their failures and the next try",
    example: "queue list --watch",
    flags: [SHOW_EMPTY, WATCH],
    call: at("/queue/list", "text"),
  }),
  asking({
    words: "queue main",
    help: "the same of the queue main alone",
    example: "queue main -o json",
    flags: [SHOW_EMPTY, WATCH],
    call: at("/queue/main", "text"),
  }),
  ofGlobal("list", "global hooks"),
  ofGlobal("values", "merged global values"),
  ofGlobal("config", "what the ConfigMap (and overlay) says globally"),
  ofGlobal("patches", "what hooks have patched globally"),
  ofGlobal("snapshots", "what kubernetes bindings of global hooks hold"),
  {
    ...asking({
      words: "module list",
      help: "enabled modules; on a terminal with state, health, drift, version, last run and message",
      more: "In a pipe, or with -o, it is a list of names. With --watch in a pipe each change is a line.",
      example: "module list --watch",
      flags: [WATCH],
      call: at("/module/list"),
    }),
    run: async (line, world) => (await import("../asking/overview.ts")).listModules(line, world),
  },
  asking({
    words: "module resource-monitor",
    help: "objects that are watched for each module",
    example: "module resource-monitor",
    call: at("/module/resource-monitor"),
  }),
  asking({
    words: "module graph",
    help: "modules with their states and what they require",
    example: "module graph -o mermaid",
    flags: [DRAWN_OUTPUT],
    call: graph,
  }),
  asking(ofModule("values", "merged values of a module", { flags: [GLOBAL, EXPLAIN] })),
  asking(ofModule("config", "what the ConfigMap (and overlay) says of a module")),
  asking(ofModule("render", "what helm would make of the values now", { flags: [DIFF], isText: true })),
  asking(ofModule("patches", "what hooks have patched")),
  asking(ofModule("snapshots", "what kubernetes bindings of the module's hooks hold")),
  asking(
    ofModule("why", "why it is on or off, what it waits for, what failed, which objects are gone", {
      isText: true,
    }),
  ),
  asking(ofModule("status", "state, Ready and Healthy as the AddonModule has them")),
  asking(
    ofModule("diff", "what a run would change in the cluster, by dry runs on the API server", {
      isText: true,
      more: "Ends with 10 where anything differs, with 0 where nothing does, and with 1 where that is not known.",
    }),
    "askForDiff",
  ),
  asking({
    ...ofModule("run", "ask for a run of a module now", { isText: true }),
    call: ({ args: [name = ""] }) => ({ method: "POST", path: `/module/${encodeURIComponent(name)}/run` }),
  }),
  asking({
    words: "module rollback",
    isText: true,
    args: "NAME [REVISION]",
    needs: "the name of a module",
    help: "go back to an earlier revision of a module's release",
    more: "Without REVISION to the last that was in force before. It holds until chart or values change, or a run is asked for.",
    example: "module rollback ingress-nginx 3",
    call: ({ args: [name = "", revision = ""] }) => ({
      method: "POST",
      path: `/module/${encodeURIComponent(name)}/rollback`,
      form: { revision },
    }),
  }),
  asking({
    words: "config list",
    help: "runtime parameters",
    example: "config list",
    call: at("/config/list"),
  }),
  asking({
    words: "config set",
    args: "NAME VALUE [DURATION]",
    needs: "a name and a value",
    help: "set a runtime parameter",
    more: "Log level debug falls back after 30 minutes, any other value after DURATION.",
    example: "config set log.level debug 5m",
    call: setParameter,
  }),
  asking(
    {
      words: "plan",
      help: "what a start would install, upgrade, delete and purge",
      more: "Where no operator runs it is found out from files and cluster, with the same settings. Ends with 1 where a start would be refused.",
      example: "plan -o json",
      call: at("/plan"),
    },
    "askForPlan",
  ),
  asking({
    words: "raw",
    isText: true,
    args: "PATH",
    needs: "a path, such as /discovery",
    help: "any path of the debug socket",
    example: "raw /discovery",
    call: raw,
  }),
];
