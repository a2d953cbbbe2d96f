import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";

import { loadConfig, type CredentialsOptions } from "../../../src/kube/client/kubeconfig.ts";

let root = "";
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), "kube-config-"));
});
afterEach(() => {
  rmSync(root, { recursive: true, force: true });
  vi.unstubAllEnvs();
});

const cluster = (name: string, server = `https://${name}`): object => ({ name, cluster: { server } });
const context = (name: string, parts: object): object => ({ name, context: parts });

function put(name: string, content: object | string): string {
  const file = join(root, name);
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(file, typeof content === "string" ? content : JSON.stringify(content));
  return file;
}

const problemOf = (source: CredentialsOptions): unknown => {
  try {
    loadConfig({ root, home: root, ...source });
  } catch (error) {
    return (error as { problems?: unknown[] }).problems?.[0];
  }
  return undefined;
};

describe("what cannot be used is one problem with file, key and remedy", () => {
  const fine = { clusters: [cluster("a")], users: [{ name: "u", user: {} }] };
  const withContext = (parts: object, more: object = {}): object => ({
    ...fine,
    contexts: [context("c", parts)],
    "current-context": "c",
    ...more,
  });
  const notYaml = expect.stringContaining("is not a kubeconfig") as string;
  const unknown = { key: "context x", remedy: "use one of: c" };
  const hollow = withContext({ cluster: "a", user: "u" }, { clusters: [{ name: "a" }] });
  test.each<[string, object | string, { context?: string; want: object }]>([
    ["empty", "", { want: { message: "is empty" } }],
    ["not YAML", "a: [", { want: { message: notYaml } }],
    ["a list", "- a", { want: { key: "current-context" } }],
    ["no context chosen", fine, { want: { key: "current-context", message: "no context is chosen" } }],
    ["unknown context", withContext({ cluster: "a" }), { context: "x", want: unknown }],
    ["unknown cluster", withContext({ cluster: "b", user: "u" }), { want: { key: "context c" } }],
    ["unknown user", withContext({ cluster: "a", user: "x" }), { want: { key: "context c" } }],
    ["a cluster without content", hollow, { want: { message: notYaml } }],
  ])("%s", (_, content, { want, ...source }) => {
    const file = put("config", content);
    expect(problemOf({ kubeConfig: file, ...source })).toMatchObject({ file, ...want });
  });

  test("a missing file", () => {
    const file = join(root, "none");
    expect(problemOf({ kubeConfig: file })).toMatchObject({
      file,
      remedy: expect.stringContaining("KUBECONFIG") as string,
    });
  });

  test("nothing at all", () => {
    expect(problemOf({})).toMatchObject({ file: join(root, ".kube/config") });
  });
});

test("several files: the first to name something wins", () => {
  const one = put("one", {
    clusters: [cluster("a")],
    users: [{ name: "u", user: { token: "1" } }],
    contexts: [context("c", { cluster: "a", user: "u", namespace: "ops" })],
    "current-context": "c",
  });
  const two = put("two", {
    clusters: [cluster("a", "https://other"), cluster("b")],
    contexts: [context("d", { cluster: "b", user: "u" })],
    "current-context": "d",
  });
  const both = `${one}:${two}`;
  const first = loadConfig({ kubeConfig: both });
  expect(first.config.getCurrentCluster()?.server).toBe("https://a");
  expect(first.namespace).toBe("ops");
  expect(loadConfig({ kubeConfig: both, context: "d" }).config.getCurrentCluster()?.server).toBe("https://b");
  const some = loadConfig({ kubeConfig: `${join(root, "none")}:${both}` });
  expect(some.config.getCurrentCluster()?.server).toBe("https://a");
  const none = `${join(root, "none")}:${join(root, "neither")}`;
  expect(problemOf({ kubeConfig: none })).toMatchObject({ message: "none of these files exists" });
});

test("~/.kube/config is used outside a Pod", () => {
  put(".kube/config", {
    clusters: [cluster("home")],
    contexts: [context("c", { cluster: "home" })],
    "current-context": "c",
  });
  expect(loadConfig({ root, home: root }).config.getCurrentCluster()?.server).toBe("https://home");
});

describe("in a Pod", () => {
  const account = "var/run/secrets/kubernetes.io/serviceaccount";
  beforeEach(() => {
    put(`${account}/token`, "t\n");
    put(`${account}/namespace`, "ops\n");
  });

  test.each([
    ["10.96.0.1", "https://10.96.0.1:443"],
    ["fd00::1", "https://[fd00::1]:443"],
    ["api.example.org", "https://api.example.org:443"],
  ])("KUBERNETES_SERVICE_HOST=%s", (host, server) => {
    vi.stubEnv("KUBERNETES_SERVICE_HOST", host);
    vi.stubEnv("KUBERNETES_SERVICE_PORT", "443");
    const loaded = loadConfig({ root, home: root });
    expect(loaded.config.getCurrentCluster()?.server).toBe(server);
    expect(loaded.namespace).toBe("ops");
  });

  test("without the variables", () => {
    vi.stubEnv("KUBERNETES_SERVICE_HOST", undefined);
    expect(problemOf({})).toMatchObject({
      message: expect.stringContaining("KUBERNETES_SERVICE_HOST") as string,
    });
  });
});

test("a loaded kubeconfig is current until the text of one of its files changes", () => {
  const config = {
    clusters: [cluster("a")],
    contexts: [context("c", { cluster: "a" })],
    "current-context": "c",
  };
  const file = put("config", config);
  const loaded = loadConfig({ kubeConfig: `${file}:${join(root, "missing")}`, root, home: root });
  expect(loaded.isUnchanged()).toBe(true);
  put("missing", { users: [] });
  expect(loaded.isUnchanged()).toBe(false);
  expect(loaded.readAgain().isUnchanged()).toBe(true);
  rmSync(file);
  expect(loaded.isUnchanged()).toBe(false);
});
