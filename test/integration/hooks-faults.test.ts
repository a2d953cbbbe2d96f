// Runs at night: faults.
import { existsSync, readdirSync, readFileSync, rmSync, statSync } from "node:fs";
import { join } from "node:path";

import { afterAll, beforeAll, describe, expect, test } from "vitest";

import { cluster, deleteNamespace, eventually, kubeconfigOf, makeNamespace } from "../support/cluster.ts";
import { installCrds } from "../support/crds.ts";
import { brief, hookLab } from "../support/hook-files.ts";
import type { Lab } from "../support/hook-files.ts";
import { launchOperator } from "../support/operator.ts";
import type { OperatorProcess } from "../support/operator.ts";

// What hooks and jq may do wrong, against the whole operator and the real API server.

const { kubectl, apply } = cluster();

/** A binding to the ConfigMap of that name; it runs the hook when the map appears. */
const on = (namespace: string, name: string) => ({
  kind: "ConfigMap",
  name,
  namespace: { nameSelector: { matchNames: [namespace] } },
  nameSelector: { matchNames: [name] },
  executeHookOnSynchronization: false,
  executeHookOnEvent: ["Added"],
});

const isAlive = (pid: number): boolean => {
  try {
    return !/^\d+ \(.*\) Z/.test(readFileSync(`/proc/${pid}/stat`, "utf8"));
  } catch {
    return false;
  }
};

/** The most memory a process has ever had, in MB. */
const peakMb = (pid: number | undefined): number => {
  const [, kb] = /^VmHWM:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, "utf8")) ?? [];
  return Number(kb) / 1024;
};

/** Children of a process that run a program of that name. */
function childrenOf(pid: number | undefined, name: string): number[] {
  const threads = readdirSync(`/proc/${pid}/task`);
  const children = threads.flatMap((thread) =>
    readFileSync(`/proc/${pid}/task/${thread}/children`, "utf8").split(" ").map(Number),
  );
  return children.filter(
    (child) =>
      child > 0 &&
      existsSync(`/proc/${child}/comm`) &&
      readFileSync(`/proc/${child}/comm`, "utf8").trim() === name,
  );
}

/** An operator over hooks of its own, until the block of tests ends. */
function running(prefix: string, prepare: (lab: Lab, ns: string) => void, env: Record<string, string> = {}) {
  const world = {
    lab: undefined as unknown as Lab,
    ns: "",
    operator: undefined as unknown as OperatorProcess,
  };
  beforeAll(async () => {
    world.lab = hookLab(prefix);
    world.ns = await makeNamespace(prefix);
    prepare(world.lab, world.ns);
    world.operator = await launchOperator({
      namespace: world.ns,
      modulesDir: world.lab.modulesDir,
      globalHooksDir: world.lab.globalHooksDir,
      env,
    });
    await world.operator.waitReady();
  });
  afterAll(async () => {
    await world.operator?.kill9();
    await deleteNamespace(world.ns);
    rmSync(world.lab.dir, { recursive: true, force: true });
  });
  return {
    world,
    pull: (name: string) => kubectl(["create", "configmap", name, "-n", world.ns]),
    is: (check: () => unknown, what: string, timeoutMs = 60_000) =>
      eventually(check as () => Promise<void>, what, {
        timeoutMs,
        context: () => world.operator.log().slice(-3000),
      }),
    /** What a hook wrote into a file of that name. */
    note: (name: string) => readFileSync(join(world.lab.dir, "records", name), "utf8").trim(),
    tmp: () => readdirSync(join(world.operator.dir, "tmp")).filter((name) => name.startsWith("hook-")),
  };
}

const write = (name: string, what: string) =>
  `${what} > "$RECORDS/.${name}"; mv "$RECORDS/.${name}" "$RECORDS/${name}"`;

describe("hooks that misbehave", () => {
  const { world, pull, is, note, tmp } = running(
    "misbehave",
    (lab, ns) => {
      const hook = (name: string, body: string, more = {}) =>
        lab.hook(
          `global-hooks/${name}.sh`,
          { configVersion: "v1", kubernetes: [{ ...on(ns, name), queue: name, ...more }] },
          body,
        );
      hook(
        "floods",
        `yes "$(head -c 999 /dev/zero | tr '\\0' x)" | head -c 200000000
head -c 200000000 /dev/zero | tr '\\0' y
head -c 100000000 /dev/zero | tr '\\0' z >&2
until [ -e "$RECORDS/go-floods" ]; do head -c 10000000 /dev/zero | tr '\\0' y; done`,
      );
      hook("forks", 'sleep 600 &\necho "$!" >> "$RECORDS/daemons"', {
        executeHookOnEvent: ["Added", "Modified"],
      });
      hook("behaves", "");
      hook(
        "private",
        write(
          "modes",
          'for f in "$(dirname "$BINDING_CONTEXT_PATH")" "$BINDING_CONTEXT_PATH" "$VALUES_PATH" "$CONFIG_VALUES_PATH" "$VALUES_JSON_PATCH_PATH" "$CONFIG_VALUES_JSON_PATCH_PATH" "$METRICS_PATH" "$KUBERNETES_PATCH_PATH"; do stat -c %a "$f"; done',
        ),
      );
      hook("fails", `[ -e "$RECORDS/go-fails" ] || { ${write("failed", "echo")}; exit 1; }`);
    },
    { LOG_LEVEL: "warn" },
  );

  test("half a gigabyte of output costs the operator no memory, and no other hook its turn", async () => {
    const before = peakMb(world.operator.pid);
    await pull("floods");
    await is(() => expect(world.lab.runs("floods")).toHaveLength(1), "the flood has begun");
    await pull("behaves");
    await is(() => expect(world.lab.runs("behaves")).toHaveLength(1), "another hook runs meanwhile");
    expect((await world.operator.http("/queue")).body).toContain("floods");
    world.lab.release("floods");
    await is(
      async () => {
        const { body } = await world.operator.http("/metrics");
        expect(body).toMatch(/global_hook_success_total\{hook="floods.sh"[^}]*\} 1\n/);
      },
      "the flood is over",
      60_000,
    );
    expect(peakMb(world.operator.pid) - before).toBeLessThan(150);
  });

  test("a daemon that keeps the output open does not delay its hook's queue", async () => {
    await pull("forks");
    await kubectl(["label", "configmap", "forks", "-n", world.ns, "again=1"]);
    await is(
      () => expect(world.lab.contexts("forks").map(brief)).toEqual(["Added forks", "Modified forks"]),
      "both runs",
    );
    await is(() => expect(note("daemons").split("\n")).toHaveLength(2), "both daemons");
    const daemons = note("daemons").split("\n").map(Number);
    expect(daemons.map(isAlive)).toEqual([true, true]);
    for (const daemon of daemons) process.kill(daemon, "SIGKILL");
  });

  test("files of a run are private, and go away, also those of a failed one", async () => {
    await pull("private");
    await is(() => note("modes"), "the modes were noted");
    expect(note("modes").split("\n")).toEqual(["700", ...Array.from({ length: 7 }, () => "600")]);
    await pull("fails");
    await is(() => note("failed"), "a failed run");
    world.lab.release("fails");
    await is(() => expect(world.lab.runs("fails").length).toBeGreaterThan(1), "its repetition");
    await is(() => expect(tmp()).toEqual([]), "nothing is left");
  });
});

describe("hooks that do not end", () => {
  const endless = (name: string) =>
    `[ ! -e "$RECORDS/go-${name}" ] || exit 0
trap '' TERM
(trap '' TERM; exec sleep 600) &
${write(`${name}.pids`, 'echo "$$ $!"')}
wait`;
  const { world, pull, is, note, tmp } = running(
    "endless",
    (lab, ns) => {
      const kubernetes = ["limited", "stopped"].map(
        (name) => [name, { ...on(ns, name), queue: name }] as const,
      );
      for (const [name, binding] of kubernetes) {
        lab.hook(`global-hooks/${name}.sh`, { configVersion: "v1", kubernetes: [binding] }, endless(name));
      }
    },
    { HOOK_TIMEOUT: "2s", DEBUG_KEEP_TMP_FILES: "true", SHUTDOWN_TIMEOUT: "200ms" },
  );
  const pids = (name: string) => note(`${name}.pids`).split(" ").map(Number);

  test("--hook-timeout ends the whole process group, though it ignores SIGTERM; the run is repeated", async () => {
    await pull("limited");
    await is(
      () => expect(world.operator.log()).toMatch(/limited\.sh.*timed out after 2s/),
      "the run has failed",
    );
    // On a busy machine, a later run comes so far.
    await is(() => expect(pids("limited")).toHaveLength(2), "it has noted its processes");
    const [leader = 0, child = 0] = pids("limited");
    world.lab.release("limited");
    expect(leader).not.toBe(child);
    await is(() => expect([leader, child].map(isAlive)).toEqual([false, false]), "both are gone");
    await is(async () => {
      const { body } = await world.operator.http("/metrics");
      expect(body).toMatch(/global_hook_success_total\{hook="limited.sh"[^}]*activation="Kubernetes"\} 1\n/);
    }, "the repeated run succeeds");
  });

  test("--debug-keep-tmp-files keeps the files of each run, private as they were", () => {
    const kept = tmp().filter((name) => name.includes("limited"));
    expect(kept).toHaveLength(world.lab.runs("limited").length);
    const dir = join(world.operator.dir, "tmp", kept[0] ?? "");
    expect(statSync(dir).mode & 0o777).toBe(0o700);
    expect(statSync(join(dir, "binding-context.json")).mode & 0o777).toBe(0o600);
    expect(JSON.parse(readFileSync(join(dir, "binding-context.json"), "utf8"))).toMatchObject([
      { binding: "limited", type: "Event" },
    ]);
  });

  test("a hook that ignores SIGTERM does not delay the stop", async () => {
    await pull("stopped");
    await is(() => pids("stopped"), "the hook runs");
    const [leader = 0, child = 0] = pids("stopped");
    expect(await world.operator.stop()).toMatchObject({ code: 0 });
    expect([leader, child].map(isAlive)).toEqual([false, false]);
  });
});

describe("the end of the operator", () => {
  const { world, pull, is, note } = running("stopping", (lab, ns) => {
    const result = { apiVersion: "v1", kind: "ConfigMap", metadata: { name: "result", namespace: ns } };
    const slow = `${write("begun", "echo $$")}
wait_for slow
echo '${JSON.stringify({ operation: "Create", object: result })}' > "$KUBERNETES_PATCH_PATH"`;
    lab.hook("global-hooks/slow.sh", { configVersion: "v1", kubernetes: [on(ns, "slow")] }, slow);
    const late = { ...on(ns, "late"), queue: "late" };
    lab.hook("global-hooks/late.sh", { configVersion: "v1", kubernetes: [late] });
  });

  test("the running hook may finish, and what it left takes effect; nothing new begins", async () => {
    await pull("slow");
    await is(() => note("begun"), "the hook runs");
    let ended = false;
    const stopped = world.operator.stop().then((exit) => {
      ended = true;
      return exit;
    });
    await is(() => expect(world.operator.log()).toContain("Asked to stop"), "the operator has heard");
    await pull("late");
    expect(ended).toBe(false);
    world.lab.release("slow");
    expect(await stopped).toMatchObject({ code: 0 });
    expect(await kubectl(["get", "configmap", "result", "-n", world.ns, "-o", "name"])).toContain("result");
    expect(world.lab.runs("late")).toEqual([]);
  });
});

describe("filters that misbehave", () => {
  const binding = (ns: string, more: object) => ({
    ...on(ns, "x"),
    nameSelector: { matchNames: [] },
    labelSelector: { matchLabels: { jq: "yes" } },
    executeHookOnEvent: ["Added", "Modified", "Deleted"],
    ...more,
  });
  const { world, is } = running("filters", (lab, ns) => {
    const hook = (name: string, more: object) =>
      lab.hook(`global-hooks/${name}.sh`, {
        configVersion: "v1",
        kubernetes: [binding(ns, { queue: name, ...more })],
      });
    hook("filtered", { jqFilter: "if .data.loop then last(repeat(1)) else .data.x | ascii_upcase end" });
    hook("plain", { jqFilter: ".data.x" });
  });
  const make = (name: string, data: Record<string, string>) =>
    apply({
      apiVersion: "v1",
      kind: "ConfigMap",
      metadata: { name, namespace: world.ns, labels: { jq: "yes" } },
      data,
    });
  const reportedLine = (hook: string) => world.lab.contexts(hook).map(({ filterResult }) => filterResult);

  test("jq that is killed at its work is tried again, at last the change is reported and left out", async () => {
    await make("doomed", { loop: "1" });
    const killed = new Set<number>();
    await is(() => {
      for (const pid of childrenOf(world.operator.pid, "jq")) {
        killed.add(pid);
        process.kill(pid, "SIGKILL");
      }
      expect(world.operator.log()).toMatch(/jqFilter failed/);
    }, "the failure is reported");
    expect(killed.size).toBeGreaterThan(1);
    const line = world.operator.lines.find((each) => each.includes("jqFilter failed"));
    expect(line).toMatch(/doomed/);
    expect(line).toMatch(/filtered\.sh/);
    await make("fine", { x: "a" });
    await is(() => expect(reportedLine("filtered")).toEqual(["A"]), "the next change comes");
    await make("doomed", { x: "b" });
    await is(
      () => expect(world.lab.contexts("filtered").map(brief)).toEqual(["Added fine", "Modified doomed"]),
      "so does the mended object",
    );
  });

  test("a filter that loops is ended by its time limit; another hook's filter is not delayed", async () => {
    await make("endless", { loop: "1", x: "quick" });
    await is(() => expect(reportedLine("plain")).toContain("quick"), "the other hook is told");
    const reported = () =>
      world.operator.lines.find((each) => /jqFilter failed.*endless|endless.*jqFilter failed/.test(each));
    expect(reported()).toBeUndefined();
    await make("after", { x: "c" });
    await is(() => expect(reported()).toMatch(/the filter took over 5s/), "the limit", 60_000);
    await is(() => expect(reportedLine("filtered").at(-1)).toBe("C"), "changes that waited come");
  });
});

describe("kinds", () => {
  const kind = (ns: string) => `Gizmo${ns.replaceAll(/\W/g, "")}`;
  const crd = (ns: string) => ({
    apiVersion: "apiextensions.k8s.io/v1",
    kind: "CustomResourceDefinition",
    metadata: { name: `${kind(ns).toLowerCase()}s.faults.example.com` },
    spec: {
      group: "faults.example.com",
      scope: "Namespaced",
      names: { plural: `${kind(ns).toLowerCase()}s`, kind: kind(ns) },
      versions: [
        {
          name: "v1",
          served: true,
          storage: true,
          schema: { openAPIV3Schema: { type: "object", "x-kubernetes-preserve-unknown-fields": true } },
        },
      ],
    },
  });
  const { world, is } = running("kinds", (lab, ns) => {
    lab.file("modules/values.yaml", "gizmosEnabled: true\n");
    lab.file("modules/010-gizmos/crds/gizmo.json.yaml", JSON.stringify(crd(ns)));
    lab.hook("modules/010-gizmos/hooks/gizmos.sh", {
      configVersion: "v1",
      kubernetes: [{ kind: kind(ns), apiVersion: "faults.example.com/v1" }],
    });
    // Waits for the kind as well, since before the module came.
    lab.hook("global-hooks/early.sh", {
      configVersion: "v1",
      kubernetes: [{ kind: kind(ns), apiVersion: "faults.example.com/v1" }],
    });
  });

  afterAll(async () => {
    await kubectl(["delete", "crd", crd(world.ns).metadata.name, "--wait=false", "--ignore-not-found"]);
  });

  test("of a module's own CRD are there when its hooks start", async () => {
    await is(
      () => expect(world.lab.contexts("gizmos").map(brief)).toEqual(["Synchronization []"]),
      "the module's hook",
    );
    await is(
      () => expect(world.lab.contexts("early").map(brief)).toEqual(["Synchronization []"]),
      "the hook that waited",
    );
    const waited = world.operator.lines.filter((line) => line.includes("Kubernetes binding does not work"));
    expect(waited.filter((line) => line.includes("gizmos.sh"))).toEqual([]);
    expect(waited.filter((line) => line.includes("early.sh"))).toHaveLength(1);
  });
});

test("a kind that RBAC forbids is reported in the module's status; its other binding works", async () => {
  await installCrds();
  const lab = hookLab("rbac-module");
  const home = await makeNamespace("rbac-module");
  const kubeconfig = await kubeconfigOf(home, "limited");
  const group = "rbac.authorization.k8s.io";
  await apply({
    apiVersion: `${group}/v1`,
    kind: "RoleBinding",
    metadata: { name: "limited", namespace: home },
    roleRef: { apiGroup: group, kind: "ClusterRole", name: "cluster-admin" },
    subjects: [{ kind: "ServiceAccount", name: "limited", namespace: home }],
  });
  lab.file("modules/values.yaml", "blindEnabled: true\n");
  lab.hook("modules/010-blind/hooks/sees.sh", {
    configVersion: "v1",
    kubernetes: [{ kind: "Node", name: "nodes" }, on(home, "pull")],
  });
  const operator = await launchOperator({
    kubeconfig,
    namespace: home,
    modulesDir: lab.modulesDir,
    globalHooksDir: lab.globalHooksDir,
  });
  try {
    await operator.waitReady();
    const message = await eventually(
      async () => {
        const jsonpath = 'jsonpath={.status.conditions[?(@.type=="Ready")].message}';
        const text = await kubectl(["get", "addonmodule", "blind", "-n", home, "-o", jsonpath]);
        expect(text).toContain("sees.sh");
        return text;
      },
      "the status says so",
      { context: () => operator.log().slice(-3000) },
    );
    expect(message).toMatch(/binding nodes: .*(forbidden|cannot list)/);
    await kubectl(["create", "configmap", "pull", "-n", home]);
    await eventually(
      () => expect(lab.contexts("sees").map(brief)).toEqual(["Added pull"]),
      "the other binding works",
    );
    const { body } = await operator.http("/metrics");
    expect(body).toMatch(/^addon_operator_binding_monitor_missing_total\{binding="nodes"\} 1$/m);
    expect(body).toMatch(/^addon_operator_kubernetes_client_watch_errors_total\{error_type="fail"\} [1-9]/m);
    expect(body).toMatch(
      /^addon_operator_kube_event_duration_seconds_count\{module="blind",hook="[^"]*sees.sh",binding="pull",queue="main",kind="ConfigMap"\} 1$/m,
    );
  } finally {
    await operator.kill9();
    await deleteNamespace(home);
    rmSync(lab.dir, { recursive: true, force: true });
  }
});
