import { execFileSync, spawn } from "node:child_process";
import { join } from "node:path";
import { programFile } from "../../operator.mjs";
import { modernNode } from "../../setup/tools.mjs";
import { median } from "../bench.mjs";
import { writeTiny } from "../tiny.mjs";

const RUNS = 10;
const MODULES = 100;
/** From the key press to the first byte. */
const FIRST_BYTE_MS = 150;

export default {
  name: "cli",
  title: `commands, with ${MODULES} modules without charts: from start to the first byte, and processor time`,
  async run(bench) {
    const modulesDir = writeTiny(bench.dir(), MODULES);
    const namespace = await bench.namespace();
    const args = ["--manage-crds=true"];
    const { operator, readyMs } = await bench.start({ namespace, modulesDir, args });
    await readyMs();
    await bench.quiet(operator);
    const socket = `--debug-unix-socket=${operator.socket}`;
    const main = programFile(true);
    const plugin = join(main, "..", "kubectl-addon.js");
    const commands = [
      ["--version", [main, "--version"]],
      ["--help", [main, "--help"]],
      ["module list", [main, "module", "list", socket]],
      ["status", [main, "status", socket]],
      ["queue list", [main, "queue", "list", socket]],
      ["kubectl addon status", [plugin, "status", "-n", namespace]],
    ];
    const env = { ...process.env, KUBECONFIG: bench.cluster.kubeconfig };
    const figures = [];
    for (const [name, words] of commands) figures.push(...(await measure(name, words, env)));
    await operator.stop();
    return figures;
  },
};

async function measure(name, words, env) {
  const times = [];
  for (let run = 0; run < RUNS; run += 1) times.push(await firstByteMs(words, env));
  return [
    { what: `${name}: first byte`, value: median(times), unit: "ms", target: FIRST_BYTE_MS },
    { what: `${name}: processor`, value: processorMs(words, env), unit: "ms" },
  ];
}

function firstByteMs(words, env) {
  return new Promise((resolve, reject) => {
    const from = performance.now();
    const child = spawn(modernNode(), words, { env, stdio: ["ignore", "pipe", "inherit"] });
    let first;
    child.stdout.on("data", () => (first ??= performance.now() - from));
    child.on("error", reject);
    child.on("close", () =>
      first === undefined ? reject(new Error(`${words}: no output`)) : resolve(first),
    );
  });
}

/** User and system time of one run, as the shell counts them for its children. */
function processorMs(words, env) {
  const script = `for _ in $(seq ${RUNS}); do "$@" >/dev/null; done; times`;
  const reported = execFileSync("bash", ["-c", script, "bash", modernNode(), ...words], {
    env,
    encoding: "utf8",
  });
  const [, children = ""] = reported.trim().split("\n");
  const parts = [...children.matchAll(/(\d+)m([\d.]+)s/g)];
  const seconds = parts.reduce((sum, [, minutes, rest]) => sum + Number(minutes) * 60 + Number(rest), 0);
  return (1000 * seconds) / RUNS;
}
