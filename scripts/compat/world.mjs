// `npm run test:compat -- --world DIR...`: modules and hooks that others wrote, as they are. For each module and each
// directory of hooks below DIR it reports whether it loads, whether its hooks answer `--config`, what ran on a real API
// server, and whether the release's manifest equals what helm renders by hand.
//   --values FILE   YAML: `global` for the ConfigMap, and sections of modules (camelCase) that a stand-in hook sets
//   --crds DIR      manifests that are applied first: CRDs that other modules bring, namespaces
//   --only NAME     only units with this word in their names
//   --seconds N     how long one unit may take to come to rest (default 20)
// The hooks run with the rights of the one who calls this, on a control plane of its own. Use a throw-away machine.
import {
  chmodSync,
  cpSync,
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  unlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { parseArgs } from "node:util";
import { execa } from "execa";
import { dump, load, loadAll } from "js-yaml";
import { startCluster } from "../control-plane.mjs";
import { eventually } from "../eventually.mjs";
import { startOperator } from "../operator.mjs";
import { modernNode } from "../setup/tools.mjs";
import { root } from "../setup/versions.mjs";
import { camelCase, findUnits, hooksIn, isOtherScript } from "./units.mjs";

const NAMESPACE = "addon-operator";
const WEBHOOKS = "validatingwebhookconfigurations,mutatingwebhookconfigurations";
/** States in which an AddonModule rests. */
const AT_REST = new Set(["Ready", "Retrying", "Invalid", "Unhealthy", "RolledBack", "Disabled", "Suspended"]);
const OPTIONS = {
  world: { type: "boolean" },
  values: { type: "string" },
  crds: { type: "string" },
  only: { type: "string", default: "" },
  seconds: { type: "string", default: "20" },
};

/** Runs all units below the directories and prints a line for each and a table; resolves to `{ passed, failed }`. */
export async function world(args) {
  const { values: options, positionals } = parseArgs({ args, options: OPTIONS, allowPositionals: true });
  if (positionals.length === 0) throw new Error("--world needs directories of modules and hooks");
  const given = options.values === undefined ? {} : load(readFileSync(options.values, "utf8"));
  const valuesFlag = options.values === undefined ? [] : ["--values", options.values];
  const units = positionals
    .flatMap((dir) => findUnits(resolve(dir)))
    .filter(({ name, dir }) => `${dir} ${name}`.includes(options.only));
  const unlink = linkShellLibrary();
  const cluster = await startCluster({ controllerManager: false });
  const rows = [];
  try {
    if (options.crds !== undefined) await applyCrds(cluster, resolve(options.crds));
    for (const unit of units) {
      const row = await tryUnit(unit, {
        cluster,
        given,
        valuesFlag,
        timeoutMs: Number(options.seconds) * 1000,
      });
      rows.push(row);
      process.stdout.write(`${describe(row)}\n`);
    }
  } finally {
    await cluster.stop();
    unlink();
  }
  process.stdout.write(`\n${table(rows)}\n`);
  const failed = rows.filter(({ load }) => load !== "yes").length;
  return { passed: rows.length - failed, failed };
}

/** Without them helm refuses a chart as a whole, and there is no manifest to compare. */
async function applyCrds({ kubectl }, dir) {
  await kubectl(["apply", "--server-side", "-f", dir]);
  await kubectl(["wait", "crd", "--all", "--for=condition=Established", "--timeout=30s"]);
}

/** The library is sourced by absolute paths. Links to this checkout's stand there while the script runs. */
function linkShellLibrary() {
  const made = [];
  for (const [path, target] of [
    ["/shell_lib.sh", "shell_lib.sh"],
    ["/frameworks", "frameworks"],
  ]) {
    if (existsSync(path)) continue;
    try {
      symlinkSync(join(root, "shell", target), path);
      made.push(path);
    } catch {
      process.stdout.write(`${path} cannot be linked: hooks that source it fail\n`);
    }
  }
  return () => made.forEach((path) => unlinkSync(path));
}

/** One module, or one directory of hooks, from files to a release. */
async function tryUnit(unit, { cluster, given, valuesFlag, timeoutMs }) {
  const dir = mkdtempSync(join(tmpdir(), "world-"));
  const namespace = `${NAMESPACE}-${Math.random().toString(36).slice(2, 10)}`;
  try {
    const place = layOut(unit, dir);
    addValuesHook(place.target, unit, given);
    const lint = await addonOperator(["lint", place.root, ...valuesFlag, ...directoryOf(unit)]);
    const row = {
      unit,
      load: "no",
      lint: lint.lines,
      configs: "-",
      runs: "-",
      state: "-",
      manifests: "-",
      errors: [],
    };
    await cluster.kubectl(["create", "namespace", namespace]);
    await cluster.kubectl(["create", "-n", namespace, "-f", "-"], configMap(given, unit));
    return await start(row, { cluster, namespace, place, timeoutMs });
  } finally {
    rmSync(dir, { recursive: true, force: true });
    await cluster
      .kubectl(["delete", "addonmodules,configmaps,secrets", "--all", "-n", namespace, "--wait=false"])
      .catch(() => {});
    // No Pod serves them: they would refuse what the next module makes.
    await cluster.kubectl(["delete", WEBHOOKS, "--all"]).catch(() => {});
  }
}

function layOut({ kind, dir: source, name }, dir) {
  const modules = join(dir, "modules");
  const hooks = join(dir, "global-hooks");
  mkdirSync(modules);
  mkdirSync(hooks);
  const target = kind === "module" ? join(modules, name) : join(hooks, "hooks");
  const filter = (path) =>
    !path.endsWith("/.git") && isPlain(path) && (kind === "module" || !isOtherScript(path));
  cpSync(source, target, { recursive: true, verbatimSymlinks: true, filter });
  // Most Dockerfiles set the bit that their repositories lack.
  if (kind === "hooks") for (const file of hooksIn(target)) chmodSync(file, 0o755);
  return { modules, hooks, root: kind === "module" ? modules : hooks, target };
}

/** Stands in for the hooks that need another cluster or a build: it sets the section's values, also `internal` ones. */
function addValuesHook(target, { kind, moduleName = "" }, given) {
  const values = given[camelCase(moduleName)];
  if (kind !== "module" || values === undefined) return;
  const patch = Object.entries(values).map(([key, value]) => ({
    op: "add",
    path: `/${camelCase(moduleName)}/${key}`,
    value,
  }));
  mkdirSync(join(target, "hooks", "lib"), { recursive: true });
  writeFileSync(join(target, "hooks", "lib", "world.json"), JSON.stringify(patch));
  const script = `#!/bin/sh
if [ "$1" = --config ]; then echo '{"configVersion":"v1","onStartup":1}'; exit 0; fi
[ $# -eq 0 ] && cat "\${0%/*}/lib/world.json" >"$VALUES_JSON_PATCH_PATH"
`;
  writeFileSync(join(target, "hooks", "world-values.sh"), script, { mode: 0o755 });
}

const isPlain = (path) => ["isFile", "isDirectory", "isSymbolicLink"].some((is) => lstatSync(path)[is]());

async function addonOperator(args) {
  const main = join(root, "dist", "main.js");
  const { exitCode, stdout, stderr } = await execa(modernNode(), [main, ...args], {
    reject: false,
  });
  return { code: exitCode, lines: `${stdout}\n${stderr}`.split("\n").filter((line) => line.trim() !== "") };
}

/** Hooks outside of modules are shell-operator's: it runs each in its own directory. */
const directoryOf = ({ kind }) => (kind === "hooks" ? ["--hook-working-dir=own"] : []);

function configMap(given, { kind, moduleName = "" }) {
  const data = given.global === undefined ? {} : { global: dump(given.global) };
  if (kind === "module") data[`${camelCase(moduleName)}Enabled`] = "true";
  return JSON.stringify({ apiVersion: "v1", kind: "ConfigMap", metadata: { name: "addon-operator" }, data });
}

async function start(row, { cluster, namespace, place, timeoutMs }) {
  const operator = await startOperator({
    kubeconfig: cluster.kubeconfig,
    namespace,
    modulesDir: place.modules,
    globalHooksDir: place.hooks,
    bundle: true,
    args: ["--log-type=json", ...directoryOf(row.unit)],
  });
  try {
    await eventually(() => rested(row, { cluster, namespace, operator }), "rest", {
      timeoutMs,
      intervalMs: 250,
    }).catch(() => {});
    await record(row, { cluster, namespace, operator, place });
  } finally {
    await operator.stop();
  }
  return row;
}

async function rested({ unit }, { cluster, namespace, operator }) {
  const over = await Promise.race([operator.exit, Promise.resolve(undefined)]);
  if (over !== undefined) return true;
  if (unit.kind === "hooks") return (await operator.http("/readyz")).status === 200;
  const module = await moduleOf(cluster, namespace, unit.moduleName);
  return AT_REST.has(module.status?.state);
}

const moduleOf = async (cluster, namespace, name) =>
  JSON.parse(await cluster.kubectl(["get", "addonmodule", name, "-n", namespace, "-o", "json"]));

async function record(row, { cluster, namespace, operator, place }) {
  const metrics = await operator.http("/metrics").catch(() => ({ body: "" }));
  const count = (series) => sum(metrics.body, series);
  row.configs = new Set([...metrics.body.matchAll(/hook="([^"]+)"/g)].map(([, hook]) => hook)).size;
  row.runs = `${count("hook_success_total")} ok, ${count("hook_errors_total") + count("hook_allowed_errors_total")} failed`;
  row.errors = operator.lines.filter((line) => /"level":"(error|fatal)"/.test(line)).map(messageOf);
  if (row.unit.kind !== "module") {
    row.load = row.configs > 0 ? "yes" : "no";
    row.state =
      (await operator.http("/readyz").catch(() => ({ status: 0 }))).status === 200 ? "Ready" : "not ready";
    return;
  }
  const module = await moduleOf(cluster, namespace, row.unit.moduleName).catch(() => ({}));
  row.state = module.status?.state ?? "none";
  row.load = ["none", "Invalid"].includes(row.state) ? "no" : "yes";
  row.message =
    module.status?.message ?? module.status?.conditions?.find(({ type }) => type === "Ready")?.message;
  if (existsSync(join(place.target, "Chart.yaml")) || existsSync(join(place.target, "templates")))
    row.manifests = await manifests(row.unit.moduleName, { cluster, namespace, place });
}

function sum(text, series) {
  const lines = text
    .split("\n")
    .filter((line) => /^addon_operator_(module|global)_/.test(line) && line.includes(`_${series}{`));
  return lines.reduce((total, line) => total + Number(line.split(" ").at(-1)), 0);
}

function messageOf(line) {
  try {
    const { msg, error } = JSON.parse(line);
    return `${msg}${error === undefined ? "" : `: ${error}`}`;
  } catch {
    return line;
  }
}

/** The manifest of the release beside what helm renders by hand of the same chart with the same values. */
async function manifests(name, { cluster, namespace, place }) {
  const env = { KUBECONFIG: cluster.kubeconfig };
  const helm = (args, input) =>
    execa(cluster.bin.helm, [...args, "--namespace", namespace], { env, reject: false, input });
  const release = await helm(["get", "manifest", name]);
  if (release.failed) return "no release";
  // Not the operator's own account of its values, which hides secrets.
  const { stdout: values } = await helm(["get", "values", name, "--output", "json"]);
  const file = join(place.target, "..", `${name}.json`);
  writeFileSync(file, values);
  const rendered = await helm([
    "template",
    name,
    place.target,
    "--values",
    file,
    "--is-upgrade",
    "--dry-run=server",
  ]);
  rmSync(file);
  if (rendered.failed)
    return `helm template: ${rendered.stderr.split("\n").find((line) => line.includes("Error"))}`;
  return objects(release.stdout) === objects(rendered.stdout) ? "equal" : "differ";
}

const objects = (text) =>
  JSON.stringify(
    loadAll(text)
      .filter((each) => each != null)
      .map((each) => JSON.stringify(each))
      .toSorted(),
  );

function describe({ unit, load, state, errors, lint, message }) {
  const problems = load === "yes" ? [] : lint.filter((line) => !line.startsWith("warning:"));
  const more = [
    ...problems,
    ...(message === undefined || state === "Ready" ? [] : [message]),
    ...new Set(errors),
  ];
  return [
    `${unit.kind} ${unit.name} (${unit.dir}): loads ${load}, ${state}`,
    ...more.slice(0, 12).map((line) => `    ${line.slice(0, 400)}`),
  ].join("\n");
}

function table(rows) {
  const head = ["unit", "kind", "loads", "hooks", "runs", "state", "manifests"];
  const cells = rows.map(({ unit, load, configs, runs, state, manifests: equal }) => [
    unit.name,
    unit.kind,
    load,
    configs,
    runs,
    state,
    equal,
  ]);
  return [head, head.map(() => "---"), ...cells].map((row) => `| ${row.join(" | ")} |`).join("\n");
}
