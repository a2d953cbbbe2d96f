/** Says in one line why a child was not started, or how it ended. */

import { exists, oneLine } from "../index.ts";
import { readHead, type Exit, type LaunchSpec } from "./child.ts";
import { findAccessObstacle } from "./user-ids/reach.ts";

/** What was started, as far as messages need it. */
type StartedCommand = Pick<LaunchSpec, "file" | "uid" | "cwd">;

const MESSAGE_LIMIT = 300;

/** A failure in one line for people. `isExplained`: it names a cause and a remedy that the last lines of stderr do not name. */
interface ExitDescription {
  readonly message: string;
  readonly isExplained: boolean;
}

/** Describes why the child was not started, or its exit code and the reason in stderr. */
export async function describeExit(
  exit: Exit,
  stderr: string,
  started: StartedCommand,
): Promise<ExitDescription> {
  const explain = (message: string): ExitDescription => ({ message, isExplained: true });
  if (exit.kind === "notStarted")
    return explain(`cannot start ${started.file}: ${await describeStartError(started, exit.error)}`);
  // Under another user id, the file may be inaccessible, which setpriv and shells report in different ways.
  const obstacle = started.uid === undefined ? undefined : findAccessObstacle(started.file);
  if (obstacle !== undefined)
    return explain(`cannot start ${started.file} under user id ${started.uid}: ${obstacle}`);
  const ending = exit.code === undefined ? describeSignal(exit.signal) : `exit code ${exit.code}`;
  const cause = explainFile(started.file) ?? explainError(stderr, exit.code);
  if (cause !== undefined) return explain(`${ending}: ${cause}`);
  const reason = oneLine(findReason(stderr, exit.code), MESSAGE_LIMIT);
  return { message: reason === "" ? ending : `${ending}: ${reason}`, isExplained: false };
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
const CARRIAGE_RETURN = 'its "#!" line ends with a carriage return (CRLF); save the file with LF line ends';

const ELF = "\x7fELF";
/** Where a header has the number of the architecture, and the numbers by name. */
const MACHINE_OFFSET = 18;
const MACHINES: Readonly<Record<string, number>> = { x64: 62, arm64: 183 };

/** Why no system, or not this one, can run the file, with the remedy; undefined if its first bytes do not show that. */
function explainFile(file: string): string | undefined {
  const head = readHead(file);
  if (head.startsWith("\u00ef\u00bb\u00bf#!")) return BYTE_ORDER_MARK;
  if (/^#![^\n]*\r\n/.test(head)) return CARRIAGE_RETURN;
  return isForeignProgram(head)
    ? `it is a program for another processor architecture; build it for ${process.arch}`
    : undefined;
}

/** Whether the file is a program for another processor architecture. */
function isForeignProgram(head: string): boolean {
  const machine = MACHINES[process.arch];
  return head.startsWith(ELF) && machine !== undefined && head.charCodeAt(MACHINE_OFFSET) !== machine;
}

/** What `env` prints (GNU, BusyBox) if it does not find the program that a `#!` line names. */
const MISSING_PROGRAM = /\benv: (?:can't execute )?['\u2018](.+?)['\u2019]: No such file/;
/** What shells print if they do not find a file of the shell library. */
const MISSING_LIBRARY =
  /: (?:cannot open |can't open ['\u2018]?)?(\/shell_lib\.sh|\/frameworks\/[^\s:'\u2019]+)['\u2019]?: No such file/;
const NOT_FOUND = 127;

/** What the errors of shells and `env` mean, with the remedy; undefined for other errors. */
function explainError(stderr: string, code: number | undefined): string | undefined {
  // Without `errexit`, a shell goes on, and then does not find a command of the library.
  const text = code === NOT_FOUND ? stderr : (findReason(stderr, code) ?? "");
  const [, program] = (code === NOT_FOUND && MISSING_PROGRAM.exec(text)) || [];
  if (program !== undefined) return `${program} is not on the PATH; install it in the image of the operator`;
  const [, library] = MISSING_LIBRARY.exec(text) ?? [];
  if (library === undefined) return undefined;
  return `${library} exists only in the image of the operator; load the shell library with source "\${SHELL_LIB_PATH:-/shell_lib.sh}"`;
}

/** The cause of a failed start in words; ENOENT may mean the directory, the file or the interpreter that its first line names. */
async function describeStartError(
  { file, cwd }: StartedCommand,
  error: NodeJS.ErrnoException,
): Promise<string> {
  if (!(await exists(cwd))) return `its working directory ${cwd} does not exist`;
  const cause = error.code === "ENOEXEC" || error.code === "ENOENT" ? explainFile(file) : undefined;
  if (cause !== undefined) return cause;
  if (error.code !== "ENOENT") return START_ERROR_REASONS[error.code ?? ""] ?? error.message;
  if (!file.includes("/")) return "not found on PATH";
  return (await exists(file)) ? describeMissingInterpreter(readHead(file)) : "no such file";
}

/** Says which interpreter of an existing file does not exist: of a script, its `#!` line names it; of a program, it is the loader of the C library. */
function describeMissingInterpreter(head: string): string {
  if (head.startsWith(ELF))
    return "the loader of its C library does not exist; link it statically, or for the C library of the image";
  const [, interpreter = ""] = /^#!\s*(\S*)/.exec(head) ?? [];
  return `the interpreter in its "#!" line does not exist (${interpreter}); install it in the image of the operator, or name another one`;
}
