import { request } from "node:http";

/** A call of the debug socket as a sub-command asks for it. */
export interface Call {
  readonly method: "GET" | "POST";
  readonly path: string;
  readonly form?: Readonly<Record<string, string>>;
}

/** Wrong words after the sub-command; the message says what is accepted. */
export class CliError extends Error {}

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

/** Sub-commands that talk to a running operator (design: Debug socket and CLI). */
export const DEBUG_COMMANDS = ["queue", "global", "module", "config", "raw", "plan"] as const;

/** Which call a sub-command makes. Throws CliError. */
export function callOf(args: readonly string[]): Call & { readonly watch: boolean } {
  const words = split(args);
  const watch = words.flags.has("-w") || words.flags.has("--watch");
  return { ...route(words), watch };
}

function split(args: readonly string[]): Words {
  const words: string[] = [];
  const flags = new Set<string>();
  let output: string | undefined;
  for (let index = 0; index < args.length; index++) {
    const arg = args[index] ?? "";
    const [name = "", inline] = arg.split("=", 2);
    if (name === "-o" || name === "--output") output = inline ?? args[++index];
    else if (name === "-t") index += 1;
    else if (arg.startsWith("-")) flags.add(name);
    else words.push(arg);
  }
  if (output !== undefined && !["text", "yaml", "json"].includes(output)) {
    throw new CliError(`-o: "${output}" is not accepted; use text, yaml or json`);
  }
  return { words, flags, output };
}

function route(words: Words): Call {
  const [room = "", what = "", name = "", extra] = words.words;
  const format = words.output ?? (room === "queue" ? "text" : "yaml");
  switch (room) {
    case "queue":
      return get(`/queue/${oneOf(what || "list", ["list", "main"])}.${format}`, showEmpty(words));
    case "config":
      if (what !== "set") return get(`/config/${oneOf(what || "list", ["list"])}.${format}`);
      return {
        method: "POST",
        path: "/config/set",
        form: { name, value: extra ?? "", duration: words.words[4] ?? "" },
      };
    case "global":
      return get(`/global/${oneOf(what, ["list", "values", "config", "patches", "snapshots"])}.${format}`);
    case "module":
      return moduleRoute(words, { what, name, format });
    case "plan":
      return get(`/plan.${format}`);
    default:
      return get(what.startsWith("/") ? what : `/${what}`);
  }
}

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

function moduleRoute(
  { flags }: Words,
  { what, name, format }: { what: string; name: string; format: string },
): Call {
  oneOf(what, MODULE_WORDS);
  if (what === "list" || what === "resource-monitor") return get(`/module/${what}.${format}`);
  if (name === "") throw new CliError(`module ${what}: needs the name of a module`);
  const path = `/module/${encodeURIComponent(name)}/${what}`;
  if (what === "run") return { method: "POST", path };
  const query = new URLSearchParams();
  if (flags.has("-g") || flags.has("--global")) query.set("global", "true");
  if (flags.has("--explain")) query.set("explain", "true");
  if (flags.has("--diff")) query.set("diff", "true");
  return get(`${path}.${format}`, query.size === 0 ? "" : `?${query.toString()}`);
}

function showEmpty({ flags }: Words): string {
  return flags.has("-e") || flags.has("--show-empty") ? "?showEmpty=true" : "";
}

function get(path: string, query = ""): Call {
  return { method: "GET", path: `${path}${query}` };
}

function oneOf(word: string, known: readonly string[]): string {
  if (!known.includes(word)) throw new CliError(`"${word}" is not a sub-command; use ${known.join(", ")}`);
  return word;
}

/** Makes the call on the socket. Throws when no operator listens there. */
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
        new CliError(`no operator listens on ${socketPath} (${error.message}); set --debug-unix-socket`),
      );
    });
    sent.end(call.form === undefined ? "" : new URLSearchParams(call.form).toString());
  });
}
