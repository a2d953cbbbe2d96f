/** The types of the table of commands. */

import { UsageError, type Environment, type ParsedSettings } from "../../../config/settings/index.ts";

/** A flag as the help displays it, e.g. `-o, --output <FORMAT>` or `--watch`. */
export interface Flag {
  readonly flags: string;
  readonly help: string;
  /** The accepted values, if there is a fixed list. */
  readonly values?: readonly string[];
  /** Accepted, but not displayed in the help. */
  readonly isHidden?: boolean;
}

/** Flags with a value, by their long names in camel case; `n` has only a short name. */
type TextFlag =
  | ("for" | "key" | "n" | "output" | "port" | "tag" | "timeout" | "identity" | "trustedRoot" | "caFile")
  | ("chart" | "repo" | "version" | "values" | "configValues" | "kubeVersion" | "language" | "onEvent")
  | ("schedule" | "context" | "review" | "binding" | "item");
type SwitchFlag =
  | ("diff" | "explain" | "follow" | "global" | "plainHttp" | "rbac" | "role" | "showEmpty")
  | ("unsigned" | "watch" | "yes");

/** A parsed command line. */
export interface CommandLine {
  readonly row: CommandRow;
  readonly args: readonly string[];
  readonly flags: Readonly<Partial<Record<TextFlag, string> & Record<SwitchFlag, true>>>;
  /** Settings of the line and the environment. Throws UsageError for invalid ones. */
  readonly settings: (env: Environment) => ParsedSettings;
}

/** The terminal and the environment of a command. */
export interface Terminal {
  readonly env: Environment;
  readonly print: (text: string) => void;
  /** Prints to stderr. */
  readonly printError: (text: string) => void;
  /** Prints a text and has the user confirm it. Without a terminal the answer is no. */
  readonly confirm: (displayed: string) => Promise<boolean>;
  /** stdout is a terminal: output may be a table, in colours, and redrawn. */
  readonly isTerminal: boolean;
  /** stdin or stdout is a terminal. */
  readonly isInteractive?: boolean;
  /** The width of the terminal; infinite without a terminal. */
  readonly columns: number;
}

/** Names that completion fetches: modules of the running operator, AddonModules or ModuleSources of a cluster, or modules whose update waits. */
export type NameKind = "module" | "addonmodule" | "source" | "update";

/** A row of the table of commands: one command with its help and its function. */
export interface CommandRow {
  /** As it is typed: `module values`. */
  readonly words: string;
  /** Its arguments: `NAME`, `[DURATION]`, `DIR...`. */
  readonly args?: string;
  /** What completion offers for each argument: fixed values, or names. */
  readonly offers?: readonly (NameKind | readonly string[])[];
  /** Names the argument in the error for a missing one; the default is the usage. */
  readonly needs?: string;
  /** One sentence. */
  readonly help: string;
  /** More sentences for the help of the command. */
  readonly more?: string;
  readonly example: string;
  /** For programs; no help lists it. */
  readonly isHidden?: boolean;
  readonly flags?: readonly Flag[];
  /** The request that it sends to the operator, if any. Throws UsageError. */
  readonly request?: (line: Pick<CommandLine, "args" | "flags">) => SocketRequest;
  /** Returns the exit code. It loads its code by `import()`, so that other commands start faster. */
  readonly run: (line: CommandLine, terminal: Terminal) => number | Promise<number>;
}

/** The flag of commands whose answer is text or JSON. */
export const TEXT_OR_JSON_FLAG: Flag = {
  flags: "-o, --output <FORMAT>",
  help: "text or json",
  values: ["text", "json"],
};

/** Whether `-o` selects JSON instead of text. Throws UsageError for another format. */
export function selectsJson({ flags: { output = "text" } }: Pick<CommandLine, "flags">): boolean {
  // `-o=json` is accepted, too.
  const format = output.replace(/^=/, "");
  if (format === "text" || format === "json") return format === "json";
  throw new UsageError([`-o: "${output}" is not accepted; use text or json`]);
}

/** A request to the debug socket. */
export interface SocketRequest {
  readonly method: "GET" | "POST";
  readonly path: string;
  readonly form?: Readonly<Record<string, string>>;
}

/** A GET request to the debug socket. */
export function getFromSocket(path: string): SocketRequest {
  return { method: "GET", path };
}

/** No operator listens on the debug socket. */
export class NoOperatorError extends Error {}
