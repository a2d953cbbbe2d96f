/** Starts a child process in a process group of its own, and tells how it ended. */

import type { Readable, Writable } from "node:stream";

import { toError } from "../../lib/index.ts";
import { libc } from "./libc.ts";
import type { Usage } from "../reaper.ts";
import { startByExeca } from "./spawn-execa.ts";
import { LibcSpawner } from "./spawn-libc.ts";

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
