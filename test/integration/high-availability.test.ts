import { spawn } from "node:child_process";
import { once } from "node:events";
import { rmSync } from "node:fs";
import { createInterface } from "node:readline";
import { describe, expect, onTestFinished, test } from "vitest";

import { cluster, eventually, freshNamespace } from "../support/cluster.ts";
import { FaultProxy } from "../support/fault-proxy.ts";
import { hookLab } from "../support/hook-files.ts";
import type { OperatorProcess } from "../support/operator.ts";
import { LEASE, Stage } from "../support/replicas.ts";

// docs/RUNNING.md, "Two replicas": one of two replicas works, the other is warm; they never work at once.

/** A lease that two busy processors can keep, and whose end a test can wait for. */
const QUICK = ["--lease-duration=8s", "--lease-renew-deadline=3s", "--lease-retry-period=1s"];
/** One that does not run out within a test. */
const LONG = ["--lease-duration=10m", "--lease-renew-deadline=9m", "--lease-retry-period=1s"];

const KILLED = { code: null, signal: "SIGKILL" };

/** One module with a chart and a hook that runs each second, and a hook that is never done, switched on by a file. */
async function stage(): Promise<Stage> {
  const built = new Stage(await freshNamespace("ha"), hookLab("ha"));
  const { lab } = built;
  // What a failing test leaves running ends with its file.
  onTestFinished(() => rmSync(lab.dir, { recursive: true, force: true, maxRetries: 5 }));
  lab.file("modules/values.yaml", "workEnabled: true\n");
  lab.file("modules/010-work/Chart.yaml", "apiVersion: v2\nname: work\nversion: 1.0.0\n");
  lab.file(
    "modules/010-work/templates/map.yaml",
    "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: work}\ndata: {size: {{ .Values.work.size | quote }}}\n",
  );
  lab.file("modules/010-work/values.yaml", "work:\n  size: 1\n");
  const schedule = [{ name: "tick", crontab: "* * * * * *", queue: "ticks" }];
  built.hook("modules/010-work/hooks/tick.sh", { schedule }, "sleep 0.1");
  const on = {
    kind: "ConfigMap",
    namespace: { nameSelector: { matchNames: [built.namespace] } },
    nameSelector: { matchNames: ["stuck"] },
    executeHookOnSynchronization: false,
    queue: "stuck",
  };
  built.hook(
    "global-hooks/stuck.sh",
    { kubernetes: [on] },
    // Deaf to SIGTERM, as a hook may be: only SIGKILL ends it.
    `trap '' TERM; while [ "$REPLICA" = a ] && [ -e "$0" ]; do sleep 0.1; done`,
  );
  return built;
}

/** Makes the object that `stuck.sh` waits for; resolves with the pid of its process. */
async function getStuck(scene: Stage): Promise<number> {
  await cluster().kubectl(["create", "configmap", "stuck", "-n", scene.namespace]);
  return (await scene.sees("a", "start", "stuck")).pid;
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

/** Resolves to the time at which a process was no more. */
async function gone(pid: number): Promise<number> {
  await eventually(() => !isAlive(pid), `the end of ${pid}`, { timeoutMs: 40_000, intervalMs: 5 });
  return Date.now();
}

/** Gives the operator work that never ends, through its debugger. */
async function keepBusy(operator: OperatorProcess): Promise<void> {
  process.kill(operator.pid ?? 0, "SIGUSR1");
  const address = (): string | undefined => /ws:\/\/\S+/.exec(operator.log())?.[0];
  await eventually(() => address() !== undefined, "the debugger listens");
  const socket = new WebSocket(address() ?? "");
  onTestFinished(() => socket.close());
  await once(socket, "open");
  socket.send(JSON.stringify({ id: 1, method: "Runtime.evaluate", params: { expression: "for (;;);" } }));
}

/** Every holder that the Lease has, in order, from now on. */
function holders(namespace: string): string[] {
  const seen: string[] = [];
  const { bin, kubeconfig } = cluster();
  const what = ["get", "lease", LEASE, "-n", namespace, "-w"];
  const format = ["-o", 'jsonpath={.spec.holderIdentity}{"\\n"}', `--kubeconfig=${kubeconfig}`];
  const child = spawn(bin.kubectl, [...what, ...format], { stdio: ["ignore", "pipe", "ignore"] });
  createInterface({ input: child.stdout }).on("line", (line) => {
    const name = line.split("/")[0] ?? "";
    if (seen.at(-1) !== name) seen.push(name);
  });
  onTestFinished(() => void child.kill());
  return seen;
}

describe.each(["refused", "silent"])("a leader cut off from the API server, its connections %s", (how) => {
  test("ends its children before the follower takes over", { timeout: 90_000 }, async () => {
    const scene = await stage();
    const proxy = await FaultProxy.open(cluster().kubeconfig);
    onTestFinished(() => proxy.close());
    const a = await scene.replica("a", QUICK, { KUBECONFIG: proxy.kubeconfig });
    await a.waitReady();
    const b = await scene.replica("b", QUICK);
    await b.waitReady();
    const stuck = await getStuck(scene);

    if (how === "refused") await proxy.refuse();
    else {
      proxy.silence();
      proxy.delay(3_600_000);
    }
    const [end, goneAt] = await Promise.all([a.exit, gone(stuck)]);
    await scene.sees("b", "end", "tick");

    const { holderIdentity, acquireTime = "" } = await scene.lease();
    expect(end).toEqual({ code: 0, signal: null });
    expect(a.log()).toContain("The lease is lost");
    expect(holderIdentity).toMatch(/^b\//);
    expect(goneAt).toBeLessThan(Date.parse(acquireTime));
    expect(scene.overlaps()).toEqual([]);
  });
});

test("a leader that was frozen starts nothing when it goes on", { timeout: 90_000 }, async () => {
  const scene = await stage();
  const a = await scene.replica("a", QUICK);
  await a.waitReady();
  const b = await scene.replica("b", QUICK);
  await b.waitReady();
  await scene.sees("a", "end", "tick");
  process.kill(a.pid ?? 0, "SIGSTOP");
  onTestFinished(() => {
    if (isAlive(a.pid ?? 0)) process.kill(a.pid ?? 0, "SIGCONT");
  });
  await scene.sees("b", "end", "tick");
  const before = scene.marks().length;

  process.kill(a.pid ?? 0, "SIGCONT");
  // In order, or by the watchdog, whichever is quicker.
  expect([{ code: 0, signal: null }, KILLED]).toContainEqual(await a.exit);

  const since = scene.marks().slice(before);
  expect(since.filter(({ replica, what }) => replica === "a" && what === "start")).toEqual([]);
  expect(scene.overlaps()).toEqual([]);
});

test("a leader that was frozen as a hook ended writes nothing of it", { timeout: 90_000 }, async () => {
  const scene = await stage();
  const proxy = await FaultProxy.open(cluster().kubeconfig);
  onTestFinished(() => proxy.close());
  const patch = `[{"op": "add", "path": "/work/by", "value": "'"$REPLICA"'"}]`;
  const on = {
    kind: "ConfigMap",
    namespace: { nameSelector: { matchNames: [scene.namespace] } },
    nameSelector: { matchNames: ["write"] },
    executeHookOnSynchronization: false,
  };
  scene.hook(
    "global-hooks/write.sh",
    { kubernetes: [on] },
    `echo '${patch}' >"$CONFIG_VALUES_JSON_PATCH_PATH"; [ "$REPLICA" != a ] || kill -STOP $PPID`,
  );
  const a = await scene.replica("a", QUICK, { KUBECONFIG: proxy.kubeconfig });
  await a.waitReady();
  const b = await scene.replica("b", QUICK);
  await b.waitReady();
  await cluster().kubectl(["create", "configmap", "write", "-n", scene.namespace]);
  await scene.sees("a", "end", "write");
  onTestFinished(() => {
    if (isAlive(a.pid ?? 0)) process.kill(a.pid ?? 0, "SIGCONT");
  });
  await scene.sees("b", "end", "tick");
  const before = proxy.seen.length;

  process.kill(a.pid ?? 0, "SIGCONT");
  await a.exit;

  const writes = proxy.seen.slice(before).filter(({ method }) => method !== "GET");
  expect(writes.filter(({ path }) => !path.endsWith(`/leases/${LEASE}`))).toEqual([]);
});

test("a leader that was frozen leaves no child behind", { timeout: 90_000 }, async () => {
  const scene = await stage();
  const a = await scene.replica("a", QUICK);
  await a.waitReady();
  const b = await scene.replica("b", QUICK);
  await b.waitReady();
  const stuck = await getStuck(scene);

  // The child is deaf, and goes on.
  process.kill(a.pid ?? 0, "SIGSTOP");
  await eventually(async () => await leads(scene, "b"), "b leads", { timeoutMs: 40_000 });
  process.kill(a.pid ?? 0, "SIGCONT");
  await Promise.all([a.exit, gone(stuck)]);
  expect(isAlive(stuck)).toBe(false);
});

test(
  "a leader whose event loop is busy is gone, its children too, before another works",
  { timeout: 90_000 },
  async () => {
    const scene = await stage();
    // Judged where it counts: as the other begins.
    const check = `[ "$REPLICA" = a ] || ! runs "$(cat '${scene.lab.dir}/leader')" || mark overlap leader`;
    scene.hook("global-hooks/first.sh", { onStartup: 1 }, check);
    const a = await scene.replica("a", QUICK, { NODE_OPTIONS: "--inspect-port=0" });
    await a.waitReady();
    scene.lab.file("leader", String(a.pid));
    const b = await scene.replica("b", QUICK);
    await b.waitReady();
    const stuck = await getStuck(scene);

    await keepBusy(a);
    expect(await a.exit).toEqual(KILLED);
    await Promise.all([gone(stuck), scene.sees("b", "end", "first"), scene.sees("b", "end", "tick")]);
    expect(a.log()).toContain("killing what is left, and myself");
    expect(scene.overlaps()).toEqual([]);
  },
);

test("a stop gives the lease back after the last hook", { timeout: 90_000 }, async () => {
  const scene = await stage();
  const a = await scene.replica("a", LONG);
  await a.waitReady();
  const b = await scene.replica("b", LONG);
  await b.waitReady();
  const seen = holders(scene.namespace);
  await eventually(() => seen.includes("a"), "the lease is watched");

  expect(await a.stop()).toEqual({ code: 0, signal: null });
  await scene.sees("b", "end", "tick");

  expect(a.log()).not.toContain("could not be given back");
  expect(seen).toEqual(["a", "", "b"]);
  expect(scene.overlaps()).toEqual([]);
});

/** A follower names who leads, whatever is asked that only the leader knows. */
async function refusesAll(follower: OperatorProcess, leader: string): Promise<void> {
  const stderr = `this operator does not lead: ask ${leader}, which does\n`;
  const lines = ["status", "module list", "module run work", "queue list", "global values", "logs", "plan"];
  for (const line of lines)
    expect(await follower.cli(line.split(" "))).toMatchObject({ code: 1, stdout: "", stderr });
  expect(await follower.cli(["wait", "work"])).toMatchObject({ code: 1, stdout: stderr });
}

test("a follower is warm, and as ready as its leader", { timeout: 90_000 }, async () => {
  const scene = await stage();
  scene.hook("modules/010-work/hooks/before.sh", { beforeHelm: 1 }, `[ -e '${scene.lab.dir}/mended' ]`);
  const a = await scene.replica("a", LONG);
  await scene.sees("a", "start", "before");
  const b = await scene.replica("b", LONG);
  await scene.sees("b", "ask", "before");

  await eventually(async () => (await b.http("/readyz")).body === "The leader is not ready\n", "not ready");
  expect((await b.http("/readyz")).status).toBe(500);
  // What a follower knows of queues is nothing; it asks the leader.
  const body: unknown = expect.stringContaining("work");
  expect(await b.http("/queue")).toMatchObject({ status: 200, body });
  scene.lab.file("mended", "");
  await a.waitReady();
  await b.waitReady();
  expect(await b.http("/readyz")).toEqual({
    status: 200,
    body: "Waiting for the lease; the leader is ready\n",
  });
  expect((await b.http("/healthz")).status).toBe(200);
  await refusesAll(b, (await scene.lease()).holderIdentity);
  expect(scene.marks("b").filter(({ what }) => what === "start")).toEqual([]);

  const asked = scene.marks("b").filter(({ what }) => what === "ask");
  expect(asked.map(({ who }) => who).toSorted()).toEqual(["before", "stuck", "tick"]);
  await a.kill9();
  // Until b has worked itself, nobody is ready.
  await eventually(
    async () => (await b.http("/readyz")).status === 200 && (await leads(scene, "b")),
    "b works",
  );
  await scene.sees("b", "end", "tick");
  expect(scene.marks("b").filter(({ what }) => what === "ask")).toEqual(asked);
  expect(scene.marks("b").filter(({ who, what }) => who === "helm" && what === "start")).toEqual([]);
});

test(
  "a leader of an earlier revision that is not ready holds up no rollout",
  { timeout: 90_000 },
  async () => {
    const scene = await stage();
    scene.hook("modules/010-work/hooks/before.sh", { beforeHelm: 1 }, '[ "$REPLICA" = op-7b9c4d5f66-bbbbb ]');
    const old = await scene.replica("op-6f5d8c9b7d-aaaaa", LONG);
    await scene.sees("op-6f5d8c9b7d-aaaaa", "start", "before");
    const same = await scene.replica("op-6f5d8c9b7d-ccccc", LONG);
    await eventually(
      async () => (await same.http("/readyz")).body === "The leader is not ready\n",
      "not ready",
    );

    const next = await scene.replica("op-7b9c4d5f66-bbbbb", LONG);
    await next.waitReady();
    expect((await next.http("/readyz")).body).toMatch(/the leader is of another revision/);
    expect((await old.http("/readyz")).status).toBe(500);
    await same.stop();
    await old.stop();
    await scene.sees("op-7b9c4d5f66-bbbbb", "end", "before");
    await next.waitReady();
    expect(scene.overlaps()).toEqual([]);
  },
);

async function leads(scene: Stage, replica: string): Promise<boolean> {
  return (await scene.lease()).holderIdentity.startsWith(`${replica}/`);
}

describe.each([
  ["years behind", "1999-12-31T23:59:59.000000Z"],
  ["years ahead", "2099-12-31T23:59:59.000000Z"],
])("a holder whose clock is %s", (_how, renewTime) => {
  test("keeps the lease while it renews it, and loses it when it stops", { timeout: 90_000 }, async () => {
    const scene = await stage();
    const proxy = await FaultProxy.open(cluster().kubeconfig);
    onTestFinished(() => proxy.close());
    const where = ["-n", scene.namespace];
    const renewed = (second: number): string =>
      renewTime.replace(/\d\d\.0/, `${String(second).padStart(2, "0")}.0`);
    await cluster().apply({
      apiVersion: "coordination.k8s.io/v1",
      kind: "Lease",
      metadata: { name: LEASE, namespace: scene.namespace },
      spec: { holderIdentity: "elsewhere", leaseDurationSeconds: 2, renewTime, acquireTime: renewTime },
    });
    const looks = (): number => proxy.seen.filter(({ path }) => path.endsWith(`/leases/${LEASE}`)).length;
    const b = await scene.replica("b", ["--lease-retry-period=500ms"], { KUBECONFIG: proxy.kubeconfig });
    // Twelve looks, half a second apart, are three times the lease's duration.
    for (let round = 1; round <= 12; round++) {
      await eventually(() => looks() >= round, "another look");
      const patch = JSON.stringify({ spec: { renewTime: renewed(round) } });
      await cluster().kubectl(["patch", "lease", LEASE, ...where, "--type=merge", "-p", patch]);
      expect((await scene.lease()).holderIdentity).toBe("elsewhere");
    }
    await b.waitReady();
    expect((await scene.lease()).holderIdentity).toMatch(/^b\//);
  });
});
