/** What a row of the table of commands says, what its command is given, and the request to the operator that it makes. */

import type { Environment, Settings } from "../../config.ts";

/** A flag as the help shows it, e.g. `-o, --output <FORMAT>` or `--watch`. */
export interface Flag {
  readonly flags: string;
  readonly help: string;
  /** All that it may be, where that is known. */
  readonly values?: readonly string[];
  /** Accepted, but not shown. */
  readonly isHidden?: boolean;
}

/** A command line that was understood. */
export interface Line {
  readonly row: Row;
  readonly args: readonly string[];
  /** Values of flags by their long names in camel case; true for one that stands alone. */
  readonly flags: Readonly<Record<string, string | true | undefined>>;
  /** Settings as they were given on the line. Throws UsageError for what cannot be one. */
  readonly settings: (env: Environment) => {
    readonly settings: Settings;
    readonly warnings: readonly string[];
  };
}

/** What commands have around them. */
export interface World {
  readonly env: Environment;
  readonly print: (text: string) => void;
  /** For what went wrong. */
  readonly complain: (text: string) => void;
  /** Shows a text and asks for a word at the terminal; without one nobody agrees. */
  readonly ask: (shown: string) => Promise<boolean>;
  /** Somebody looks at what is printed: it may be a table, in colours, and drawn anew. */
  readonly isTerminal: boolean;
  /** A terminal is where commands come from, or where answers go to. */
  readonly isTyped?: boolean;
  /** How wide the terminal is; elsewhere lines have no end. */
  readonly columns: number;
}

/** One command. */
export interface Row {
  /** As it is typed: `module values`. */
  readonly words: string;
  /** What stands behind it: `NAME`, `[DURATION]`, `DIR...`. */
  readonly args?: string;
  /** What is missing where that is missing; without it, the usage is told. */
  readonly needs?: string;
  /** One sentence. */
  readonly help: string;
  /** What is to be known besides. */
  readonly more?: string;
  readonly example: string;
  /** For programs: no help lists it. */
  readonly isHidden?: boolean;
  readonly flags?: readonly Flag[];
  /** The request to the operator that it makes, for those that make one. Throws UsageError. */
  readonly call?: (line: Pick<Line, "args" | "flags">) => Call;
  /** The exit code. What it needs is loaded by `import()`, so that no other command waits for it. */
  readonly run: (line: Line, world: World) => number | Promise<number>;
}

/** How it ends, beside 0 where what is waited for has come. */
export const WAIT_ENDS =
  "Ends with 1 when time is up, or the module has been Invalid or RolledBack for five seconds.";

export const WAIT_FLAGS: readonly Flag[] = [
  { flags: "--for <CONDITION>", help: "ready or healthy; default ready", values: ["ready", "healthy"] },
  { flags: "--timeout <DURATION>", help: "how long to wait; default 5m" },
];

/** A request to the debug socket, as a command makes it. */
export interface Call {
  readonly method: "GET" | "POST";
  readonly path: string;
  readonly form?: Readonly<Record<string, string>>;
}

/** A request for what is at this path. */
export function get(path: string): Call {
  return { method: "GET", path };
}

/** Nothing answers on the debug socket. */
export class NoOperatorError extends Error {}
