import { expect, test } from "vitest";

import type { Hook } from "../../../src/model/index.ts";
import { HookWebhooks, findDuplicateWebhooks } from "../../../src/tasks/reviews/hook-webhooks.ts";
import type { Webhooks } from "../../../src/webhooks/index.ts";
import { hookWith } from "../../hooks/build.ts";

const RULES = '[{apiGroups: [""], apiVersions: [v1], resources: [pods], operations: [CREATE]}]';
const VALIDATING = `kubernetesValidating: [{name: pods.example.com, rules: ${RULES}}]`;
const conversions = (from: string, to: string) =>
  `kubernetesCustomResourceConversion: [{name: c, crdName: c.example.com, conversions: [{fromVersion: ${from}, toVersion: ${to}}]}]`;

const hook = (name: string, text: string): Hook => hookWith(`configVersion: v1\n${text}`, name, "global");

/** What is served and registered, and how often a server was opened. */
function lab() {
  const routes = new Set<string>();
  const wanted = new Map<string, unknown>();
  const world = { routes, wanted, opened: 0, added: 0, isComplete: false };
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
    onAdded: () => (world.added += 1),
    open: () => {
      world.opened += 1;
      return Promise.resolve(webhooks);
    },
  });
  return { ...world, world, hooks };
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
