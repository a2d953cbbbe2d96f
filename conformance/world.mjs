// One scenario's surroundings: a namespace, directories of modules and hooks, and one operator process. Plain Node.js.
import { execFile, spawn } from "node:child_process";
import { chmodSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { request } from "node:http";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { promisify } from "node:util";

const run = promisify(execFile);
const POLL_MS = 100;
const STOP_MS = 20_000;
const LAST_LOG_LINES = 30;

/**
 * Records a run of a hook as a file below DIR/runs: the contexts, the values, the values of the ConfigMap and the
 * directory. The name of the file is the time, so the files in order are the runs in order.
 */
const RECORDER = `
record() {
  local at; at="$(date +%s%N)"
  local enabled='[]'
  jq -n --arg hook "$1" --arg cwd "$PWD" \\
    --slurpfile contexts "\${BINDING_CONTEXT_PATH:-/dev/null}" --slurpfile values "$VALUES_PATH" \\
    --slurpfile config "$CONFIG_VALUES_PATH" \\
    '{hook: $hook, cwd: $cwd, contexts: $contexts[0], values: $values[0], config: $config[0]}' >"$RUNS/.$at.$$"
  mv "$RUNS/.$at.$$" "$RUNS/$at-$$.json"
}
`;

export class World {
  /** @param {{ operator: string, kubeconfig: string, kubectl: string, name: string, timeoutMs: number }} options */
  constructor(options) {
    this.options = options;
    this.dir = mkdtempSync(join(tmpdir(), `conformance-${options.name}-`));
    this.namespace = `conformance-${options.name}-${Math.random().toString(36).slice(2, 7)}`;
    this.log = [];
    for (const dir of ["modules", "global-hooks", "runs", "gates", "tmp"]) mkdirSync(join(this.dir, dir));
    this.write(
      "record.sh",
      `RUNS='${join(this.dir, "runs")}'\nGATES='${join(this.dir, "gates")}'\n${RECORDER}`,
    );
  }

  /** Writes a file below the scenario's directory; `executable` sets the mode of a program. */
  write(path, text, { executable = false } = {}) {
    const file = join(this.dir, path);
    mkdirSync(dirname(file), { recursive: true });
    writeFileSync(file, text);
    if (executable) chmodSync(file, 0o755);
  }

  remove(path) {
    rmSync(join(this.dir, path), { recursive: true, force: true });
  }

  /**
   * Writes a hook in Bash that prints `config`, records each run under `name`, and then executes `body`.
   * @param {{ name: string, config: object | string, body?: string }} hook
   */
  hook(path, { name, config, body = "" }) {
    const text = typeof config === "string" ? config : JSON.stringify(config);
    const lines = [
      "#!/usr/bin/env bash",
      "set -eu",
      `if [ "\${1:-}" = --config ]; then cat <<'CONFIG'\n${text}\nCONFIG\nexit 0; fi`,
      `source '${join(this.dir, "record.sh")}'`,
      `record '${name}'`,
      body,
    ];
    this.write(path, `${lines.join("\n")}\n`, { executable: true });
  }

  /** Writes an `enabled` script that records its values under `name` and writes `result`. */
  enabledScript(module, { name, result }) {
    const body = `#!/usr/bin/env bash\nset -eu\nsource '${join(this.dir, "record.sh")}'\nrecord '${name}'\n`;
    this.write(`modules/${module}/enabled`, `${body}echo ${result} >"$MODULE_ENABLED_RESULT"\n`, {
      executable: true,
    });
  }

  /** Writes the chart of a module. `templates` maps file names to texts. */
  chart(module, { name = module.replace(/^\d+-/, ""), templates = {} } = {}) {
    this.write(`modules/${module}/Chart.yaml`, `apiVersion: v2\nname: ${name}\nversion: 0.1.0\n`);
    for (const [file, text] of Object.entries(templates))
      this.write(`modules/${module}/templates/${file}`, text);
  }

  /** Creates a file that a hook waits for with `until [ -e "$GATES/NAME" ]; do sleep 0.1; done`. */
  openGate(name) {
    this.write(`gates/${name}`, "");
  }

  async kubectl(args, input) {
    const { kubeconfig, kubectl } = this.options;
    const child = run(kubectl, ["--kubeconfig", kubeconfig, "-n", this.namespace, ...args], {
      maxBuffer: 1 << 26,
    });
    if (input !== undefined) child.child.stdin.end(input);
    return (await child).stdout;
  }

  /** Creates or replaces an object of the namespace. */
  apply(object) {
    return this.kubectl(["apply", "-f", "-"], JSON.stringify(object));
  }

  /** The object, or undefined if the API server has none of that name. */
  async get(kind, name) {
    const text = await this.kubectl(["get", kind, name, "--ignore-not-found", "-o", "json"]);
    return text.trim() === "" ? undefined : JSON.parse(text);
  }

  /** Sets keys of ConfigMap/addon-operator; null removes a key. */
  editConfig(data) {
    const patch = JSON.stringify({ data });
    return this.kubectl(["patch", "configmap", "addon-operator", "--type=merge", "-p", patch]);
  }

  /** Creates the namespace and the ConfigMap of the operator. */
  async prepare(data = {}) {
    await this.kubectl(["create", "namespace", this.namespace]);
    await this.apply({ apiVersion: "v1", kind: "ConfigMap", metadata: { name: "addon-operator" }, data });
  }

  /** Starts the operator, with the variables under the names of the documents and of newer versions. */
  async start() {
    this.port = await freePort();
    this.over = undefined;
    const child = spawn("sh", ["-c", `exec ${this.options.operator}`], {
      cwd: this.dir,
      env: { ...process.env, ...this.#environment() },
      stdio: ["ignore", "pipe", "pipe"],
      detached: true,
    });
    this.child = child;
    this.exit = new Promise((done) => {
      child.once("exit", (code, signal) => done((this.over = { code, signal })));
    });
    for (const stream of [child.stdout, child.stderr])
      stream.setEncoding("utf8").on("data", (text) => this.log.push(...text.split("\n").filter(Boolean)));
  }

  #environment() {
    const own = {
      NAMESPACE: this.namespace,
      MODULES_DIR: join(this.dir, "modules"),
      GLOBAL_HOOKS_DIR: join(this.dir, "global-hooks"),
      TMP_DIR: join(this.dir, "tmp"),
      LISTEN_ADDRESS: "127.0.0.1",
      LISTEN_PORT: String(this.port),
      CONFIG_MAP: "addon-operator",
    };
    const prefixed = Object.entries(own).map(([name, value]) => [`ADDON_OPERATOR_${name}`, value]);
    return {
      ...Object.fromEntries(prefixed),
      MODULES_DIR: own.MODULES_DIR,
      GLOBAL_HOOKS_DIR: own.GLOBAL_HOOKS_DIR,
      KUBECONFIG: this.options.kubeconfig,
      KUBE_CONFIG: this.options.kubeconfig,
      DEBUG_UNIX_SOCKET: join(this.dir, "debug.socket"),
    };
  }

  /** Waits until /readyz answers 200: the first converge is complete. */
  waitReady() {
    return this.until(async () => (await this.http("/readyz")).status === 200, "/readyz answers 200");
  }

  http(path) {
    return new Promise((resolve, reject) => {
      const call = request({ host: "127.0.0.1", port: this.port, path, timeout: 5000 }, (response) => {
        let body = "";
        response.setEncoding("utf8").on("data", (chunk) => (body += chunk));
        response.on("end", () => resolve({ status: response.statusCode, body }));
      });
      call.on("timeout", () => call.destroy(new Error(`${path}: no answer`))).on("error", reject);
      call.end();
    });
  }

  /** Asks the operator to stop, and kills its process group if it does not. */
  async stop() {
    if (this.child === undefined) return;
    if (this.over === undefined) this.child.kill("SIGTERM");
    const late = AbortSignal.timeout(STOP_MS);
    await Promise.race([this.exit, new Promise((done) => late.addEventListener("abort", done))]);
    const { pid } = this.child;
    try {
      if (pid !== undefined) process.kill(-pid, "SIGKILL");
    } catch {
      // The group has ended.
    }
    await this.exit;
  }

  /** The recorded runs, oldest first; with `hook`, those of one hook. */
  runs(hook) {
    const dir = join(this.dir, "runs");
    const files = readdirSync(dir).filter((name) => !name.startsWith("."));
    const runs = files.toSorted().map((name) => JSON.parse(readFileSync(join(dir, name), "utf8")));
    return hook === undefined ? runs : runs.filter((each) => each.hook === hook);
  }

  /** Calls `check` until it returns a value other than false and undefined, and returns it. */
  async until(check, what, timeoutMs = this.options.timeoutMs) {
    const begin = performance.now();
    for (;;) {
      let last = "the condition is false";
      try {
        const value = await check();
        if (value !== false && value !== undefined) return value;
      } catch (error) {
        last = error.message;
      }
      if (this.over !== undefined)
        throw new Error(`${what}: the operator ended: ${JSON.stringify(this.over)}`);
      if (performance.now() - begin > timeoutMs)
        throw new Error(`${what}: not within ${timeoutMs} ms: ${last}`);
      await sleep(POLL_MS);
    }
  }

  /** Ends the scenario and removes what it made. */
  async end() {
    await this.stop();
    await this.kubectl(["delete", "namespace", this.namespace, "--wait=false"]).catch(() => {});
    rmSync(this.dir, { recursive: true, force: true, maxRetries: 5 });
  }

  lastLog() {
    return this.log.slice(-LAST_LOG_LINES);
  }
}

async function freePort() {
  const server = createServer();
  await new Promise((done) => server.listen(0, "127.0.0.1", done));
  const { port } = server.address();
  await new Promise((done) => server.close(done));
  return port;
}
