/** Says in one line why a child was not started, or how it ended. */

import { attempt, exists, oneLine, readRegularFile } from "../index.ts";
import type { Exit, LaunchSpec } from "./child.ts";
import { findAccessObstacle } from "./user-ids/reach.ts";

/** What was started, as far as messages need it. */
type StartedCommand = Pick<LaunchSpec, "file" | "uid" | "cwd">;

const MESSAGE_LIMIT = 300;

/** One line for people: why the child was not started, or its exit code and the reason in stderr. */
export async function describeExit(exit: Exit, stderr: string, started: StartedCommand): Promise<string> {
  if (exit.kind === "notStarted")
    return `cannot start ${started.file}: ${await describeStartError(started, exit.error)}`;
  // Under another user id, the file may be inaccessible, which setpriv and shells report in different ways.
  const obstacle = started.uid === undefined ? undefined : findAccessObstacle(started.file);
  if (obstacle !== undefined) return `cannot start ${started.file} under user id ${started.uid}: ${obstacle}`;
  const ending = exit.code === undefined ? describeSignal(exit.signal) : `exit code ${exit.code}`;
  // The system does not find the interpreter of such a script and runs a shell, which takes the first line for a command.
  const reason = stderr.includes("\ufeff#!")
    ? BYTE_ORDER_MARK
    : oneLine(findReason(stderr, exit.code), MESSAGE_LIMIT);
  return reason === "" ? ending : `${ending}: ${reason}`;
}

/** How a signal ended a child. The operator reports the SIGKILL that it sends itself in other words. */
function describeSignal(signal: string | undefined): string {
  return signal === "SIGKILL"
    ? "ended by SIGKILL, which the system sends when memory is short"
    : `ended by ${signal}`;
}

/** The line of stderr that says why a program failed: the last one, or for a Go program that panics (exit code 2) the one before its stack. */
function findReason(stderr: string, code: number | undefined): string | undefined {
  const lines = stderr.trimEnd().split("\n");
  const panic = code === 2 ? lines.findLast((line) => /^(?:panic|fatal error): /.test(line)) : undefined;
  return panic ?? lines.at(-1);
}

const START_ERROR_REASONS: Readonly<Record<string, string>> = {
  EACCES: "permission denied; is it executable (chmod +x), and is the volume not mounted noexec?",
  ENOEXEC: 'the system does not know how to run it; a script needs a first line like "#!/bin/bash"',
  ETXTBSY: "the file is being written just now",
  E2BIG: "the environment or the arguments are too long for the system",
  EAGAIN: "the system allows no more processes (pids limit)",
  ENOMEM: "the system has no memory left for another process",
  EMFILE: "too many files are open in the operator",
  ENFILE: "too many files are open on the machine",
};

const BYTE_ORDER_MARK =
  'a byte order mark precedes its "#!" line; save the file as UTF-8 without a byte order mark';

/** Whether a script begins with the byte order mark that some editors write. */
function beginsWithByteOrderMark(file: string): boolean {
  const text = attempt(() => readRegularFile(file, MAX_SCRIPT_BYTES).toString("utf8"));
  return text?.startsWith("\ufeff") === true;
}

const MAX_SCRIPT_BYTES = 1024 * 1024;

/** The cause of a failed start in words; ENOENT may mean the directory, the file or the interpreter that its first line names. */
async function describeStartError(
  { file, cwd }: StartedCommand,
  error: NodeJS.ErrnoException,
): Promise<string> {
  if (!(await exists(cwd))) return `its working directory ${cwd} does not exist`;
  if (error.code === "ENOEXEC" && beginsWithByteOrderMark(file)) return BYTE_ORDER_MARK;
  if (error.code !== "ENOENT") return START_ERROR_REASONS[error.code ?? ""] ?? error.message;
  if (!file.includes("/")) return "not found on PATH";
  return (await exists(file)) ? 'the interpreter in its "#!" line does not exist' : "no such file";
}
