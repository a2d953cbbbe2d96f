// What the demo shows with --sources: a module from a registry. A channel moves; what nobody signed is refused; a restart needs no registry.
import { generateKeyPairSync } from "node:crypto";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { eventually } from "../eventually.mjs";
import { startRegistry } from "./registry.mjs";
import { created, elapsed, expect, inNamespace, settled, table } from "./steps.mjs";

const MODULE = "greeting";

/** Directories and the key of this tour; returns the flags of the operator. */
export function prepareSources(cluster) {
  for (const name of ["modules", "work"]) mkdirSync(join(cluster.dir, name));
  return {
    modulesDir: join(cluster.dir, "modules"),
    args: ["--sources", `--sources-dir=${join(cluster.dir, "sources")}`],
  };
}

/** `demo` is as the tour's; `demo.restart` stops the operator and starts it again. */
export async function sources(demo) {
  const registry = await startRegistry();
  try {
    const at = `oci://${registry.host}/modules`;
    Object.assign(demo, { registry, at }, keyPair(demo.cluster.dir));
    await pushSigned(demo);
    await nameIt(demo);
    await moveChannel(demo);
    await refuseTampered(demo);
    await restartAlone(demo);
  } finally {
    await registry.close();
  }
}

/** As `openssl genpkey` and `openssl pkey -pubout` make them. */
function keyPair(dir) {
  const { privateKey, publicKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
  const key = join(dir, "work", "ci.key");
  writeFileSync(key, privateKey.export({ type: "pkcs8", format: "pem" }), { mode: 0o600 });
  return { key, publicPem: publicKey.export({ type: "spki", format: "pem" }) };
}

async function pushSigned(demo) {
  demo.step("Create, sign, and push a module, and set the channel stable to its version");
  await push(demo, { version: "1.0.0", text: "Hello", how: ["--key", demo.key] });
  await channel(demo, "1.0.0");
}

/** Pushes a version of the module, which greets with these words. */
async function push(demo, { version, text, how }) {
  const dir = join(demo.cluster.dir, "work", MODULE);
  mkdirSync(join(dir, "templates"), { recursive: true });
  writeFileSync(join(dir, "Chart.yaml"), `apiVersion: v2\nname: ${MODULE}\nversion: ${version}\n`);
  const data = `{text: "${text}", version: "{{ .Chart.Version }}"}`;
  const map = `apiVersion: v1\nkind: ConfigMap\nmetadata: {name: ${MODULE}}\ndata: ${data}\n`;
  writeFileSync(join(dir, "templates", "configmap.yaml"), map);
  await run(demo, ["source", "push", dir, demo.at, ...how, "--plain-http"]);
}

const channel = (demo, version) =>
  run(demo, ["source", "tag", `${demo.at}/${MODULE}:${version}`, "stable", "--plain-http"]);

/** Prints a command and what it prints. Returns both. */
async function run(demo, args, code = 0) {
  const shown = args.map((arg) => arg.replace(`${demo.cluster.dir}/work/`, ""));
  const { code: ended, stdout, stderr } = await demo.operator.cli(args);
  demo.say(`addon-operator ${shown.join(" ")}\n${`${stdout}${stderr}`.trimEnd()}`);
  expect(ended === code, `exit code ${code}, but the exit code is ${ended}`);
  return `${stdout}${stderr}`;
}

async function nameIt(demo) {
  demo.step("Trust the key, and name the module and the channel in a ModuleSource");
  const { namespace, publicPem, registry } = demo;
  const metadata = { name: "addon-operator-keys", namespace };
  const keys = { apiVersion: "v1", kind: "ConfigMap", metadata, data: { "ci.pub": publicPem } };
  const spec = {
    registry: `oci://${registry.host}/modules`,
    plainHttp: true,
    modules: { [MODULE]: { tag: "stable", enabled: true } },
  };
  const source = {
    apiVersion: "addon-operator.io/v1alpha1",
    kind: "ModuleSource",
    metadata: { name: "platform", namespace },
    spec,
  };
  demo.say(`kubectl create: ${JSON.stringify({ kind: source.kind, spec })}`);
  const from = performance.now();
  for (const object of [keys, source]) await inNamespace(demo, ["create", "-f", "-"], JSON.stringify(object));
  await runs(demo, "1.0.0");
  demo.say(`Version 1.0.0 ran ${elapsed(from)} later`);
  await inNamespace(demo, ["wait", "modulesource/platform", "--for=condition=Ready", "--timeout=60s"]);
  // The AddonModule may come a moment after the ModuleSource is Ready.
  await created(demo, `addonmodule/${MODULE}`, namespace);
  await settled(demo, [MODULE], { state: "Ready" });
  demo.say((await inNamespace(demo, ["get", "modulesources"])).trimEnd());
  await table(demo);
}

async function moveChannel(demo) {
  demo.step("Push version 1.1.0, and move the channel without a new signature");
  await push(demo, { version: "1.1.0", text: "Good morning", how: ["--key", demo.key] });
  await channel(demo, "1.1.0");
  const from = performance.now();
  await run(demo, ["source", "sync", "platform"]);
  await runs(demo, "1.1.0");
  demo.say(`Version 1.1.0 ran ${elapsed(from)} after the request for a check`);
  await settled(demo, [MODULE], { "release.revision": "2", state: "Ready" });
  await table(demo);
}

async function refuseTampered(demo) {
  demo.step("Push a changed module without a signature, and move the channel to it, like an attacker");
  await push(demo, { version: "1.2.0", text: "Send me your passwords", how: ["--unsigned"] });
  await channel(demo, "1.2.0");
  await run(demo, ["source", "sync", "platform"], 1);
  const { stdout } = await demo.operator.cli(["module", "why", MODULE]);
  expect(/update: .*no valid signature/s.test(stdout), "module why names the signature");
  demo.say(`addon-operator module why ${MODULE}\n${stdout.trimEnd()}`);
  await runs(demo, "1.1.0");
  await table(demo);
}

async function restartAlone(demo) {
  demo.step("Stop the registry, and restart the operator");
  await demo.registry.close();
  const before = await revision(demo);
  const from = performance.now();
  await demo.restart();
  demo.say(`The operator was ready after ${elapsed(from)}, with the lock and the content on disk`);
  await eventually(async () => {
    const state = ["get", "addonmodule", MODULE, "-o", "jsonpath={.status.state}"];
    expect((await inNamespace(demo, state)) === "Ready", `${MODULE} is Ready`);
  }, `${MODULE} is Ready without the registry`);
  await runs(demo, "1.1.0");
  expect((await revision(demo)) === before, "the release is unchanged");
  await eventually(async () => {
    const path = 'jsonpath={.status.conditions[?(@.type=="Reachable")].status}';
    expect(
      (await inNamespace(demo, ["get", "modulesource", "platform", "-o", path])) === "False",
      "not reachable",
    );
  }, "the ModuleSource reports that the registry is not reachable");
  // The content that was refused stays refused, so the source is not Ready.
  await run(demo, ["source", "list"], 1);
  await run(demo, ["status"]);
  await demo.registry.open();
}

const revision = (demo) =>
  inNamespace(demo, ["get", "addonmodule", MODULE, "-o", "jsonpath={.status.release.revision}"]);

/** Waits until this version of the module has run. */
async function runs(demo, version) {
  const path = "jsonpath={.data.version}: {.data.text}";
  await eventually(
    async () => {
      const found = await inNamespace(demo, ["get", "configmap", MODULE, "-o", path]);
      expect(found.startsWith(`${version}: `), `version ${version}, not ${found}`);
    },
    `version ${version} of ${MODULE} runs`,
    { timeoutMs: 60_000 },
  );
}
