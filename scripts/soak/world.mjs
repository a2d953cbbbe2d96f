// What a soak runs: a control plane, a proxy that breaks the way to it, a registry, modules on disk, and the operator.
import { generateKeyPairSync } from "node:crypto";
import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { FaultProxy } from "../../test/support/fault-proxy.ts";
import { apiOf } from "../bench/api.mjs";
import { nameOf, writeModules } from "../bench/modules.mjs";
import { startRegistry } from "../bench/registry.mjs";
import { programOf } from "../bench/revision.mjs";
import { shHook } from "../bench/tiny.mjs";
import { startCluster } from "../control-plane.mjs";
import { startOperator } from "../operator.mjs";
import { root } from "../setup/versions.mjs";
import { COUNT, FETCHED, keyOf, LOCAL, ROLES, TICK_SECONDS } from "./model.mjs";

const NAMESPACE = "soak";
/** An operator that keeps the Lease through each outage. */
const PATIENT = ["--lease-duration=30m", "--lease-renew-deadline=25m"];
/** What a log keeps in memory. */
const LINES = 5000;

/** Starts everything but the operator. `onLine` gets each line of its log. */
export async function openWorld(onLine) {
  // Nothing here needs controllers, which would take a share of the processor.
  const cluster = await startCluster({ controllerManager: false });
  const dir = cluster.dir;
  const [proxy, registry] = [await FaultProxy.open(cluster.kubeconfig), await startRegistry()];
  const api = apiOf(cluster.kubeconfig);
  const world = { cluster, dir, proxy, registry, api, onLine, life: 0, isPatient: false };
  Object.assign(world, { file: (path, text) => write(join(dir, path), text) });
  world.remove = (path) => rmSync(join(dir, path), { recursive: true, force: true });
  world.path = (plural) => `/api/v1/namespaces/${NAMESPACE}/${plural}`;
  world.own = (plural) => `/apis/addon-operator.io/v1alpha1/namespaces/${NAMESPACE}/${plural}`;
  world.configure = (data) => api.send("PATCH", `${world.path("configmaps")}/addon-operator`, { data });
  await api.send("POST", "/api/v1/namespaces", { metadata: { name: NAMESPACE } });
  await api.send("POST", world.path("configmaps"), { metadata: { name: "addon-operator" } });
  const zone = { metadata: { name: "zone", labels: { soak: "zone" } }, data: { value: "a" } };
  await api.send("POST", world.path("configmaps"), zone);
  writeDirectories(world);
  return world;
}

/** Ends everything. */
export async function closeWorld({ operator, registry, proxy, api, cluster }) {
  await operator?.kill9();
  await registry.close();
  await proxy.close();
  api.close();
  await cluster.stop();
}

/** Starts an operator over the directories of the last one, `world.isPatient` or not; `queues` is `main` or `own`. */
export async function start(world, queues) {
  const { dir, proxy } = world;
  const { bundle, env } = programOf(root);
  world.life += 1;
  const operator = await startOperator({
    bundle,
    kubeconfig: proxy.kubeconfig,
    namespace: NAMESPACE,
    modulesDir: join(dir, "modules"),
    globalHooksDir: join(dir, "global-hooks"),
    args: [
      `--tmp-dir=${join(dir, "tmp")}`,
      "--watch-dirs",
      "--sources",
      `--sources-dir=${join(dir, "sources")}`,
      "--drift=repair",
      "--delete-brake=off",
      "--invalid-config=last-good",
      `--module-queues=${queues}`,
      ...(world.isPatient ? PATIENT : []),
    ],
    env: { ...env, RETRY_DELAY_MIN: "1s", RETRY_DELAY_MAX: "10s", SOAK: dir, TMPDIR: join(dir, "tmpdir") },
    onLine: (line) => {
      if (operator.lines.length > LINES) operator.lines.length = 0;
      world.onLine(line);
    },
  });
  world.operator = operator;
  world.unexpected = undefined;
  void operator.exit.then((exit) => {
    if (world.operator === operator) world.unexpected = exit;
  });
}

/** Ends the operator by a signal. */
export async function end(world, signal) {
  const { operator } = world;
  world.operator = undefined;
  await (signal === "SIGKILL" ? operator.kill9() : operator.stop());
}

/** Pushes a version of a module and moves the tag that the source follows to it. */
export async function publish({ dir, registry, operator, key }, name, version) {
  const home = join(dir, "pushed", `050-${name}`);
  const map = `apiVersion: v1\nkind: ConfigMap\nmetadata: {name: ${name}}\ndata: {version: "{{ .Chart.Version }}"}\n`;
  write(join(home, "Chart.yaml"), `apiVersion: v2\nname: ${name}\nversion: ${version}\n`);
  write(join(home, "templates", "map.yaml"), map);
  const target = `oci://${registry.host}/m`;
  const { code, stderr } = await operator.cli(["source", "push", home, target, "--key", key, "--plain-http"]);
  if (code !== 0) throw new Error(`source push: ${stderr}`);
  registry.tag(`m/${name}`, version, "stable");
}

/** A signing key, the first version of each module, and the ModuleSource that names them; needs an operator that has made its CRDs. */
export async function declareSource(world) {
  const { dir, registry, api } = world;
  const { privateKey, publicKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
  world.key = join(dir, "ci.key");
  write(world.key, privateKey.export({ type: "pkcs8", format: "pem" }));
  const data = { "ci.pub": publicKey.export({ type: "spki", format: "pem" }) };
  await api.send("POST", world.path("configmaps"), { metadata: { name: "addon-operator-keys" }, data });
  for (const name of FETCHED) await publish(world, name, "1.0.0");
  const modules = Object.fromEntries(FETCHED.map((name) => [name, { tag: "stable", enabled: true }]));
  await api.send("POST", world.own("modulesources"), {
    apiVersion: "addon-operator.io/v1alpha1",
    kind: "ModuleSource",
    metadata: { name: "soak" },
    spec: { registry: `oci://${registry.host}/m`, plainHttp: true, interval: "30s", modules },
  });
}

function writeDirectories({ dir, file }) {
  for (const name of ["modules", "tmpdir"]) mkdirSync(join(dir, name));
  const hooks = hooksOf();
  writeModules(join(dir, "modules"), COUNT, { data: dataOf, files: (name) => hooks[name] ?? {} });
  for (const name of LOCAL) file(extraFile(name), extraText(name, "0"));
  const zone = `{"op":"add","path":"/global/zone","value":"'"$(seen)"'"}`;
  file("global-hooks/zone.sh", watchHook("zone", `${SEEN}\necho '[${zone}]' >"$VALUES_JSON_PATCH_PATH"`));
}

/** The directory of a module, by its name. */
export const homeOf = (name) => `modules/${name.slice(7)}-${name}`;
export const extraFile = (name) => `${homeOf(name)}/templates/extra.yaml`;
export const extraText = (name, extra) =>
  `apiVersion: v1\nkind: ConfigMap\nmetadata: {name: ${name}-extra}\ndata: {extra: "${extra}"}\n`;
export const valuesText = (name, text) => `${keyOf(name)}:\n  text: ${text}\n`;

function dataOf(name) {
  if (name === nameOf(ROLES.zone)) return `  zone: {{ .Values.global.zone | quote }}\n`;
  return name === nameOf(ROLES.seen) ? `  seen: {{ .Values.${keyOf(name)}.seen | quote }}\n` : "";
}

/** What a hook sees of the objects that it watches. */
const SEEN = `seen() { grep -o '"filterResult":"[^"]*"' "$BINDING_CONTEXT_PATH" | cut -d'"' -f4 | LC_ALL=C sort | paste -sd' ' -; }`;

/** A hook that gets all objects with the label after each change. */
function watchHook(label, body, queue) {
  const binding = {
    name: label,
    apiVersion: "v1",
    kind: "ConfigMap",
    jqFilter: ".data.value",
    group: "all",
    labelSelector: { matchLabels: { soak: label } },
    namespace: { nameSelector: { matchNames: [NAMESPACE] } },
    keepFullObjectsInMemory: false,
    ...(queue && { queue }),
  };
  return shHook("kubernetes", body, [binding]);
}

const writeMap = (name, data) =>
  `echo '{"operation":"CreateOrUpdate","object":{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"${name}","namespace":"${NAMESPACE}"},"data":${data}}}' >"$KUBERNETES_PATCH_PATH"`;

function hooksOf() {
  const of = (role) => nameOf(ROLES[role]);
  const patch = `[{"op":"add","path":"/${keyOf(of("seen"))}/seen","value":"'"$(seen)"'"}]`;
  const told = `${SEEN}\n${writeMap("told", `{"events":"'"$(seen)"'"}`)}`;
  const tick = writeMap("tick", `{"at":"'"$(date +%s)"'"}`);
  // Two of three runs succeed; in calm, all do.
  const flaky = `[ -e "$SOAK/calm" ] || [ "$(od -An -N1 -tu1 /dev/urandom)" -gt 85 ]`;
  return {
    [of("seen")]: {
      "hooks/seen.sh": watchHook("event", `${SEEN}\necho '${patch}' >"$VALUES_JSON_PATCH_PATH"`),
    },
    [of("told")]: { "hooks/told.sh": watchHook("event", told, "told") },
    [of("flaky")]: {
      "hooks/before.sh": shHook("beforeHelm", flaky),
      "hooks/event.sh": watchHook("event", flaky),
    },
    [of("broken")]: {
      "hooks/after.sh": shHook("afterHelm", `[ ! -e "$SOAK/broken" ]`),
      "hooks/tick.sh": shHook("schedule", tick, [
        { name: "tick", crontab: `@every ${TICK_SECONDS}s`, queue: "tick" },
      ]),
    },
  };
}

function write(path, text) {
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, text, { mode: path.endsWith(".sh") ? 0o755 : 0o644 });
}
