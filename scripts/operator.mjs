// The operator as a user starts it: a process of its own. Used by tests, demo and benchmark.
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { request } from "node:http";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { createInterface } from "node:readline";
import { execa } from "execa";
import { watch } from "./control-plane/daemon.mjs";
import { freePorts } from "./control-plane/ports.mjs";
import { eventually } from "./eventually.mjs";
import { modernNode, tools } from "./setup/tools.mjs";
import { root } from "./setup/versions.mjs";

/** The program: the sources, or the bundle if `bundle` or OPERATOR_BUNDLE selects it. */
export function programFile(bundle = process.env.OPERATOR_BUNDLE) {
  if (!bundle) return join(root, "src", "main.ts");
  return bundle === true || bundle === "true" ? join(root, "dist", "main.js") : bundle;
}

/** The words that run a program: a script by a Node that is new enough, a launcher by itself. */
const commandOf = (main) => (/\.[jt]s$/.test(main) ? [modernNode(), main] : [main]);

/**
 * Starts the operator on free loopback ports with a temp dir of its own. Nothing of it outlives this process.
 * The environment is ours without the operator's own variables, plus `env`; see operator.d.mts for the options.
 */
export async function startOperator(options) {
  const dir = mkdtempSync(join(tmpdir(), "operator-"));
  const [port] = await freePorts(1);
  const socket = join(dir, "debug.socket");
  const main = programFile(options.bundle);
  const own = { ...options, dir, port, socket };
  const flags = options.peer ? [] : settings(own);
  const [file, ...args] = [...(options.words ?? []), ...commandOf(main), "start", ...flags];
  const env = { ...environment(options), ...(options.peer && peerVariables(own)) };
  const apart = { detached: true, cleanup: false, reject: false, stdin: "ignore", buffer: false };
  const child = execa(file, args, { env, extendEnv: false, ...apart });
  const watcher = child.pid === undefined ? undefined : watch(child.pid);
  const lines = [];
  const heard = [child.stdout, child.stderr].map((stream) => listen(stream, lines, options.onLine));
  const exit = ended(child, heard).finally(() => watcher?.kill("SIGKILL"));
  return handle({ child, dir, port, socket, main, env, lines, exit });
}

function settings({ namespace, modulesDir, globalHooksDir, helm, dir, port, socket, args = [] }) {
  const flag = (name, value) => (value === undefined ? [] : [`--${name}=${value}`]);
  return [
    ...flag("namespace", namespace),
    ...flag("modules-dir", modulesDir),
    ...flag("global-hooks-dir", globalHooksDir),
    ...flag("helm-bin", helm ?? helmUnderTest()),
    ...flag("tmp-dir", join(dir, "tmp")),
    // Where there are no nodes, no Pod ever runs.
    ...flag("ready", "applied"),
    ...flag("listen-address", "127.0.0.1"),
    ...flag("listen-port", port),
    ...flag("debug-unix-socket", socket),
    ...args,
  ];
}

/** What all operators of this kind read: only the variables that both document. */
function peerVariables({ namespace, modulesDir, helm = helmUnderTest(), dir, port, socket }) {
  const globalHooks = join(dir, "global-hooks");
  mkdirSync(globalHooks);
  return {
    ADDON_OPERATOR_NAMESPACE: namespace,
    MODULES_DIR: modulesDir,
    GLOBAL_HOOKS_DIR: globalHooks,
    HELM_BIN_PATH: helm,
    PATH: `${dirname(helm)}:${process.env.PATH}`,
    ADDON_OPERATOR_TMP_DIR: join(dir, "tmp"),
    ADDON_OPERATOR_LISTEN_ADDRESS: "127.0.0.1",
    ADDON_OPERATOR_LISTEN_PORT: String(port),
    DEBUG_UNIX_SOCKET: socket,
  };
}

function helmUnderTest(name = process.env.HELM || "helm") {
  return tools(process.env, [name])[name];
}

/** Settings left in the caller's shell must not change what is tested. */
function environment({ kubeconfig, namespace, env = {} }) {
  const own =
    /^(ADDON_OPERATOR_|HELM_|KUBE_|MODULES_DIR$|GLOBAL_HOOKS_DIR$|LOG_|RETRY_|DEBUG_|HOOK_TIMEOUT$|KUBECONFIG$|HELM$)/;
  const inherited = Object.entries(process.env).filter(([name]) => !own.test(name));
  // The flag is for the operator, the variable for the hooks.
  const reported = namespace === undefined ? {} : { ADDON_OPERATOR_NAMESPACE: namespace };
  return {
    ...Object.fromEntries(inherited),
    KUBECONFIG: kubeconfig,
    NODE_NO_WARNINGS: "1",
    ...reported,
    ...env,
  };
}

function listen(stream, lines, onLine = () => {}) {
  return new Promise((done) => {
    const reader = createInterface({ input: stream, crlfDelay: Infinity });
    reader.on("line", (line) => {
      lines.push(line);
      onLine(line);
    });
    reader.on("close", done);
  });
}

/** Resolves after the last line was heard, unless a grandchild keeps the pipe open: then a second after the end. */
async function ended(child, heard) {
  const result = await new Promise((done) => {
    child.nodeChildProcess.once("error", (error) => done({ code: null, signal: null, error: error.message }));
    child.nodeChildProcess.once("exit", (code, signal) => done({ code, signal }));
  });
  let timer;
  const patience = new Promise((done) => (timer = setTimeout(done, 1000)));
  await Promise.race([Promise.all(heard), patience]);
  clearTimeout(timer);
  return result;
}

function handle({ child, dir, port, socket, main, env, lines, exit }) {
  let over;
  void exit.then((result) => (over = result));
  const url = `http://127.0.0.1:${port}`;
  const http = (path) => get({ host: "127.0.0.1", port, path });
  const log = () => lines.join("\n");
  const tail = () => log().slice(-6000);
  const until = async (check, what, options) => {
    const ended = Symbol("ended");
    const value = await eventually(() => (over ? ended : check()), what, { context: tail, ...options });
    if (value === ended)
      throw new Error(`${what}: the operator ended with ${JSON.stringify(over)}:\n${tail()}`);
    return value;
  };
  const readiness = async () => {
    const { status, body } = await http("/readyz");
    if (status !== 200) throw new Error(`/readyz: ${status} ${body.slice(0, 500)}`);
  };
  const finish = async (signal) => {
    if (!over) child.kill(signal);
    const result = await exit;
    rmSync(dir, { recursive: true, force: true, maxRetries: 5 });
    return result;
  };
  return {
    pid: child.pid,
    dir,
    url,
    socket,
    lines,
    log,
    exit,
    http,
    debug: (path) => get({ socketPath: socket, path }),
    until,
    waitReady: (timeoutMs = 60_000, intervalMs) =>
      until(readiness, "operator ready", { timeoutMs, intervalMs }),
    cli: (args) => cli({ main, env, socket }, args),
    stop: () => finish("SIGTERM"),
    kill9: () => finish("SIGKILL"),
  };
}

function get(where) {
  return new Promise((resolve, reject) => {
    const call = request({ ...where, agent: false, timeout: 10_000 }, (response) => {
      let body = "";
      response.setEncoding("utf8");
      response.on("data", (chunk) => (body += chunk));
      response.on("end", () => resolve({ status: response.statusCode ?? 0, body }));
      response.on("error", reject);
    });
    call.on("timeout", () => call.destroy(new Error(`no answer from ${where.path} within 10 s`)));
    call.on("error", reject);
    call.end();
  });
}

/** Runs a sub-command of the same program against its debug socket; resolves with what it printed, whatever its exit code. */
async function cli({ main, env, socket }, args) {
  const own = { ...env, DEBUG_UNIX_SOCKET: socket };
  const options = { env: own, extendEnv: false, stdin: "ignore", reject: false, stripFinalNewline: false };
  const [file, ...words] = [...commandOf(main), ...args];
  const { exitCode = 1, stdout, stderr } = await execa(file, words, options);
  return { code: exitCode, stdout, stderr };
}

/** A helm that appends its arguments to `file` for each process started, so that runs can be counted. */
export function countingHelm(dir, helm) {
  const file = join(dir, "helm-runs");
  const path = join(dir, "helm");
  writeFileSync(file, "");
  writeFileSync(path, `#!/bin/sh\necho "$*" >>'${file}'\nexec '${helm}' "$@"\n`, { mode: 0o755 });
  return { path, file };
}
