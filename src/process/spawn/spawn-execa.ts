/** Starts children with execa, where the C library cannot be called. */

import { execa } from "execa";

import { toError } from "../../lib/index.ts";
import type { Child, Exit, LaunchSpec } from "./child.ts";

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
