import { expect, test } from "vitest";

import { EngineLab } from "../../support/engine-lab.ts";

test("a failing Synchronization of a global hook at start is in the log, with hook and exit code", async () => {
  const lab = new EngineLab({
    globalHooks: [
      { name: "nodes", kubernetes: [{ name: "nodes" }], act: () => ({ fail: "exit code 3: no nodes" }) },
    ],
  });
  await lab.start();
  expect(lab.logged).toContainEqual([
    "error",
    "Synchronization of global hooks failed",
    { error: "hook nodes: exit code 3: no nodes" },
  ]);
  expect(lab.queues.views()[0]?.tasks[0]?.message).toBe("hook nodes: exit code 3: no nodes");
});

test("a failure that is allowed is in the log with its reason", async () => {
  const lab = new EngineLab({
    globalHooks: [
      {
        name: "nodes",
        kubernetes: [{ name: "n", allowFailure: true }],
        act: () => ({ fail: "exit code 3" }),
      },
    ],
  });
  await lab.start();
  expect(lab.logged).toContainEqual([
    "warn",
    "Hook failed, which is allowed",
    { hook: "nodes", module: undefined, binding: "n", error: "hook nodes: exit code 3" },
  ]);
});

test("more than 1,000 stored operations of one module are warned of, once", async () => {
  const many = (run: number) =>
    Array.from({ length: run === 1 ? 1000 : 1 }, (_, index) => ({
      op: "add",
      path: `/one/k${run}-${index}`,
      value: 1,
    }));
  const lab = new EngineLab({
    modules: [
      {
        name: "one",
        enabled: true,
        hooks: [
          {
            name: "busy",
            lifecycle: { onStartup: 1 },
            schedules: [{}],
            act: (_, run) => ({ values: many(run) }),
          },
        ],
      },
    ],
  });
  const warnings = () => lab.logged.filter(([, message]) => message.startsWith("Very many operations"));
  await lab.start();
  expect(warnings()).toEqual([]);
  lab.tick("one/busy");
  await lab.run();
  lab.tick("one/busy");
  await lab.run();
  expect(warnings().map(([level, , fields]) => [level, fields])).toEqual([
    ["warn", { hook: "busy", module: "one", operations: 1001 }],
  ]);
});

test("a module whose values do not fit its schema is in the log and an Event, once", async () => {
  const schema = "type: object\nproperties: { replicas: { type: integer } }\n";
  const lab = new EngineLab({
    modules: [{ name: "web", enabled: true, schema, section: { replicas: "many" } }],
  });
  const lines = () => lab.logged.filter(([, message]) => message === "Module is invalid");
  await lab.start();
  lab.edit({ global: "{ a: 1 }" });
  await lab.run();
  expect(lab.converges).toBe(2);
  expect(lines()).toEqual([
    ["error", "Module is invalid", expect.objectContaining({ module: "web", file: "values.yaml" })],
  ]);
  expect(lab.failures).toEqual(["web: ValuesInvalid"]);
});

test("what is no fault of its values is no Event about values", async () => {
  const lab = new EngineLab({
    modules: [
      { name: "one", enabled: true, requires: { modules: { two: "*" } } },
      { name: "two", enabled: true, requires: { modules: { one: "*" } } },
    ],
  });
  await lab.start();
  expect(lab.failures).toEqual(["one: Invalid", "two: Invalid"]);
});

test("a protected module that is switched off is in the log", async () => {
  const lab = new EngineLab({ modules: [{ name: "web" }], config: { webProtected: '"true"' } });
  lab.addRelease("web");
  await lab.start();
  expect(lab.logged).toContainEqual([
    "error",
    "Module is invalid",
    expect.objectContaining({ module: "web", message: "the module is protected but disabled" }),
  ]);
  expect(lab.failures).toEqual([]);
});
