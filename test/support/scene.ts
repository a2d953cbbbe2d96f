import { execFileSync } from "node:child_process";
import {
  closeSync,
  constants,
  existsSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readFileSync,
  readdirSync,
  rmSync,
  writeFileSync,
  writeSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { basename, dirname, join } from "node:path";
import { onTestFinished } from "vitest";

import { cluster, clusterOf, deleteNamespace, eventually, helmUnderTest, makeNamespace } from "./cluster.ts";
import type { Cluster } from "./cluster.ts";
import { FaultProxy } from "./fault-proxy.ts";
import { startOperator } from "./operator.ts";
import type { OperatorProcess } from "./operator.ts";

/** A place in a hook, script or helm wrapper where the next process that comes by stays until it is let go or killed. */
interface Gate {
  /** Resolves when a process has come to the gate; it waits there. */
  readonly reached: () => Promise<void>;
  /** Lets it go on; harmless when it is gone. */
  readonly open: () => void;
}

/** Directories, a namespace and a temp dir over several lives of an operator. */
export interface PageState {
  readonly dir: string;
  readonly namespace: string;
  readonly proxy: FaultProxy;
  readonly cluster: Cluster;
  /** Variables of each operator that is started from now on. */
  readonly env: Record<string, string>;
  /** Makes a file; hooks (`*.sh`) and `enabled` scripts are executable. */
  readonly file: (path: string, text: string) => void;
  readonly remove: (path: string) => void;
  /** Closes a gate for the next process that comes by (`gate NAME` in scripts). */
  readonly close: (name: string) => Gate;
  /** Starts an operator over the same directories, temp dir and ConfigMap as its predecessors. */
  readonly start: (options?: Parameters<typeof startOperator>[0]) => Promise<OperatorProcess>;
  /** Sets keys of the ConfigMap; null removes one. */
  readonly configure: (data: Readonly<Record<string, string | null>>) => Promise<void>;
  /** Verbs of helm with their releases, in order: `upgrade app`. */
  readonly helmRuns: () => string[];
  /** Pids of everything that was started by an operator of this scene, without `except`. */
  readonly processes: (except?: readonly (number | undefined)[]) => string[];
  /** Ends all helm processes as the kernel would. */
  readonly killHelm: () => void;
  /** What is in the temp directory beside helm's home. */
  readonly scratch: () => string[];
}

/**
 * Sourced by all scripts: the first who comes to a closed gate takes it and waits. It holds the pipe before it says that
 * it is there, so that a gate which is opened in the next instant lets it go.
 */
const GATES = `gate() {
  [ -p "$SCENE/gates/$1.fifo" ] || return 0
  {
    mv "$SCENE/gates/$1.closed" "$SCENE/gates/$1.reached" 2>/dev/null || return 0
    read -r _ <&3
  } 3<> "$SCENE/gates/$1.fifo"
}
`;

const HELM = `#!/usr/bin/env bash
. "$SCENE/gates.sh"
release="$2"
[ "$2" != --install ] || release="$3"
echo "$1 $release" >> "$SCENE/helm-runs"
gate "before-$1 $release"
"$REAL_HELM" "$@"; code=$?
gate "after-$1 $release"
exit $code
`;

/** Opens a scene; all of it goes when the current test ends. Without `own`, it plays on the shared control plane. */
export async function openScene(prefix: string, own?: Parameters<typeof clusterOf>[0]): Promise<PageState> {
  const plane = own === undefined ? cluster() : clusterOf(own);
  const dir = mkdtempSync(join(tmpdir(), `${prefix}-`));
  onTestFinished(() => rmSync(dir, { recursive: true, force: true, maxRetries: 5 }));
  const namespace = await namespaceFor(prefix, plane, own !== undefined);
  const proxy = await FaultProxy.open(plane.kubeconfig);
  onTestFinished(() => proxy.close());
  for (const name of ["gates", "modules", "global-hooks", "tmp"]) mkdirSync(join(dir, name));
  const file = (path: string, text: string): void => {
    const target = join(dir, path);
    mkdirSync(dirname(target), { recursive: true });
    const executable = path.endsWith(".sh") || ["enabled", "helm"].includes(basename(path));
    writeFileSync(target, text, { mode: executable ? 0o755 : 0o644 });
  };
  file("gates.sh", GATES);
  file("helm", HELM);
  file("helm-runs", "");
  onTestFinished(() => endAll(dir));
  const env: Record<string, string> = { SCENE: dir, REAL_HELM: helmUnderTest() };
  return {
    dir,
    namespace,
    proxy,
    env,
    cluster: plane,
    file,
    remove: (path) => rmSync(join(dir, path), { recursive: true, force: true }),
    close: (name) => closeGate(join(dir, "gates", name)),
    start: (options = {}) =>
      startOperator({
        kubeconfig: proxy.kubeconfig,
        namespace,
        modulesDir: join(dir, "modules"),
        globalHooksDir: join(dir, "global-hooks"),
        helm: join(dir, "helm"),
        ...options,
        args: [`--tmp-dir=${join(dir, "tmp")}`, ...(options.args ?? [])],
        env: { ...env, ...options.env },
      }),
    configure: (data) => configure(plane, namespace, data),
    helmRuns: () => readFileSync(join(dir, "helm-runs"), "utf8").split("\n").filter(Boolean),
    processes: (except = []) => processesOf(dir, except).map(({ pid, text }) => `${pid} ${text}`),
    killHelm: () => endAll(dir, "ADDON_OPERATOR_HELM_RELEASE"),
    scratch: () => readdirSync(join(dir, "tmp")).filter((name) => name !== "helm-home"),
  };
}

async function namespaceFor(prefix: string, plane: Cluster, isOwn: boolean): Promise<string> {
  if (!isOwn) {
    const name = await makeNamespace(prefix);
    onTestFinished(() => deleteNamespace(name));
    return name;
  }
  const name = basename(mkdtempSync(join(tmpdir(), `${prefix}-`))).toLowerCase();
  await plane.kubectl(["create", "namespace", name]);
  return name;
}

function closeGate(path: string): Gate {
  for (const end of ["reached", "fifo"]) rmSync(`${path}.${end}`, { force: true });
  execFileSync("mkfifo", [`${path}.fifo`]);
  writeFileSync(`${path}.closed`, "");
  return {
    reached: async () => {
      await eventually(() => existsSync(`${path}.reached`), `gate ${basename(path)} is reached`);
    },
    open: () => {
      rmSync(`${path}.closed`, { force: true });
      try {
        const end = openSync(`${path}.fifo`, constants.O_WRONLY | constants.O_NONBLOCK);
        writeSync(end, "\n");
        closeSync(end);
      } catch {
        // Nobody waits there any more.
      }
    },
  };
}

async function configure(
  { kubectl }: Cluster,
  namespace: string,
  data: Readonly<Record<string, string | null>>,
): Promise<void> {
  const patch = JSON.stringify({ data });
  await kubectl(["patch", "configmap", "addon-operator", "-n", namespace, "--type=merge", "-p", patch]);
}

interface Found {
  readonly pid: number;
  readonly text: string;
  readonly environment: string;
}

/** Everything that has the scene in its environment: an operator hands it down to hooks and helm. */
function processesOf(dir: string, except: readonly (number | undefined)[] = []): Found[] {
  const pids = readdirSync("/proc").filter((name) => /^\d+$/.test(name));
  return pids.flatMap((name) => {
    const pid = Number(name);
    if (except.includes(pid)) return [];
    try {
      const environment = readFileSync(`/proc/${pid}/environ`, "latin1");
      const text = readFileSync(`/proc/${pid}/cmdline`, "latin1").replaceAll("\0", " ").trim();
      return environment.split("\0").includes(`SCENE=${dir}`) ? [{ pid, text, environment }] : [];
    } catch {
      return [];
    }
  });
}

/** Ends what a failed test left running, or only what has a variable in its environment. */
function endAll(dir: string, variable = "SCENE"): void {
  for (const { pid, environment } of processesOf(dir)) {
    if (!environment.includes(`${variable}=`)) continue;
    try {
      process.kill(pid, "SIGKILL");
    } catch {
      // It ended meanwhile.
    }
  }
}
