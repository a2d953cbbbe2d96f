/** The sub-commands that ask a running operator over its debug socket. */

import { request } from "node:http";
import { join } from "node:path";

/** A request to the debug socket, as a sub-command makes it. */
export interface Call {
  readonly method: "GET" | "POST";
  readonly path: string;
  readonly form?: Readonly<Record<string, string>>;
}

/** Wrong words after the sub-command; the message says what is accepted. */
export class CliError extends Error {}

/** Nothing answers on the debug socket. */
export class NoOperatorError extends Error {}

interface Words {
  readonly words: readonly string[];
  /** Flags as they were typed, by their long names. */
  readonly flags: ReadonlyMap<string, string>;
  readonly output: string | undefined;
}

const SHORT_FLAGS: Readonly<Record<string, string>> = {
  "-w": "--watch",
  "-e": "--show-empty",
  "-g": "--global",
};

/** Flags that are asked for with the path, and their names in its query. */
const QUERIES = {
  "--show-empty": "showEmpty",
  "--global": "global",
  "--explain": "explain",
  "--diff": "diff",
} as const;

/** Flags that the sub-commands read themselves. */
export const CLI_FLAGS = ["-o", "--output", "-t", "--watch"].concat(
  Object.keys(SHORT_FLAGS),
  Object.keys(QUERIES),
);

/** Sub-commands that talk to a running operator. */
export const DEBUG_COMMANDS = ["queue", "global", "module", "config", "raw", "plan"] as const;

interface Takes {
  readonly words: number;
  readonly flags?: readonly string[];
}

const ALONE: Takes = { words: 2 };
const ONE_MORE: Takes = { words: 3 };
const QUEUE: Takes = { words: 2, flags: ["--show-empty", "--watch"] };

/**
 * What may stand behind a sub-command (the first one where nothing does, unless `NEEDS_WORD`), and how many words and
 * which flags it takes then.
 */
const TAKES: Readonly<Record<string, Readonly<Record<string, Takes>>>> = {
  queue: { list: QUEUE, main: QUEUE },
  global: { list: ALONE, values: ALONE, config: ALONE, patches: ALONE, snapshots: ALONE },
  module: {
    list: ALONE,
    "resource-monitor": ALONE,
    graph: ALONE,
    values: { words: 3, flags: ["--global", "--explain"] },
    config: ONE_MORE,
    render: { words: 3, flags: ["--diff"] },
    patches: ONE_MORE,
    snapshots: ONE_MORE,
    why: ONE_MORE,
    diff: ONE_MORE,
    status: ONE_MORE,
    run: ONE_MORE,
  },
  config: { list: ALONE, set: { words: 5 } },
};
/** What has nothing behind it, or any word. */
const ON_ITS_OWN: Readonly<Record<string, Takes>> = { plan: { words: 1 }, raw: ALONE };
const NEEDS_WORD = new Set(["global", "module"]);

/** The request that a sub-command makes. Throws CliError. */
export function callOf(args: readonly string[]): Call & { readonly watch: boolean; readonly format: string } {
  const words = split(args);
  const call = route(words);
  refuseRest(words);
  return { ...call, watch: words.flags.has("--watch"), format: words.output ?? "yaml" };
}

function split(args: readonly string[]): Words {
  const words: string[] = [];
  const flags = new Map<string, string>();
  const queue = [...args];
  let output: string | undefined;
  for (let arg = queue.shift(); arg !== undefined; arg = queue.shift()) {
    const [name = "", inline] = arg.split("=", 2);
    if (name === "-o" || name === "--output") output = formatOf(inline ?? queue.shift() ?? "");
    else if (name === "-t") queue.shift();
    else if (arg.startsWith("-")) flags.set(SHORT_FLAGS[name] ?? name, name);
    else words.push(arg);
  }
  return { words, flags, output };
}

/** Formats that only `module graph` has. */
const DRAWN = ["dot", "mermaid"];

function formatOf(text: string): string {
  if (["text", "yaml", "json", ...DRAWN].includes(text)) return text;
  throw new CliError(`-o: "${text}" is not accepted; use text, yaml or json`);
}

function route(given: Words): Call {
  const [first = "", second = ""] = given.words;
  if (first === "raw") return rawRoute(second);
  if (first === "module" && second === "graph") return graphRoute(given.output ?? "text");
  if (DRAWN.includes(given.output ?? ""))
    throw new CliError(`-o: "${given.output ?? ""}" is for module graph; use text, yaml or json`);
  return plainRoute(given);
}

function plainRoute({ words, flags, output }: Words): Call {
  const [first = "", second = "", ...rest] = words;
  const what = secondWord(first, second);
  const format = output ?? (first === "queue" ? "text" : "yaml");
  const path = `${what}.${format}${queryOf(flags)}`;
  if (first === "plan") return get(`/${path}`);
  if (first === "config" && what === "set") return setParameter(path, rest);
  return first === "module" ? moduleCall(what, path, rest) : get(`/${first}/${path}`);
}

function graphRoute(format: string): Call {
  const isData = format === "yaml" || format === "json";
  return get(isData ? `/module/graph.${format}` : `/module/graph.text?as=${format}`);
}

function moduleCall(what: string, path: string, [name = ""]: readonly string[]): Call {
  if (TAKES["module"]?.[what] === ALONE) return get(`/module/${path}`);
  if (name === "") throw new CliError(`module ${what}: needs the name of a module`);
  const module = `/module/${encodeURIComponent(name)}`;
  return what === "run" ? { method: "POST", path: `${module}/run` } : get(`${module}/${path}`);
}

function setParameter(path: string, [name = "", value = "", duration = ""]: readonly string[]): Call {
  if (name === "" || value === "") throw new CliError("config set: needs a name and a value");
  return { method: "POST", path: `/config/${path}`, form: { name, value, duration } };
}

function rawRoute(path: string): Call {
  if (path === "") throw new CliError("raw: needs a path, such as /discovery");
  return get(path.startsWith("/") ? path : `/${path}`);
}

function secondWord(first: string, given: string): string {
  if (TAKES[first] === undefined) return first;
  const known = Object.keys(TAKES[first]);
  if (given === "" && NEEDS_WORD.has(first)) throw new CliError(`${first}: needs one of ${known.join(", ")}`);
  const word = given === "" ? (known[0] ?? "") : given;
  if (!known.includes(word)) throw new CliError(`"${word}" is not a sub-command; use ${known.join(", ")}`);
  return word;
}

function queryOf(flags: Words["flags"]): string {
  const given = Object.entries(QUERIES).filter(([flag]) => flags.has(flag));
  return given.length === 0 ? "" : `?${given.map(([, name]) => `${name}=true`).join("&")}`;
}

function get(path: string): Call {
  return { method: "GET", path };
}

function refuseRest({ words, flags }: Words): void {
  const name = words.slice(0, 2).join(" ");
  const [first = "", second] = words;
  const behind = TAKES[first];
  const takes =
    behind === undefined ? (ON_ITS_OWN[first] ?? { words: 0 }) : (behind[second ?? "list"] ?? ALONE);
  const extra = words[takes.words];
  if (extra !== undefined) throw new CliError(`"${extra}" is not understood; see addon-operator --help`);
  const stray = [...flags].find(([flag]) => takes.flags?.includes(flag) !== true)?.[1];
  if (stray !== undefined) throw new CliError(`${stray}: no flag of "${name}"; see addon-operator --help`);
}

/**
 * Where to look for the debug socket: the configured path, then the temp directory, where the operator puts it if
 * it cannot use that path.
 */
export function socketPlaces(settings: { debugSocket: string; tmpDir: string }): readonly string[] {
  return [settings.debugSocket, join(settings.tmpDir, "debug.socket")];
}

/** Sends the request to the first of `places` where an operator listens. Throws NoOperatorError. */
export async function callOperator(
  places: readonly string[],
  call: Call,
): Promise<{ status: number; body: string }> {
  for (const place of places) {
    try {
      return await callSocket(place, call);
    } catch (error) {
      if (!(error instanceof NoOperatorError)) throw error;
    }
  }
  throw new NoOperatorError(`no operator listens on ${places.join(" or ")}; set --debug-unix-socket`);
}

/** Sends the request to the socket. Throws NoOperatorError when no operator listens there. */
export function callSocket(socketPath: string, call: Call): Promise<{ status: number; body: string }> {
  return new Promise((resolve, reject) => {
    const sent = request({ socketPath, path: call.path, method: call.method }, (response) => {
      let body = "";
      response.setEncoding("utf8");
      response.on("data", (chunk: string) => void (body += chunk));
      response.on("end", () => resolve({ status: response.statusCode ?? 0, body }));
    });
    sent.on("error", (error) => {
      reject(
        new NoOperatorError(
          `no operator listens on ${socketPath} (${error.message}); set --debug-unix-socket`,
        ),
      );
    });
    sent.end(call.form === undefined ? "" : new URLSearchParams(call.form).toString());
  });
}
