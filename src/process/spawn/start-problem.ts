/** Explains why a child could not be started. */

import { stat } from "node:fs/promises";

/** Why a child could not be started, with the remedy. */
export async function explainStart(
  spec: { file: string; cwd: string },
  error: NodeJS.ErrnoException,
): Promise<string> {
  if (!(await exists(spec.cwd)))
    return `cannot start ${spec.file}: its working directory ${spec.cwd} does not exist`;
  return `cannot start ${spec.file}: ${await reason(spec.file, error)}`;
}

const REASONS: Readonly<Record<string, string>> = {
  EACCES: "permission denied; is it executable (chmod +x), and is the volume not mounted noexec?",
  ENOEXEC: 'the system does not know how to run it; a script needs a first line like "#!/bin/bash"',
  ETXTBSY: "the file is being written just now",
  E2BIG: "the environment or the arguments are too long for the system",
  EAGAIN: "the system allows no more processes (pids limit)",
  ENOMEM: "the system has no memory left for another process",
  EMFILE: "too many files are open in the operator",
  ENFILE: "too many files are open on the machine",
};

async function reason(file: string, error: NodeJS.ErrnoException): Promise<string> {
  if (error.code !== "ENOENT") return REASONS[error.code ?? ""] ?? error.message;
  if (!file.includes("/")) return "not found on PATH";
  return (await exists(file)) ? 'the interpreter in its "#!" line does not exist' : "no such file";
}

async function exists(path: string): Promise<boolean> {
  return stat(path).then(
    () => true,
    () => false,
  );
}
