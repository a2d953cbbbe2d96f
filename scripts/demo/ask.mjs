// The options of the demo, and its questions to the user. Plain Node 20, no dependencies.
import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { homedir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline/promises";
import { parseArgs, promisify } from "node:util";
import { onPath } from "../setup/tools.mjs";

const run = promisify(execFile);

export function parseOptions(args = process.argv.slice(2)) {
  const flag = { type: "boolean", default: false };
  const options = {
    once: flag,
    kubeconfig: { type: "string" },
    yes: flag,
    "from-source": flag,
    verbose: flag,
    requirements: flag,
    tenants: flag,
    sources: flag,
  };
  return parseArgs({ args, options }).values;
}

/** True for yes; the answer to nobody is no. */
export async function agreed(question) {
  const terminal = createInterface({ input: process.stdin, output: process.stdout });
  try {
    return /^y(es)?$/i.test((await terminal.question(`${question} [y/N] `)).trim());
  } finally {
    terminal.close();
  }
}

/** The kubeconfig of a kind or k3d cluster that is the current one and answers, when the user says so. */
export async function offered(env = process.env, ask = agreed) {
  const file = env.KUBECONFIG || join(env.HOME || homedir(), ".kube", "config");
  const kubectl = onPath("kubectl", env);
  if (!kubectl || !existsSync(file)) return undefined;
  const of = (...args) => run(kubectl, ["--kubeconfig", file, "--request-timeout=3s", ...args], { env });
  try {
    const context = (await of("config", "current-context")).stdout.trim();
    if (!/^(kind|k3d)-/.test(context)) return undefined;
    await of("get", "--raw", "/readyz");
    return (await ask(
      `The cluster ${context} is running. Use this cluster instead of a separate control plane?`,
    ))
      ? file
      : undefined;
  } catch {
    return undefined;
  }
}
