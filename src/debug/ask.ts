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
  readonly flags: ReadonlySet<string>;
  readonly output: string | undefined;
}

/** Flags that the sub-commands read themselves. */
export const CLI_FLAGS = [
  "-o",
  "--output",
  "-w",
  "--watch",
  "-e",
  "--show-empty",
  "-g",
  "--global",
  "--explain",
  "--diff",
  "-t",
];

/** Sub-commands that talk to a running operator. */
export const DEBUG_COMMANDS = ["queue", "global", "module", "config", "raw", "plan"] as const;

/** The request that a sub-command makes. Throws CliError. */
export function callOf(args: readonly string[]): Call & { readonly watch: boolean; readonly format: string } {
  const words = split(args);
  const watch = words.flags.has("-w") || words.flags.has("--watch");
  const call = route(words);
  refuseRest(words);
  return { ...call, watch, format: words.output ?? "yaml" };
}

interface Takes {
  readonly words: number;
  readonly flags?: readonly string[];
}

/** How many words and which flags a sub-command takes, by its first two words, else by its first one. */
const TAKES: Readonly<Record<string, Takes>> = {
  queue: { words: 2, flags: ["-e", "--show-empty", "-w", "--watch"] },
  global: { words: 2 },
  config: { words: 2 },
  "config set": { words: 5 },
  module: { words: 3 },
  "module list": { words: 2 },
  "module resource-monitor": { words: 2 },
  "module values": { words: 3, flags: ["-g", "--global", "--explain"] },
  "module render": { words: 3, flags: ["--diff"] },
  plan: { words: 1 },
  raw: { words: 2 },
};

function refuseRest({ words, flags }: Words): void {
  const name = words.slice(0, 2).join(" ");
  const takes = TAKES[name] ?? TAKES[words[0] ?? ""] ?? { words: 0 };
  const extra = words[takes.words];
  if (extra !== undefined) throw new CliError(`"${extra}" is not understood; see addon-operator --help`);
  const stray = [...flags].find((flag) => takes.flags?.includes(flag) !== true);
  if (stray !== undefined) throw new CliError(`${stray}: no flag of "${name}"; see addon-operator --help`);
}

function split(args: readonly string[]): Words {
  const words: string[] = [];
  const flags = new Set<string>();
  const queue = [...args];
  let output: string | undefined;
  for (let arg = queue.shift(); arg !== undefined; arg = queue.shift()) {
    const [name = "", inline] = arg.split("=", 2);
    if (name === "-o" || name === "--output") output = formatOf(inline ?? queue.shift() ?? "");
    else if (name === "-t") queue.shift();
    else if (arg.startsWith("-")) flags.add(name);
    else words.push(arg);
  }
  return { words, flags, output };
}

function formatOf(text: string): string {
  if (["text", "yaml", "json"].includes(text)) return text;
  throw new CliError(`-o: "${text}" is not accepted; use text, yaml or json`);
}

type Route = (words: Words, format: string) => Call;

function route(words: Words): Call {
  const [room = "", what = ""] = words.words;
  const known = ROUTES[room];
  if (known === undefined) return rawRoute(what);
  return known(words, words.output ?? (room === "queue" ? "text" : "yaml"));
}

function rawRoute(path: string): Call {
  if (path === "") throw new CliError("raw: needs a path, such as /discovery");
  return get(path.startsWith("/") ? path : `/${path}`);
}

const ROUTES: Readonly<Record<string, Route>> = {
  queue: (words, format) =>
    get(`/queue/${oneOf("queue", words.words[1] ?? "list", ["list", "main"])}.${format}`, showEmpty(words)),
  config: configRoute,
  global: ({ words }, format) => get(`/global/${oneOf("global", words[1] ?? "", GLOBAL_WORDS)}.${format}`),
  module: moduleRoute,
  plan: (_words, format) => get(`/plan.${format}`),
};

function configRoute({ words }: Words, format: string): Call {
  const [, what = "list", name = "", value = "", duration = ""] = words;
  if (oneOf("config", what, ["list", "set"]) === "list") return get(`/config/list.${format}`);
  if (name === "" || value === "") throw new CliError("config set: needs a name and a value");
  return { method: "POST", path: `/config/set.${format}`, form: { name, value, duration } };
}

const GLOBAL_WORDS = ["list", "values", "config", "patches", "snapshots"];
const MODULE_WORDS = [
  "list",
  "resource-monitor",
  "values",
  "config",
  "render",
  "patches",
  "snapshots",
  "why",
  "run",
];

function moduleRoute({ flags, words }: Words, format: string): Call {
  const [, what = "", name = ""] = words;
  oneOf("module", what, MODULE_WORDS);
  if (what === "list" || what === "resource-monitor") return get(`/module/${what}.${format}`);
  if (name === "") throw new CliError(`module ${what}: needs the name of a module`);
  const path = `/module/${encodeURIComponent(name)}/${what}`;
  if (what === "run") return { method: "POST", path };
  return get(`${path}.${format}`, queryOf(flags));
}

const FLAG_QUERIES = {
  "-g": "global",
  "--global": "global",
  "--explain": "explain",
  "--diff": "diff",
} as const;

function queryOf(flags: ReadonlySet<string>): string {
  const query = new URLSearchParams();
  for (const [flag, name] of Object.entries(FLAG_QUERIES)) if (flags.has(flag)) query.set(name, "true");
  return query.size === 0 ? "" : `?${query.toString()}`;
}

function showEmpty({ flags }: Words): string {
  return flags.has("-e") || flags.has("--show-empty") ? "?showEmpty=true" : "";
}

function get(path: string, query = ""): Call {
  return { method: "GET", path: `${path}${query}` };
}

function oneOf(room: string, word: string, known: readonly string[]): string {
  if (word === "") throw new CliError(`${room}: needs one of ${known.join(", ")}`);
  if (!known.includes(word)) throw new CliError(`"${word}" is not a sub-command; use ${known.join(", ")}`);
  return word;
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
