import { expect, it, onTestFinished } from "vitest";

import { exitCodeForError } from "../../../../src/main/commands/index.ts";
import { Reader } from "../../../../src/main/commands/cluster/read-resources.ts";
import { formatMicroTime } from "../../../../src/kube/resources.ts";
import { run } from "../../../support/command-line.ts";
import { FakeApi, status, type Answer } from "../../../support/fake-api.ts";

const GROUP = "/apis/addon-operator.io/v1alpha1";
const OPERATORS = `GET ${GROUP}/addonoperators`;

interface PageState {
  readonly api: FakeApi;
  readonly reader: Reader;
}

async function pageState(settings: { namespace?: string; configMap?: string } = {}): Promise<PageState> {
  const api = await FakeApi.start();
  const { namespace, configMap = "addon-operator" } = settings;
  const reader = new Reader({
    kubeConfig: api.kubeconfig(),
    kubeContext: undefined,
    namespace,
    configMap,
  });
  onTestFinished(async () => {
    await reader.close();
    await api.close();
  });
  return { api, reader };
}

const list = (items: readonly object[], next = ""): Answer => ({
  json: { metadata: { continue: next }, items },
});
const operator = (namespace: string, name = "addon-operator") => ({
  metadata: { namespace, name, uid: `uid-${name}` },
});
const module = (name: string, owner = "addon-operator") => ({
  metadata: {
    name,
    namespace: "ops",
    ownerReferences: [{ kind: "AddonOperator", name: owner, uid: `uid-${owner}` }],
  },
  status: { state: "Ready", values: { large: "x".repeat(1000) } },
});

it("lists 5,000 modules in pages, and keeps no values", async () => {
  const { api, reader } = await pageState();
  api.on(OPERATORS, list([operator("ops")]));
  api.on(`GET ${GROUP}/namespaces/ops/addonmodules`, ({ query }) => {
    const page = Number(query["continue"] ?? 0);
    const names = Array.from({ length: 500 }, (_, at) => module(`m${page * 500 + at}`));
    return list(names, page < 9 ? String(page + 1) : "");
  });
  const { modules } = await reader.listAll();
  expect(new Set(modules.map(({ metadata }) => metadata.name)).size).toBe(5000);
  expect(modules.some(({ status: is }) => is !== undefined && "values" in is)).toBe(false);
  const pages = api.requests.filter(({ path }) => path.endsWith("/addonmodules"));
  expect(pages.map(({ query }) => [query["limit"], query["continue"]])).toEqual(
    Array.from({ length: 10 }, (_, page) => ["500", page === 0 ? undefined : String(page)]),
  );
});

it("lists without paging after the continue token has expired", async () => {
  const { api, reader } = await pageState({ namespace: "ops" });
  api.on(`GET ${GROUP}/namespaces/ops/addonoperators`, list([operator("ops")]));
  api.on(`GET ${GROUP}/namespaces/ops/addonmodules`, ({ query }) =>
    query["limit"] === undefined
      ? list([module("a"), module("b")])
      : query["continue"] === undefined
        ? list([module("a")], "next")
        : status(410, "Expired"),
  );
  expect((await reader.listAll()).modules).toHaveLength(2);
});

it("reads one module alone where it is about one, and finds the operator once", async () => {
  const { api, reader } = await pageState();
  api.on(OPERATORS, list([operator("ops")]));
  api.on(`GET ${GROUP}/namespaces/ops/addonmodules/web`, { json: module("web") });
  expect((await reader.module("web"))?.metadata.name).toBe("web");
  expect(await reader.module("none")).toBeUndefined();
  expect(api.count(OPERATORS)).toBe(1);
});

it("of two operators in one namespace, the one of the ConfigMap and its modules count", async () => {
  const { api, reader } = await pageState({ configMap: "other" });
  api.on(OPERATORS, list([operator("ops"), operator("ops", "other")]));
  api.on(`GET ${GROUP}/namespaces/ops/addonmodules`, list([module("a"), module("b", "other")]));
  const found = await reader.listAll();
  expect([found.operator?.metadata.name, found.modules.map(({ metadata }) => metadata.name)]).toEqual([
    "other",
    ["b"],
  ]);
});

it("the only operator counts with the default name of the ConfigMap, but not with another one", async () => {
  const find = async (configMap?: string): Promise<string | undefined> => {
    const { api, reader } = await pageState(configMap === undefined ? {} : { configMap });
    api.on(OPERATORS, list([operator("ops", "platform")]));
    api.on(`GET ${GROUP}/namespaces/ops/addonmodules`, list([]));
    return (await reader.listAll()).operator?.metadata.name;
  };
  expect(await find()).toBe("platform");
  expect(await find("platform")).toBe("platform");
  await expect(find("gone")).rejects.toThrow(
    "there is only operator platform in ops. Select one with --config-map NAME",
  );
});

it.each([
  { renewed: true, args: ["wait", "web", "--timeout=0s"], code: 0, text: /^web: Ready: all well\n$/ },
  {
    renewed: false,
    args: ["wait", "web", "--timeout=0s"],
    code: 1,
    text: /^web: Ready: The operator is not running: pod-1 has not renewed its Lease.* Its last status: all well\nweb: not ready/,
  },
  {
    renewed: false,
    args: ["why", "web"],
    code: 0,
    text: /^The operator is not running: pod-1.*\nweb: Ready/,
  },
  { renewed: false, args: ["list"], code: 0, text: /^The operator is not running: pod-1/ },
  { renewed: true, args: ["list"], code: 0, text: /^(?!.*not running)/s },
])("%j", async ({ renewed, args, code, text }) => {
  const { api } = await pageState();
  const conditions = [{ type: "Ready", status: "True", message: "all well" }];
  const web = { ...module("web"), status: { state: "Ready", conditions } };
  api.on(`GET ${GROUP}/namespaces/ops/addonoperators`, list([operator("ops")]));
  api.on(`GET ${GROUP}/namespaces/ops/addonmodules`, list([web]));
  api.on(`GET ${GROUP}/namespaces/ops/addonmodules/web`, { json: web });
  const renewTime = formatMicroTime(Date.now() - (renewed ? 0 : 3_600_000));
  const spec = { holderIdentity: "pod-1/7", leaseDurationSeconds: 35, renewTime };
  api.on("GET /apis/coordination.k8s.io/v1/namespaces/ops/leases/addon-operator-addon-operator", {
    json: { metadata: {}, spec },
  });
  const ended = await run(["addon", ...args, "-n", "ops", `--kube-config=${api.kubeconfig()}`]);
  expect(ended.text).toMatch(text);
  expect(ended.code).toBe(code);
});

it("waits also without the right to find the operator and its Lease", async () => {
  const { api } = await pageState();
  const conditions = [{ type: "Ready", status: "True", message: "all well" }];
  const web = { ...module("web"), status: { state: "Ready", conditions } };
  api.on(`GET ${GROUP}/namespaces/ops/addonoperators`, status(403, "Forbidden", { message: FORBIDDEN }));
  api.on(`GET ${GROUP}/namespaces/ops/addonmodules/web`, { json: web });
  const line = ["addon", "wait", "web", "-n", "ops", "--timeout=0s", `--kube-config=${api.kubeconfig()}`];
  expect(await run(line)).toEqual({ code: 0, text: "web: Ready: all well\n" });
});

it("knows no module of another operator than the named one", async () => {
  const { api, reader } = await pageState({ namespace: "ops", configMap: "other" });
  api.on(`GET ${GROUP}/namespaces/ops/addonmodules/web`, { json: module("web") });
  api.on(`GET ${GROUP}/namespaces/ops/addonmodules/theirs`, { json: module("theirs", "other") });
  expect(await reader.module("web")).toBeUndefined();
  expect((await reader.module("theirs"))?.metadata.name).toBe("theirs");
});

it("of operators in several namespaces, the one in the namespace of the context counts", async () => {
  const { api, reader } = await pageState();
  api.on(OPERATORS, list([operator("b"), operator("ops"), operator("a")]));
  for (const kind of ["addonmodules", "modulesources"])
    api.on(`GET ${GROUP}/namespaces/ops/${kind}`, list([]));
  expect((await reader.listAll()).operator?.metadata.namespace).toBe("ops");
  expect((await reader.sources()).namespace).toBe("ops");
});

const FORBIDDEN =
  'addonoperators.addon-operator.io is forbidden: User "me" cannot list resource "addonoperators"';

it.each<readonly [string, RegExp, Answer, number]>([
  [
    "no CRD",
    /server http.*: the CRDs of addon-operator\.io are not installed \(check/,
    status(404, "NotFound"),
    1,
  ],
  [
    "no right",
    /cannot list resource "addonoperators" \(grant list on addonoperators/,
    status(403, "Forbidden", { message: FORBIDDEN }),
    1,
  ],
  [
    "no credentials",
    /the server does not accept the credentials \(check token/,
    status(401, "Unauthorized"),
    1,
  ],
  ["no answer", /cannot be reached: .*\(check that the API server runs/, { cut: true }, 1],
  ["a broken server", /the server refuses: /, status(500, "InternalError"), 1],
  [
    "two namespaces",
    /^there are operators in a, b\. Select one with -n NAMESPACE$/,
    list([operator("b"), operator("a")]),
    2,
  ],
  [
    "two of other names",
    /^there are operators x, y in a\. Select one with --config-map NAME$/,
    list([operator("a", "y"), operator("a", "x")]),
    2,
  ],
])("%s: %s", async (...[, message, answer, code]) => {
  const { api, reader } = await pageState();
  api.on(OPERATORS, answer);
  const error: unknown = await reader.listAll().catch((reason: unknown) => reason);
  expect((error as Error).message).toMatch(message);
  expect(exitCodeForError(error)).toBe(code);
});
