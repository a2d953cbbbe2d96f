import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, onTestFinished, test } from "vitest";

import { connect, PrivateKubeconfig, type KubeClient } from "../../../src/kube/index.ts";
import { StableTempDir } from "../../../src/base/process/index.ts";
import { FakeApi, status } from "../../support/fake-api.ts";
import { keepLog, type LoggedLine } from "../../support/logged.ts";

const PATH = "/api/v1/namespaces/ops";

interface Parts {
  readonly current?: string;
  readonly devServer?: string;
  readonly user?: object;
  readonly cluster?: object;
}

interface Lab {
  readonly dev: FakeApi;
  readonly prod: FakeApi;
  readonly dir: string;
  /** Writes a kubeconfig with the contexts dev and prod. */
  readonly write: (parts?: Parts) => void;
  readonly client: () => KubeClient;
  readonly logged: LoggedLine[];
}

async function lab(): Promise<Lab> {
  const [dev, prod] = [await FakeApi.start(), await FakeApi.start()];
  const dir = mkdtempSync(join(tmpdir(), "one-cluster-"));
  const file = join(dir, "config");
  const logged: LoggedLine[] = [];
  const write: Lab["write"] = ({
    current = "dev",
    devServer = dev.url,
    user = { token: "t1" },
    cluster,
  } = {}) =>
    writeFileSync(
      file,
      JSON.stringify({
        "current-context": current,
        clusters: [
          { name: "dev", cluster: { server: devServer, ...cluster } },
          { name: "prod", cluster: { server: prod.url } },
        ],
        users: ["dev", "prod"].map((name) => ({ name, user })),
        contexts: ["dev", "prod"].map((name) => ({ name, context: { cluster: name, user: name } })),
      }),
    );
  const clients: KubeClient[] = [];
  onTestFinished(async () => {
    for (const each of [...clients, dev, prod]) await each.close();
    rmSync(dir, { recursive: true, force: true });
  });
  const client = (): KubeClient => {
    const made = connect({ kubeConfig: file, userAgent: "test", logger: keepLog(logged) });
    clients.push(made);
    return made;
  };
  return { dev, prod, dir, write, client, logged };
}

const exported = (client: KubeClient): unknown => JSON.parse(client.exportKubeconfig());

describe("a refused token is replaced, and nothing else", () => {
  test("the context of the start stays, whichever is current by now", async () => {
    const { dev, prod, write, client } = await lab();
    write();
    const made = client();
    write({ current: "prod", user: { token: "t2" } });
    dev.on(`GET ${PATH}`, ({ headers }) =>
      headers.authorization === "Bearer t2" ? { json: { fine: true } } : status(401, "Unauthorized"),
    );
    await expect(made.json({ path: PATH })).resolves.toEqual({ fine: true });
    expect(prod.requests).toEqual([]);
  });

  test("another server in the same context is refused with one clear error", async () => {
    const { dev, prod, write, client, dir } = await lab();
    write();
    const made = client();
    write({ devServer: prod.url });
    dev.on(`GET ${PATH}`, status(401, "Unauthorized"));
    await expect(made.json({ path: PATH })).rejects.toMatchObject({
      problems: [
        {
          file: join(dir, "config"),
          key: "context dev",
          message: `names the server ${prod.url} now, not ${dev.url}`,
          remedy: expect.stringContaining("restart the operator") as string,
        },
      ],
    });
    expect(prod.requests).toEqual([]);
    expect(made.credentialsInfo.server).toBe(dev.url);
  });

  test.each<[string, Parts, Parts]>([
    ["a CA that is dropped", { cluster: { "certificate-authority-data": "Q0E=" } }, {}],
    [
      "a certificate that is no longer verified",
      { devServer: "https://127.0.0.1:1" },
      { devServer: "https://127.0.0.1:1", cluster: { "insecure-skip-tls-verify": true } },
    ],
    ["another name in the certificate", {}, { cluster: { "tls-server-name": "other" } }],
    ["another proxy", {}, { cluster: { "proxy-url": "http://127.0.0.1:1" } }],
    ["another user that is impersonated", {}, { user: { token: "t1", as: "root" } }],
  ])("%s is not exported", async (_, before, after) => {
    const { write, client, logged } = await lab();
    write(before);
    const made = client();
    const first = exported(made);
    write(after);
    expect([exported(made), exported(made)]).toEqual([first, first]);
    expect(logged.map(([level]) => level)).toEqual(["error"]);
  });
});

test("a change that is refused, undone and made again is logged twice", async () => {
  const { dev, prod, write, client, logged } = await lab();
  write();
  const made = client();
  for (const devServer of [prod.url, prod.url, dev.url, prod.url]) {
    write({ devServer });
    exported(made);
  }
  expect(logged.map(([level]) => level)).toEqual(["error", "error"]);
});

describe("the kubeconfig of children", () => {
  test("has the one context with what it names, by absolute paths", async () => {
    const { dev, dir, write, client } = await lab();
    write({ user: { tokenFile: "token", exec: { command: "./plugin", args: ["a"], apiVersion: "v1" } } });
    const tokenFile = client();
    expect(exported(tokenFile)).toMatchObject({
      "current-context": "dev",
      clusters: [{ name: "dev", cluster: { server: dev.url } }],
      users: [{ name: "dev", user: { tokenFile: join(dir, "token") } }],
      contexts: [{ name: "dev", context: { cluster: "dev", user: "dev" } }],
    });
    write({ user: { exec: { command: "./plugin", args: ["a"], env: [{ name: "A", value: "b" }] } } });
    const users = [
      {
        user: {
          exec: {
            command: join(dir, "plugin"),
            args: ["a"],
            env: [
              { name: "HOME", value: process.env["HOME"] },
              { name: "A", value: "b" },
            ],
          },
        },
      },
    ];
    expect(exported(client())).toMatchObject({ users });
  });

  test("is private, and made again with the newest token where it was altered or removed", async () => {
    const { dir, write, client } = await lab();
    write();
    const made = client();
    const kubeconfig = new PrivateKubeconfig(made, new StableTempDir(join(dir, "tmp"), "kube"), "helm");
    const user = (): unknown =>
      (JSON.parse(readFileSync(kubeconfig.path, "utf8")) as { users: unknown[] }).users;
    await kubeconfig.refresh();
    expect(statSync(kubeconfig.path).mode & 0o777).toBe(0o600);
    expect(user()).toEqual([{ name: "dev", user: { token: "t1" } }]);
    write({ user: { token: "t2" } });
    writeFileSync(kubeconfig.path, "apiVersion: v1");
    await kubeconfig.refresh();
    expect(user()).toEqual([{ name: "dev", user: { token: "t2" } }]);
    rmSync(join(dir, "tmp"), { recursive: true });
    await kubeconfig.refresh();
    expect(user()).toEqual([{ name: "dev", user: { token: "t2" } }]);
  });

  test("names the operator's namespace for hooks, whatever the context of its kubeconfig names", async () => {
    const { dir, write, client } = await lab();
    write();
    const files = new StableTempDir(join(dir, "tmp"), "kube");
    const kubeconfig = new PrivateKubeconfig(client(), files, "hooks", "addons");
    await kubeconfig.refresh();
    expect(JSON.parse(readFileSync(kubeconfig.path, "utf8"))).toMatchObject({
      contexts: [{ context: { namespace: "addons" } }],
    });
  });
});
