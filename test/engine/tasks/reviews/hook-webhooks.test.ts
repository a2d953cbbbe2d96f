import { expect, test } from "vitest";

import type { AccountLimits } from "../../../../src/hooks/index.ts";
import { MissingPermissionsError, describePermission, type Permission } from "../../../../src/kube/index.ts";
import type { Hook } from "../../../../src/base/model/index.ts";
import {
  findForbiddenWebhooks,
  registeredName,
} from "../../../../src/engine/tasks/reviews/webhook-access.ts";
import { HookWebhooks, findDuplicateWebhooks } from "../../../../src/engine/tasks/reviews/hook-webhooks.ts";
import type { Webhooks } from "../../../../src/webhooks/index.ts";
import { hookWith } from "../../../hooks/build.ts";
import { ManualClock, settle } from "../../../support/clock.ts";
import { silentLogger } from "../../../../src/base/index.ts";

const RULES = '[{apiGroups: [""], apiVersions: [v1], resources: [pods], operations: [CREATE]}]';
const VALIDATING = `kubernetesValidating: [{name: pods.example.com, rules: ${RULES}}]`;
const conversions = (from: string, to: string) =>
  `kubernetesCustomResourceConversion: [{name: c, crdName: c.example.com, conversions: [{fromVersion: ${from}, toVersion: ${to}}]}]`;

const hook = (name: string, text: string): Hook => hookWith(`configVersion: v1\n${text}`, name, "global");

const WEB_RULES = (text: string) =>
  text.replace(
    "rules:",
    "namespace: {labelSelector: {matchLabels: {kubernetes.io/metadata.name: team-a}}}, rules:",
  );
const ofModule = (text: string, module = "m"): Hook => ({
  ...hookWith(`configVersion: v1\n${text}`, "a.sh"),
  module,
  id: `${module}:a.sh`,
});

/** What is served and registered, and how often a server was opened. `access` limits the hooks of modules. */
function lab(access?: AccountLimits) {
  const routes = new Set<string>();
  const wanted = new Map<string, unknown>();
  const world = { routes, wanted, opened: 0, added: 0, isComplete: false };
  const clock = new ManualClock();
  const route = (path: string): (() => void) => {
    routes.add(path);
    return () => routes.delete(path);
  };
  const webhooks = {
    addAdmissionRoute: route,
    addConversionRoute: route,
    registrar: {
      set: (owner: string, what: unknown) => wanted.set(owner, what),
      remove: (owner: string) => wanted.delete(owner),
      markComplete: () => (world.isComplete = true),
      flush: () => Promise.resolve(),
    },
  } as unknown as Webhooks;
  const hooks = new HookWebhooks({
    runs: undefined as never,
    failurePolicy: "Ignore",
    clock,
    logger: silentLogger,
    accountLimitsOf: () => access,
    report: { hookIssuesChanged: () => {} },
    onAdded: () => (world.added += 1),
    open: () => {
      world.opened += 1;
      return Promise.resolve(webhooks);
    },
  });
  return { ...world, world, hooks, clock };
}

test("no server is opened for hooks without webhooks", async () => {
  const { hooks, world } = lab();
  hooks.enable(hook("a.sh", "onStartup: 1"));
  await hooks.flush();
  expect(world.opened).toBe(0);
});

test("a hook is served while it is enabled, with the default failurePolicy", async () => {
  const { hooks, world, routes, wanted } = lab();
  const one = hook("a.sh", VALIDATING);
  hooks.enable(one);
  hooks.enable(one);
  await hooks.flush();
  expect([...routes]).toEqual(["/hooks/validating/pods.example.com"]);
  expect([...wanted.values()]).toMatchObject([
    {
      group: "hooks",
      admission: [{ name: "pods.example.com", failurePolicy: "Ignore", timeoutSeconds: 10 }],
    },
  ]);
  hooks.markComplete();
  expect([world.opened, world.isComplete]).toEqual([1, true]);
  hooks.disable(one);
  expect([routes.size, wanted.size]).toEqual([0, 0]);
});

test("hooks of one CRD share a path, which ends with the last of them", async () => {
  const { hooks, routes, wanted } = lab();
  const [one, two] = [hook("a.sh", conversions("v1", "v2")), hook("b.sh", conversions("v2", "v1"))];
  hooks.enable(one);
  hooks.enable(two);
  await hooks.flush();
  expect([...routes]).toEqual(["/conversion/c.example.com"]);
  hooks.disable(one);
  expect([routes.size, wanted.size]).toEqual([1, 1]);
  hooks.disable(two);
  expect([routes.size, wanted.size]).toEqual([0, 0]);
});

test("tells of each hook that is new, and which CRDs hooks convert", () => {
  const { hooks, world } = lab();
  hooks.enable(hook("a.sh", "onStartup: 1"));
  expect([world.added, hooks.isEmpty]).toEqual([0, true]);
  const one = hook("a.sh", conversions("v1", "v2"));
  hooks.enable(one);
  hooks.enable(one);
  hooks.enable(hook("b.sh", conversions("v2", "v1")));
  expect([world.added, hooks.isEmpty, hooks.convertedCrds]).toEqual([2, false, ["c.example.com"]]);
});

test("a changed hook is served as it is now", async () => {
  const { hooks, routes, wanted } = lab();
  hooks.enable(hook("a.sh", VALIDATING));
  await hooks.flush();
  hooks.enable(hook("a.sh", conversions("v1", "v2")));
  expect([...routes]).toEqual(["/conversion/c.example.com"]);
  expect(wanted.size).toBe(1);
  hooks.enable(hook("a.sh", "onStartup: 1"));
  expect([routes.size, wanted.size]).toEqual([0, 0]);
});

test("equal names of two hooks are problems; a hook is not compared with itself", () => {
  const [one, two] = [hook("a.sh", VALIDATING), hook("b.sh", VALIDATING)];
  expect(findDuplicateWebhooks([one], [one])).toEqual([]);
  expect(findDuplicateWebhooks([one], [two])).toMatchObject([{ file: one.path, key: "--config" }]);
  expect(findDuplicateWebhooks([one, two], [])).toHaveLength(1);
  const [three, four] = [hook("c.sh", conversions("v1", "v2")), hook("d.sh", conversions("v1", "v2"))];
  expect(findDuplicateWebhooks([three, four], [])[0]?.message).toContain(
    "conversion of c.example.com from v1 to v2",
  );
  expect(findDuplicateWebhooks([three], [hook("e.sh", conversions("v2", "v1"))])).toEqual([]);
});

/** The access of an account that has all permissions but those in `lacks`; records what was checked. */
function accountAccess(lacks: (permission: Permission) => boolean) {
  const checked: Permission[] = [];
  const access: AccountLimits = {
    user: "system:serviceaccount:team-a:deployer",
    isUnlimited: false,
    assertPermitted: (permissions) => {
      checked.push(...permissions);
      const missing = permissions.filter(lacks).map(describePermission);
      const account = { namespace: "team-a", name: "deployer" };
      return missing.length === 0
        ? Promise.resolve()
        : Promise.reject(new MissingPermissionsError(account, missing));
    },
  };
  return { access, checked };
}

test("an account limits the webhooks of its module to objects that it may list, under names of the module", async () => {
  const { access, checked } = accountAccess(() => false);
  const { hooks, routes, wanted } = lab(access);
  hooks.enable(ofModule(WEB_RULES(VALIDATING)));
  await settle();
  const name = "pods.example.com.m.modules.addon-operator.io";
  expect([...routes]).toEqual([`/hooks/validating/${name}`]);
  expect([...wanted.values()]).toMatchObject([{ admission: [{ name, rules: [{ scope: "Namespaced" }] }] }]);
  expect(checked).toEqual(
    ["list", "watch"].map((verb) => ({ verb, group: "", resource: "pods", namespace: "team-a" })),
  );
});

test("a webhook without a permission of the account is served from when it is granted until it is lost", async () => {
  let isGranted = false;
  const { access } = accountAccess(({ namespace }) => namespace === "" && !isGranted);
  const { hooks, routes, wanted, clock } = lab(access);
  hooks.enable(ofModule(VALIDATING));
  await settle();
  expect([routes.size, wanted.size]).toEqual([0, 0]);
  expect(hooks.listIssues("m")).toEqual([
    "hook a.sh: its webhooks are not registered: ServiceAccount team-a/deployer may not list pods in all namespaces, watch pods in all namespaces; grant it these rights, or select namespaces by the label kubernetes.io/metadata.name in namespace.labelSelector",
  ]);
  isGranted = true;
  await clock.advance(10_000);
  await settle();
  expect([routes.size, wanted.size, hooks.listIssues("m")]).toEqual([1, 1, []]);
  isGranted = false;
  await clock.advance(5 * 60_000);
  await settle();
  expect([routes.size, wanted.size, hooks.listIssues("m").length]).toEqual([0, 0, 1]);
});

test("a mutating webhook of a module with an account needs the permission to write, too", async () => {
  const { access, checked } = accountAccess(({ verb }) => verb === "create");
  const { hooks, wanted } = lab(access);
  hooks.enable(ofModule(WEB_RULES(VALIDATING.replace("Validating", "Mutating"))));
  await settle();
  expect(checked.map(({ verb }) => verb)).toEqual(["list", "watch", "create"]);
  expect(wanted.size).toBe(0);
});

test("only modules of --webhook-modules may convert, select cluster-scoped objects or change roles", () => {
  const limited = (): { isUnlimited: boolean } => ({ isUnlimited: false });
  const forbidden = (text: string) =>
    findForbiddenWebhooks([ofModule(text)], limited).map(({ message }) => message);
  expect(forbidden(conversions("v1", "v2"))).toEqual([
    "kubernetesCustomResourceConversion[0] is not allowed: a module with a ServiceAccount may not convert custom resources",
  ]);
  expect(forbidden(VALIDATING.replace("operations", "scope: Cluster, operations"))).toHaveLength(1);
  const roles = VALIDATING.replace('[""]', "[rbac.authorization.k8s.io]");
  expect(forbidden(roles)).toEqual([]);
  expect(forbidden(roles.replace("Validating", "Mutating"))).toHaveLength(1);
  const many = Array.from({ length: 1000 }, (_, index) => `r${index}`).join();
  expect(forbidden(VALIDATING.replace("[pods]", `[${many}]`))[0]).toContain("more than 200 permissions");
  for (const each of [limited, () => ({ isUnlimited: true })])
    expect(
      findForbiddenWebhooks([ofModule(VALIDATING.replace("pods.", `${"a".repeat(230)}.b.`))], each),
    ).toHaveLength(1);
  expect(findForbiddenWebhooks([ofModule(conversions("v1", "v2"))], () => ({ isUnlimited: true }))).toEqual(
    [],
  );
  expect(findForbiddenWebhooks([ofModule(conversions("v1", "v2"))], () => undefined)).toEqual([]);
});

test("the webhooks of a module with an account leave room for those of other modules", () => {
  const accounts = (module: string) => (module === "global" ? undefined : { isUnlimited: true });
  const long = VALIDATING.replace(
    "rules:",
    `matchConditions: [{name: c, expression: "'${"a".repeat(50_000)}' != ''"}], rules:`,
  );
  const hooks = (count: number, module: string): Hook[] =>
    Array.from({ length: count }, () => ofModule(long, module));
  expect(
    findForbiddenWebhooks([...hooks(2, "a"), ...hooks(2, "b"), ...hooks(9, "global")], accounts),
  ).toEqual([]);
  expect(findForbiddenWebhooks(hooks(3, "a"), accounts)).toMatchObject([
    {
      message: expect.stringContaining("need more than 128 KiB in the configuration that all modules share"),
    },
  ]);
});

test("no module with an account can take the name of another module's webhook", () => {
  const accounts = (module: string) => (module === "global" ? undefined : { isUnlimited: false });
  const stranger = ofModule(VALIDATING, "a");
  expect(
    findDuplicateWebhooks([stranger], [ofModule(VALIDATING, "b"), hook("g.sh", VALIDATING)], accounts),
  ).toEqual([]);
  const names = [
    ["x.y.z.a", "b"],
    ["x.y.z", "a.b"],
    ["x.y.z.a.b", "2"],
    ["x.y.z", undefined],
  ] as const;
  expect(new Set(names.map(([name, module]) => registeredName({ name }, module))).size).toBe(4);
});
