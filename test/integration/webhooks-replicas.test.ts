// Runs at night: faults.
import { rmSync } from "node:fs";
import { createServer, connect, type Socket } from "node:net";
import { expect, onTestFinished, test } from "vitest";

import { freePorts } from "../../scripts/control-plane/ports.mjs";
import { cluster, deleteNamespace, eventually, freshNamespace } from "../support/cluster.ts";
import { hookLab } from "../support/hook-files.ts";
import { startOperator, type OperatorProcess } from "../support/operator.ts";
import { LEASE, QUICK_LEASE, type LeaseSpec } from "../support/replicas.ts";

// docs/guides/webhooks.md, "Set up the server": two replicas, both behind the address that the API server calls.

const { kubectl, json } = cluster();

/** Replicas have the same port, as Pods have, and addresses of their own. */
const ADDRESS = { a: "127.0.0.2", b: "127.0.0.3" } as const;
type Name = keyof typeof ADDRESS;

/** What a Service does, but one replica at a time, so that a test knows who is asked. */
async function balancer(port: number): Promise<{ port: number; use: (name: Name) => void }> {
  const open = new Set<Socket>();
  let name: Name = "a";
  const server = createServer((client) => {
    const replica = connect(port, ADDRESS[name]);
    for (const [from, to] of [
      [client, replica],
      [replica, client],
    ] as const) {
      open.add(from);
      from.on("error", () => {}).pipe(to);
      from.once("close", () => {
        open.delete(from);
        to.destroy();
      });
    }
  });
  const end = (): void => open.forEach((socket) => socket.destroy());
  await new Promise<void>((resolve) => {
    server.listen(0, "127.0.0.1", resolve);
  });
  onTestFinished(() => {
    end();
    server.close();
  });
  const bound = server.address();
  const use = (next: Name): void => {
    name = next;
    end();
  };
  return { port: typeof bound === "object" && bound !== null ? bound.port : 0, use };
}

/** A hook that denies one name, registered for a namespace, and the means to start replicas. */
async function stage() {
  const [namespace, covered] = [await freshNamespace("replicas"), await freshNamespace("covered")];
  const lab = hookLab("webhook-replicas");
  onTestFinished(() => rmSync(lab.dir, { recursive: true, force: true, maxRetries: 5 }));
  lab.hook(
    "global-hooks/admit.sh",
    {
      configVersion: "v1",
      kubernetesValidating: [
        {
          name: "maps.replicas.example.com",
          rules: [
            { apiGroups: [""], apiVersions: ["v1"], resources: ["configmaps"], operations: ["CREATE"] },
          ],
          namespace: { labelSelector: { matchLabels: { "kubernetes.io/metadata.name": covered } } },
        },
      ],
    },
    `case "$(cat "$BINDING_CONTEXT_PATH")" in
*'"name":"deny'*) echo "{\\"allowed\\":false,\\"message\\":\\"not with $REPLICA\\"}";;
*) echo '{"allowed":true}';;
esac > "$ADMISSION_RESPONSE_PATH"`,
  );
  const [port = 0] = await freePorts(1);
  const service = await balancer(port);
  const names = ["hooks", "operator"].map((group) => `addon-operator-${namespace}-addon-operator-${group}`);
  onTestFinished(async () => {
    await kubectl(["delete", "validatingwebhookconfiguration", ...names, "--ignore-not-found"]);
    await deleteNamespace(covered);
  });
  const replica = (name: Name): Promise<OperatorProcess> =>
    startOperator({
      namespace,
      modulesDir: lab.modulesDir,
      globalHooksDir: lab.globalHooksDir,
      killed: true,
      args: [
        "--ha",
        "--webhooks",
        `--listen-address=${ADDRESS[name]}`,
        `--webhook-listen-address=${ADDRESS[name]}`,
        `--webhook-port=${port}`,
        `--webhook-url=https://127.0.0.1:${service.port}`,
        ...QUICK_LEASE,
      ],
      env: { REPLICA: name, ADDON_OPERATOR_POD: name },
    });
  const holder = async (): Promise<string> => {
    const { spec } = await json<{ spec: LeaseSpec }>(["get", "lease", LEASE, "-n", namespace]);
    return spec.holderIdentity.split("/")[0] ?? "";
  };
  const registered = async (): Promise<string[]> => {
    const found = await json<{ webhooks: { name: string }[] }>([
      "get",
      "validatingwebhookconfiguration",
      names[0] ?? "",
    ]);
    return found.webhooks.map(({ name }) => name);
  };
  const create = (name: string) => kubectl(["create", "configmap", name, "-n", covered]);
  return { service, replica, holder, registered, create };
}

const WAIT = { timeoutMs: 60_000 };
const OWN = ["maps.replicas.example.com"];

test("two replicas that start at once: the leader registers, and both answer from its state", async () => {
  const { service, replica, holder, registered, create } = await stage();
  const both = { a: await replica("a"), b: await replica("b") };
  await eventually(async () => expect(await registered()).toEqual(OWN), "the registration", WAIT);
  const leader = (await holder()) as Name;
  for (const name of ["a", "b"] as const) {
    service.use(name);
    const denied = async () =>
      expect(create(`deny-${name}`)).rejects.toThrow(`denied the request: not with ${leader}`);
    await eventually(denied, `an answer of ${name}`, WAIT);
    await Promise.all(Array.from({ length: 5 }, (_, index) => create(`pass-${name}-${index}`)));
  }
  const [follower] = Object.entries(both).flatMap(([name, each]) => (name === leader ? [] : each));
  expect(follower?.log()).not.toContain("Webhooks are registered");
});

test(
  "a leader that is killed as it has registered: its follower takes over and answers",
  { timeout: 120_000 },
  async () => {
    const { service, replica, holder, registered, create } = await stage();
    const a = await replica("a");
    await eventually(async () => expect(await registered()).toEqual(OWN), "the registration", {
      ...WAIT,
      intervalMs: 2,
    });
    await a.kill9();
    await expect(create("nobody-answers")).rejects.toThrow(/failed calling webhook/);
    await replica("b");
    service.use("b");
    await eventually(async () => expect(create("deny")).rejects.toThrow("not with b"), "b answers", WAIT);
    await create("pass");
    expect([await holder(), await registered()]).toEqual(["b", OWN]);
  },
);
