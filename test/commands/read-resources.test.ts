import { expect, it, onTestFinished } from "vitest";

import { exitCodeOf } from "../../src/commands/index.ts";
import { resourceReader, type Reader } from "../../src/commands/cluster/read-resources.ts";
import { FakeApi, status, type Answer } from "../support/fake-api.ts";

const GROUP = "/apis/addon-operator.io/v1alpha1";
const OPERATORS = `GET ${GROUP}/addonoperators`;

interface Scene {
  readonly api: FakeApi;
  readonly reader: Reader;
}

async function scene(settings: { namespace?: string; configMap?: string } = {}): Promise<Scene> {
  const api = await FakeApi.start();
  const { namespace, configMap = "addon-operator" } = settings;
  const reader = resourceReader({
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
  metadata: { name, namespace: "ops", ownerReferences: [{ kind: "AddonOperator", uid: `uid-${owner}` }] },
  status: { state: "Ready", values: { large: "x".repeat(1000) } },
});

it("lists 5,000 modules in pages, and keeps no values", async () => {
  const { api, reader } = await scene();
  api.on(OPERATORS, list([operator("ops")]));
  api.on(`GET ${GROUP}/namespaces/ops/addonmodules`, ({ query }) => {
    const page = Number(query["continue"] ?? 0);
    const names = Array.from({ length: 500 }, (_, at) => module(`m${page * 500 + at}`));
    return list(names, page < 9 ? String(page + 1) : "");
  });
  const { modules } = await reader.all();
  expect(new Set(modules.map(({ metadata }) => metadata.name)).size).toBe(5000);
  expect(modules.some(({ status: is }) => is !== undefined && "values" in is)).toBe(false);
  expect(api.requests.slice(1).map(({ query }) => [query["limit"], query["continue"]])).toEqual(
    Array.from({ length: 10 }, (_, page) => ["500", page === 0 ? undefined : String(page)]),
  );
});

it("asks for all at once where the server has forgotten the list before its end", async () => {
  const { api, reader } = await scene({ namespace: "ops" });
  api.on(`GET ${GROUP}/namespaces/ops/addonoperators`, list([operator("ops")]));
  api.on(`GET ${GROUP}/namespaces/ops/addonmodules`, ({ query }) =>
    query["limit"] === undefined
      ? list([module("a"), module("b")])
      : query["continue"] === undefined
        ? list([module("a")], "next")
        : status(410, "Expired"),
  );
  expect((await reader.all()).modules).toHaveLength(2);
});

it("reads one module alone where it is about one, and finds the operator once", async () => {
  const { api, reader } = await scene();
  api.on(OPERATORS, list([operator("ops")]));
  api.on(`GET ${GROUP}/namespaces/ops/addonmodules/web`, { json: module("web") });
  expect((await reader.module("web"))?.metadata.name).toBe("web");
  expect(await reader.module("none")).toBeUndefined();
  expect(api.count(OPERATORS)).toBe(1);
});

it("of two operators in one namespace, the one of the ConfigMap and its modules count", async () => {
  const { api, reader } = await scene({ configMap: "other" });
  api.on(OPERATORS, list([operator("ops"), operator("ops", "other")]));
  api.on(`GET ${GROUP}/namespaces/ops/addonmodules`, list([module("a"), module("b", "other")]));
  const found = await reader.all();
  expect([found.operator?.metadata.name, found.modules.map(({ metadata }) => metadata.name)]).toEqual([
    "other",
    ["b"],
  ]);
});

const FORBIDDEN =
  'addonoperators.addon-operator.io is forbidden: User "me" cannot list resource "addonoperators"';

it.each<readonly [string, RegExp, Answer, number]>([
  [
    "no CRD",
    /server http.*: knows no AddonModules: the CRDs of addon-operator\.io are not there \(look/,
    status(404, "NotFound"),
    1,
  ],
  [
    "no right",
    /cannot list resource "addonoperators" \(it takes list of addonoperators/,
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
    /^there are operators in a, b: choose one by -n NAMESPACE$/,
    list([operator("b"), operator("a")]),
    2,
  ],
  [
    "two of other names",
    /^there are operators x, y in a: choose one by --config-map NAME$/,
    list([operator("a", "y"), operator("a", "x")]),
    2,
  ],
])("%s: %s", async (...[, message, answer, code]) => {
  const { api, reader } = await scene();
  api.on(OPERATORS, answer);
  const error: unknown = await reader.all().catch((reason: unknown) => reason);
  expect((error as Error).message).toMatch(message);
  expect(exitCodeOf(error)).toBe(code);
});
