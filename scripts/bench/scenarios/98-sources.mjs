import { execFile } from "node:child_process";
import { generateKeyPairSync, randomBytes } from "node:crypto";
import { mkdirSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { promisify } from "node:util";
import { nameOf, writeModules } from "../modules.mjs";
import { startRegistry } from "../registry.mjs";

const COUNT = 50;
const SETTLE_MS = 5000;
const INTERVAL_MINUTES = 5;
const MIB = 1024 * 1024;
const run = promisify(execFile);

export default {
  name: "sources",
  title: `modules from a registry: start without it, at rest, a moved tag, memory (${COUNT} modules)`,
  long: true,
  async run(bench) {
    const world = await makeWorld(bench);
    return [...(await starts(world)), ...(await large(world))];
  },
};

/** A registry, a signing key, and what pushes modules. */
async function makeWorld(bench) {
  const registry = await startRegistry();
  bench.cleanup(() => registry.close());
  const { privateKey, publicKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
  const key = join(bench.dir(), "ci.key");
  writeFileSync(key, privateKey.export({ type: "pkcs8", format: "pem" }));
  const pub = publicKey.export({ type: "spki", format: "pem" });
  const { bundle, env } = bench.program;
  const push = (dir, ...flags) =>
    run(bundle, ["source", "push", dir, `oci://${registry.host}/m`, "--key", key, "--plain-http", ...flags], {
      env: { ...process.env, ...env },
    });
  return { bench, registry, push, pub };
}

/** A namespace with the keys. */
async function namespaceOf({ bench, pub }) {
  const namespace = await bench.namespace();
  await bench.api.send("POST", `/api/v1/namespaces/${namespace}/configmaps`, {
    metadata: { name: "addon-operator-keys" },
    data: { "ci.pub": pub },
  });
  return namespace;
}

const SOURCES = "/apis/addon-operator.io/v1alpha1/namespaces";

/** Creates the source, and resolves when all its modules are in place. */
async function follow({ bench, registry }, namespace, modules) {
  const path = `${SOURCES}/${namespace}/modulesources`;
  await bench.api.send("POST", path, {
    apiVersion: "addon-operator.io/v1alpha1",
    kind: "ModuleSource",
    metadata: { name: "bench" },
    spec: { registry: `oci://${registry.host}/m`, plainHttp: true, interval: "5m", modules },
  });
  await bench.until(async () => {
    const { status } = await bench.api.get(`${path}/bench`);
    const count = Object.keys(modules).length;
    return status.summary === `${count}/${count}`;
  }, "all modules are in place");
}

/** Requests a check, and resolves to when that was. */
async function sync({ bench }, namespace) {
  const from = performance.now();
  await bench.api.send("PATCH", `${SOURCES}/${namespace}/modulesources/bench`, {
    metadata: { annotations: { "reconcile.addon-operator.io/requestedAt": `${from}` } },
  });
  return from;
}

async function starts(world) {
  const { bench, registry, push } = world;
  const dir = writeModules(bench.dir(), COUNT);
  const local = await restartOf(bench, { namespace: await bench.namespace(), modulesDir: dir });

  for (const entry of readdirSync(dir))
    if (entry !== "values.yaml") await push(join(dir, entry), "--tag", "stable");
  const namespace = await namespaceOf(world);
  const { helm, taken } = bench.counting();
  const args = ["--sources", `--sources-dir=${bench.dir()}`];
  const options = { namespace, modulesDir: bench.dir(), args, helm };
  const first = await bench.start(options);
  await first.readyMs();
  const names = Array.from({ length: COUNT }, (_, index) => nameOf(index + 1));
  const terms = (name) => ({ tag: "stable", enabled: true, order: Number(name.slice(-3)) });
  await follow(world, namespace, Object.fromEntries(names.map((name) => [name, terms(name)])));
  await bench.quiet(first.operator);

  // At rest: one check is due every five minutes. The first one after a change also removes unused content.
  const check = async () => {
    registry.calls.length = 0;
    const cpu = bench.cpuMs(first.operator);
    await sync(world, namespace);
    await first.operator.until(() => registry.calls.length >= COUNT, "one check");
    await sleep(SETTLE_MS);
    return [registry.calls.length, bench.cpuMs(first.operator) - cpu];
  };
  await check();
  const [requests, checkMs] = await check();

  // A new version of one module, to which the channel moves.
  const changed = writeModules(bench.dir(), 1, { data: () => '  more: "1"\n' });
  await push(join(changed, `001-${names[0]}`), "--version", "1.1.0");
  await bench.quiet(first.operator);
  taken();
  registry.tag(`m/${names[0]}`, "1.1.0", "stable");
  const from = await sync(world, namespace);
  await first.operator.until(() => taken() > 0, "helm", { intervalMs: 5 });
  const movedMs = performance.now() - from;
  await bench.quiet(first.operator);
  await sleep(SETTLE_MS);
  const { resident: on } = bench.memory(first.operator);
  await first.operator.stop();

  await registry.close();
  registry.calls.length = 0;
  const away = await restartOf(bench, options);
  await registry.open();
  return [
    {
      what: "restart with the registry away, beyond one from directories",
      value: away.readyMs - local.readyMs,
      unit: "ms",
      target: 300,
    },
    { what: "restart with the registry away", value: away.readyMs, unit: "ms" },
    { what: "restart from directories", value: local.readyMs, unit: "ms" },
    { what: "requests a minute at rest, on tags", value: requests / INTERVAL_MINUTES, unit: "", target: 10 },
    {
      what: "processor time at rest",
      value: checkMs / (INTERVAL_MINUTES * 600),
      unit: "% of a core",
      target: 0.1,
    },
    { what: "moved tag to helm, by sync", value: movedMs, unit: "ms", target: 1500 },
    { what: "resident when idle, sources on", value: on, unit: "MB" },
    { what: "resident when idle, sources off", value: local.resident, unit: "MB" },
  ];
}

/** The median of three restarts with nothing changed. */
async function restartOf(bench, options) {
  const first = await bench.start(options);
  await first.readyMs();
  await bench.quiet(first.operator);
  await first.operator.stop();
  const rounds = [];
  for (let round = 0; round < 3; round += 1) {
    const { operator, readyMs } = await bench.start(options);
    const ready = await readyMs();
    await sleep(SETTLE_MS);
    rounds.push({ readyMs: ready, resident: bench.memory(operator).resident });
    await operator.stop();
  }
  return rounds.toSorted((a, b) => a.readyMs - b.readyMs)[1];
}

/** How much more memory the fetch of a module takes that has 100 MiB when unpacked. */
async function large(world) {
  const { bench, push } = world;
  const dir = join(bench.dir(), "010-large");
  mkdirSync(join(dir, "hooks"), { recursive: true });
  // Half of it is gone when it is packed, as of usual text.
  for (const name of ["a", "b"]) writeFileSync(join(dir, name), randomBytes(25 * MIB).toString("hex"));
  await push(dir, "--version", "1.0.0");
  const namespace = await namespaceOf(world);
  const args = ["--sources", `--sources-dir=${bench.dir()}`];
  const { operator, readyMs } = await bench.start({ namespace, modulesDir: bench.dir(), args });
  await readyMs();
  await sleep(SETTLE_MS);
  const before = bench.memory(operator);
  await follow(world, namespace, { large: { version: "1.0.0", enabled: true } });
  await bench.quiet(operator);
  const after = bench.memory(operator);
  await operator.stop();
  const more = ((after.peak - before.resident) * 1e6) / MIB;
  return [{ what: "100 MiB unpacked: memory at most, beyond idle", value: more, unit: "MiB", target: 40 }];
}
