import type { Readable, Writable } from "node:stream";

import { execa } from "execa";

import { toError } from "../lib/index.ts";

/** What to start. `env` is the whole environment of the child. */
export interface LaunchSpec {
  readonly file: string;
  readonly args: readonly string[];
  readonly cwd: string;
  readonly env: Readonly<Record<string, string>>;
  /** Text for stdin, maybe later; `"pipe"` leaves it open for the caller; undefined = /dev/null. */
  readonly stdin?: { readonly text: string | Uint8Array | Promise<string> } | "pipe" | undefined;
}

/** How a child ended, or why it never began. */
export type Exit =
  | { readonly kind: "exited"; readonly code: number | undefined; readonly signal: string | undefined }
  | { readonly kind: "notStarted"; readonly error: NodeJS.ErrnoException };

/** A started (or not started) child, leader of its own process group. */
export interface Child {
  readonly pid: number | undefined;
  readonly stdin: Writable | undefined;
  readonly stdout: Readable | undefined;
  readonly stderr: Readable | undefined;
  /** When the leader ended; its streams may be held open longer by what it left behind. Never rejects. */
  readonly exit: Promise<Exit>;
}

const STREAMS = {
  stdout: "pipe",
  stderr: "pipe",
  // Bytes are read here, bounded; execa neither keeps nor decodes them.
  buffer: false,
  encoding: "buffer",
  stripFinalNewline: false,
} as const;
/** Failure is a result; the group is ours to end; and the operator's own end waits for nobody (see endChildren). */
const MANNERS = { reject: false, detached: true, cleanup: false, extendEnv: false } as const;

/** Starts a child in a process group of its own. Never throws: a failed start is an `Exit` like any other. */
export function launch(spec: LaunchSpec): Child {
  try {
    const { file, args, cwd, stdin: source } = spec;
    const stdin = source === undefined ? ("ignore" as const) : ("pipe" as const);
    const child = execa(file, args, { ...STREAMS, ...MANNERS, stdin, cwd, env: spec.env });
    if (typeof source === "object") feed(child.stdin, source.text);
    const exit = new Promise<Exit>((resolve) => {
      child.nodeChildProcess.once("exit", (code, signal) => resolve(exited(code, signal)));
      void child.then((result) => resolve(lateExit(result)));
    });
    const { pid, stdout, stderr } = child;
    return { pid, stdin: child.stdin ?? undefined, stdout, stderr, exit };
  } catch (error) {
    const exit = Promise.resolve<Exit>({ kind: "notStarted", error: toError(error) });
    return { pid: undefined, stdin: undefined, stdout: undefined, stderr: undefined, exit };
  }
}

function feed(stdin: Writable | null, text: string | Uint8Array | Promise<string>): void {
  // A child that does not read all of its input is no error: its exit code tells.
  stdin?.on("error", () => {});
  if (text instanceof Promise) void text.then((known) => stdin?.end(known));
  else stdin?.end(text);
}

function exited(code: number | null, signal: string | null): Exit {
  return { kind: "exited", code: code ?? undefined, signal: signal ?? undefined };
}

interface ExecaEnd {
  readonly exitCode?: number | undefined;
  readonly signal?: string | undefined;
  readonly cause?: unknown;
  readonly code?: string | undefined;
  readonly shortMessage?: string | undefined;
}

/** Without an `exit` event the child never began. */
function lateExit(result: ExecaEnd): Exit {
  if (result.exitCode !== undefined || result.signal !== undefined) {
    return exited(result.exitCode ?? null, result.signal ?? null);
  }
  const error: NodeJS.ErrnoException = toError(result.cause ?? result.shortMessage);
  return { kind: "notStarted", error };
}
