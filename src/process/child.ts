/** Starts a child process in a process group of its own, and tells how it ended: through the C library, or with execa. */

import type { Readable, Writable } from "node:stream";

import { execa } from "execa";

import { toError } from "../lib/index.ts";
import { libc } from "./libc.ts";
import { LibcSpawner } from "./spawn-libc.ts";
import type { Usage } from "./spawn-libc.ts";

/** What to start. `env` is the whole environment of the child. */
export interface LaunchSpec {
  readonly file: string;
  readonly args: readonly string[];
  readonly cwd: string;
  readonly env: Readonly<Record<string, string>>;
  /** A pipe that the caller writes to; undefined = /dev/null. */
  readonly stdin?: "pipe" | undefined;
}

/** How a child ended, or why it never began. */
export type Exit =
  | {
      readonly kind: "exited";
      readonly code: number | undefined;
      readonly signal: string | undefined;
      readonly usage: Usage | undefined;
    }
  | { readonly kind: "notStarted"; readonly error: NodeJS.ErrnoException };

/** A child that was started (or could not be), leader of its own process group. */
export interface Child {
  readonly pid: number | undefined;
  readonly stdin: Writable | undefined;
  readonly stdout: Readable | undefined;
  readonly stderr: Readable | undefined;
  /** Resolves when the leader has ended; processes it left behind may hold its streams open longer. Never rejects. */
  readonly exit: Promise<Exit>;
}

type Start = (spec: LaunchSpec) => Child;

let best: Start | undefined;

/** Starts through the C library where possible (see LibcSpawner). */
function bestStart(): Start {
  const library = libc();
  if (library === undefined) return startByExeca;
  const spawner = new LibcSpawner(library);
  return (spec) => spawner.start(spec);
}

/** Starts a child in a process group of its own. Never throws: a failed start is an `Exit` too. */
export function launch(spec: LaunchSpec): Child {
  try {
    best ??= bestStart();
    return best(spec);
  } catch (error) {
    const exit = Promise.resolve<Exit>({ kind: "notStarted", error: toError(error) });
    return { pid: undefined, stdin: undefined, stdout: undefined, stderr: undefined, exit };
  }
}

const STREAMS = {
  stdout: "pipe",
  stderr: "pipe",
  // The output is read here, with a limit; execa neither keeps nor decodes it.
  buffer: false,
  encoding: "buffer",
  stripFinalNewline: false,
} as const;
/** A failure is a result; the group is ended here; and the operator's own end waits for nobody (see endChildren). */
const MANNERS = { reject: false, detached: true, cleanup: false, extendEnv: false } as const;

/** Starts a child that leads a process group of its own. Throws errors that are known at once. */
export function startByExeca(spec: LaunchSpec): Child {
  const { file, args, cwd, env } = spec;
  const stdin = spec.stdin === undefined ? ("ignore" as const) : ("pipe" as const);
  const child = execa(file, args, { ...STREAMS, ...MANNERS, stdin, cwd, env });
  const exit = new Promise<Exit>((resolve) => {
    child.nodeChildProcess.once("exit", (code, signal) => resolve(exited(code, signal)));
    void child.then((result) => resolve(lateExit(result)));
  });
  const { pid, stdout, stderr } = child;
  return { pid, stdin: child.stdin ?? undefined, stdout, stderr, exit };
}

function exited(code: number | null, signal: string | null): Exit {
  return { kind: "exited", code: code ?? undefined, signal: signal ?? undefined, usage: undefined };
}

interface ExecaEnd {
  readonly exitCode?: number | undefined;
  readonly signal?: string | undefined;
  readonly cause?: unknown;
  readonly code?: string | undefined;
  readonly shortMessage?: string | undefined;
}

/** Without an `exit` event the child was never started. */
function lateExit(result: ExecaEnd): Exit {
  if (result.exitCode !== undefined || result.signal !== undefined) {
    return exited(result.exitCode ?? null, result.signal ?? null);
  }
  const error: NodeJS.ErrnoException = toError(result.cause ?? result.shortMessage);
  return { kind: "notStarted", error };
}
