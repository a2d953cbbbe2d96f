// Runs at night: restarts.
import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { rmSync } from "node:fs";
import { createInterface } from "node:readline";
import { describe, expect, onTestFinished, test } from "vitest";

import { cluster, eventually, freshNamespace } from "../support/cluster.ts";
import { FaultProxy } from "../support/fault-proxy.ts";
import { hookLab } from "../support/hook-files.ts";
import type { OperatorProcess } from "../support/operator.ts";
import { LEASE, QUICK_LEASE, Stage } from "../support/replicas.ts";

// docs/guides/running.md, "Two replicas": one of two replicas works, the other is warm; they never work at once.

/** One that does not run out within a test. */
const LONG = ["--lease-duration=10m", "--lease-renew-deadline=9m", "--lease-retry-period=1s"];

const KILLED = { code: null, signal: "SIGKILL" };
/** After the lease is lost: in order, or by the watchdog, whichever is quicker. Half a second lies between them. */
const ENDS = [{ code: 0, signal: null }, KILLED];

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
async function getStuck(pageState: Stage): Promise<number> {
  await cluster().kubectl(["create", "configmap", "stuck", "-n", pageState.namespace]);
  return (await pageState.sees("a", "start", "stuck")).pid;
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

/** Shell text that sends a signal to an operator and its watchdog, as what freezes a Pod stops both; hooks go on. */
const signalBoth = (signal: "STOP" | "CONT", operator: string): string => `
both=${operator}
for child in $(cat /proc/${operator}/task/*/children); do
  if grep -aqs addon-operator-watchdog /proc/$child/cmdline; then both="$both $child"; fi
done
kill -${signal} $both`;

function freeze({ pid }: OperatorProcess): void {
  execFileSync("bash", ["-c", signalBoth("STOP", String(pid))]);
}

/** Throws where it has ended. */
function thaw({ pid }: OperatorProcess): void {
  execFileSync("bash", ["-c", signalBoth("CONT", String(pid))]);
}

/** Resolves to the time at which a process was no more. */
async function missing(pid: number): Promise<number> {
  await eventually(() => !isAlive(pid), `the end of ${pid}`, { timeoutMs: 60_000, intervalMs: 5 });
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
  test("ends its children before the follower takes over", { timeout: 180_000 }, async () => {
    const pageState = await stage();
    const proxy = await FaultProxy.open(cluster().kubeconfig);
    onTestFinished(() => proxy.close());
    const a = await pageState.replica("a", QUICK_LEASE, { KUBECONFIG: proxy.kubeconfig });
    await a.waitReady();
    const b = await pageState.replica("b", QUICK_LEASE);
    await b.waitReady();
    const stuck = await getStuck(pageState);

    if (how === "refused") await proxy.refuse();
    else {
      proxy.silence();
      proxy.delay(3_600_000);
    }
    const [end, goneAt] = await Promise.all([a.exit, missing(stuck)]);
    await pageState.sees("b", "end", "tick");

    const { holderIdentity, acquireTime = "" } = await pageState.lease();
    expect(ENDS).toContainEqual(end);
    expect(a.log()).toContain("The lease is lost");
    expect(holderIdentity).toMatch(/^b\//);
    expect(goneAt).toBeLessThan(Date.parse(acquireTime));
    expect(pageState.overlaps()).toEqual([]);
  });
});

test("a leader that was frozen starts nothing when it goes on", { timeout: 180_000 }, async () => {
  const pageState = await stage();
  const a = await pageState.replica("a", QUICK_LEASE);
  await a.waitReady();
  const b = await pageState.replica("b", QUICK_LEASE);
  await b.waitReady();
  await pageState.sees("a", "end", "tick");
  freeze(a);
  onTestFinished(() => {
    if (isAlive(a.pid ?? 0)) thaw(a);
  });
  await pageState.sees("b", "end", "tick");
  const before = pageState.marks().length;

  thaw(a);
  expect(ENDS).toContainEqual(await a.exit);

  const since = pageState.marks().slice(before);
  expect(since.filter(({ replica, what }) => replica === "a" && what === "start")).toEqual([]);
  expect(pageState.overlaps()).toEqual([]);
});

test("a leader that was frozen as a hook ended writes nothing of it", { timeout: 180_000 }, async () => {
  const pageState = await stage();
  const proxy = await FaultProxy.open(cluster().kubeconfig);
  onTestFinished(() => proxy.close());
  const patch = `[{"op": "add", "path": "/work/by", "value": "'"$REPLICA"'"}]`;
  const on = {
    kind: "ConfigMap",
    namespace: { nameSelector: { matchNames: [pageState.namespace] } },
    nameSelector: { matchNames: ["write"] },
    executeHookOnSynchronization: false,
  };
  pageState.hook(
    "global-hooks/write.sh",
    { kubernetes: [on] },
    `echo '${patch}' >"$CONFIG_VALUES_JSON_PATCH_PATH"
if [ "$REPLICA" = a ]; then ${signalBoth("STOP", "$PPID")}; fi`,
  );
  const a = await pageState.replica("a", QUICK_LEASE, { KUBECONFIG: proxy.kubeconfig });
  await a.waitReady();
  const b = await pageState.replica("b", QUICK_LEASE);
  await b.waitReady();
  await cluster().kubectl(["create", "configmap", "write", "-n", pageState.namespace]);
  await pageState.sees("a", "end", "write");
  onTestFinished(() => {
    if (isAlive(a.pid ?? 0)) thaw(a);
  });
  await pageState.sees("b", "end", "tick");
  const before = proxy.seen.length;

  thaw(a);
  await a.exit;

  // Reviews of permissions write nothing.
  const isWrite = ({ method, path }: { method: string; path: string }): boolean =>
    method !== "GET" && !path.startsWith("/apis/authorization.k8s.io/");
  const writes = proxy.seen.slice(before).filter(isWrite);
  expect(writes.filter(({ path }) => !path.endsWith(`/leases/${LEASE}`))).toEqual([]);
});

test("a leader that was frozen leaves no child behind", { timeout: 180_000 }, async () => {
  const pageState = await stage();
  const a = await pageState.replica("a", QUICK_LEASE);
  await a.waitReady();
  const b = await pageState.replica("b", QUICK_LEASE);
  await b.waitReady();
  const stuck = await getStuck(pageState);

  // The child is deaf, and goes on.
  freeze(a);
  await eventually(async () => await leads(pageState, "b"), "b leads", { timeoutMs: 60_000 });
  thaw(a);
  await Promise.all([a.exit, missing(stuck)]);
  expect(isAlive(stuck)).toBe(false);
});

test(
  "a leader whose event loop is busy is gone, its children too, before another works",
  { timeout: 180_000 },
  async () => {
    const pageState = await stage();
    // Judged where it counts: as the other begins.
    const check = `[ "$REPLICA" = a ] || ! runs "$(cat '${pageState.lab.dir}/leader')" || mark overlap leader`;
    pageState.hook("global-hooks/first.sh", { onStartup: 1 }, check);
    const a = await pageState.replica("a", QUICK_LEASE, { NODE_OPTIONS: "--inspect-port=0" });
    await a.waitReady();
    pageState.lab.file("leader", String(a.pid));
    const b = await pageState.replica("b", QUICK_LEASE);
    await b.waitReady();
    const stuck = await getStuck(pageState);

    await keepBusy(a);
    expect(await a.exit).toEqual(KILLED);
    await Promise.all([
      missing(stuck),
      pageState.sees("b", "end", "first"),
      pageState.sees("b", "end", "tick"),
    ]);
    expect(a.log()).toContain("killing the operator and its children");
    expect(pageState.overlaps()).toEqual([]);
  },
);

test("a stop gives the lease back after the last hook", { timeout: 180_000 }, async () => {
  const pageState = await stage();
  const a = await pageState.replica("a", LONG);
  await a.waitReady();
  const b = await pageState.replica("b", LONG);
  await b.waitReady();
  const seen = holders(pageState.namespace);
  await eventually(() => seen.includes("a"), "the lease is watched");

  expect(await a.stop()).toEqual({ code: 0, signal: null });
  await pageState.sees("b", "end", "tick");

  expect(a.log()).not.toContain("cannot be released");
  expect(seen).toEqual(["a", "", "b"]);
  expect(pageState.overlaps()).toEqual([]);
});

/** A follower names who leads, whatever is asked that only the leader knows. */
async function refusesAll(follower: OperatorProcess, leader: string): Promise<void> {
  const stderr = `this operator is a follower. Query the leader: ${leader}.\n`;
  const lines = ["status", "module list", "module run work", "queue list", "global values", "logs", "plan"];
  for (const line of lines)
    expect(await follower.cli(line.split(" "))).toMatchObject({ code: 1, stdout: "", stderr });
  expect(await follower.cli(["wait", "work"])).toMatchObject({ code: 1, stdout: stderr });
}

test("a follower is warm, and as ready as its leader", { timeout: 180_000 }, async () => {
  const pageState = await stage();
  pageState.hook(
    "modules/010-work/hooks/before.sh",
    { beforeHelm: 1 },
    `[ -e '${pageState.lab.dir}/mended' ]`,
  );
  const a = await pageState.replica("a", LONG);
  await pageState.sees("a", "start", "before");
  const b = await pageState.replica("b", LONG);
  await pageState.sees("b", "ask", "before");

  await eventually(async () => (await b.http("/readyz")).body === "The leader is not ready\n", "not ready");
  expect((await b.http("/readyz")).status).toBe(500);
  // What a follower knows of queues is nothing; it asks the leader.
  const body: unknown = expect.stringContaining("work");
  // It may not have seen yet who holds the Lease.
  await eventually(
    async () => expect(await b.http("/queue")).toMatchObject({ status: 200, body }),
    "the queue of the leader",
  );
  pageState.lab.file("mended", "");
  await a.waitReady();
  await b.waitReady();
  expect(await b.http("/readyz")).toEqual({
    status: 200,
    body: "Waiting for the lease; the leader is ready\n",
  });
  expect((await b.http("/healthz")).status).toBe(200);
  await refusesAll(b, (await pageState.lease()).holderIdentity);
  expect(pageState.marks("b").filter(({ what }) => what === "start")).toEqual([]);

  const requested = pageState.marks("b").filter(({ what }) => what === "ask");
  expect(requested.map(({ who }) => who).toSorted()).toEqual(["before", "stuck", "tick"]);
  await a.kill9();
  // Until b has worked itself, nobody is ready.
  await eventually(
    async () => (await b.http("/readyz")).status === 200 && (await leads(pageState, "b")),
    "b works",
  );
  await pageState.sees("b", "end", "tick");
  expect(pageState.marks("b").filter(({ what }) => what === "ask")).toEqual(requested);
  expect(pageState.marks("b").filter(({ who, what }) => who === "helm" && what === "start")).toEqual([]);
});

test(
  "a leader of an earlier revision that is not ready delays no rollout",
  { timeout: 180_000 },
  async () => {
    const pageState = await stage();
    pageState.hook(
      "modules/010-work/hooks/before.sh",
      { beforeHelm: 1 },
      '[ "$REPLICA" = op-7b9c4d5f66-bbbbb ]',
    );
    const old = await pageState.replica("op-6f5d8c9b7d-aaaaa", LONG);
    await pageState.sees("op-6f5d8c9b7d-aaaaa", "start", "before");
    const same = await pageState.replica("op-6f5d8c9b7d-ccccc", LONG);
    await eventually(
      async () => (await same.http("/readyz")).body === "The leader is not ready\n",
      "not ready",
    );

    const next = await pageState.replica("op-7b9c4d5f66-bbbbb", LONG);
    await next.waitReady();
    expect((await next.http("/readyz")).body).toMatch(/the leader is of another revision/);
    expect((await old.http("/readyz")).status).toBe(500);
    await same.stop();
    await old.stop();
    await pageState.sees("op-7b9c4d5f66-bbbbb", "end", "before");
    await next.waitReady();
    expect(pageState.overlaps()).toEqual([]);
  },
);

async function leads(pageState: Stage, replica: string): Promise<boolean> {
  return (await pageState.lease()).holderIdentity.startsWith(`${replica}/`);
}
