import { expect, test } from "vitest";

import { ModuleQueues } from "../../../src/base/model/index.ts";
import { EngineLab } from "../../support/engine-lab.ts";
import { explainHeadOfLineBlocking } from "../../../src/report/index.ts";
import { overviewOf } from "../views.ts";

const after = (name: string, ...on: readonly string[]) => ({
  name,
  order: 2,
  enabled: true,
  ...(on.length > 0 && { requires: { modules: Object.fromEntries(on.map((each) => [each, "*"])) } }),
});
const modules = [
  { name: "web", order: 1, enabled: true },
  after("a"),
  after("b", "web"),
  after("c", "b"),
  after("d"),
];
const held =
  "web blocks all that runs after it in queue main; with --module-queues=own these would go on: a, d";

async function reported(moduleQueues: "main" | "own"): Promise<string> {
  const lab = new EngineLab({ modules, moduleQueues });
  lab.helmFails = (name) => (name === "web" ? "no" : undefined);
  await lab.start();
  await lab.run(100);
  return overviewOf({ view: lab.state.view, queues: lab.queues.views() }, lab.clock.now()).message;
}

test("a module that fails in main names those behind it that would go on in queues of their own", async () => {
  expect(await reported("main")).toBe(`Module web failed and is retried: no; ${held}`);
  expect(await reported("own")).not.toContain("--module-queues");
});

test("nothing is reported where all behind it require it, and requirements may run in circles", () => {
  const of = (name: string, on: string) =>
    [name, { module: { requires: { modules: { [on]: "*" } } } }] as const;
  const view = {
    moduleQueues: new ModuleQueues(),
    modules: new Map([of("x", "y"), of("y", "x"), of("z", "web")]),
  } as never;
  expect(explainHeadOfLineBlocking("web", ["z"], view)).toBeUndefined();
  expect(explainHeadOfLineBlocking("web", ["z", "x"], view)).toMatch(/would go on: x$/);
});

test("the head of main is named, and an edited module behind it is Pending without its earlier error", async () => {
  const lab = new EngineLab({ modules: ["a", "b", "c"].map((name) => ({ name, enabled: true })) });
  const failing = new Set(["b"]);
  lab.helmFails = (name) => (failing.has(name) ? `no ${name}` : undefined);
  await lab.start();
  await lab.run(100);
  failing.delete("b");
  failing.add("a");
  lab.edit({ a: "{ port: 88888 }", b: "{ port: 81 }" });
  await lab.run();
  const overview = overviewOf({ view: lab.state.view, queues: lab.queues.views() }, lab.clock.now());
  expect(overview.message).toMatch(
    /^Module a failed and is retried: no a; a blocks all that runs after it in queue main; .* would go on: b, c$/,
  );
  expect(overview.modules.map(({ name, state, message }) => [name, state, message])).toEqual([
    ["a", "Retrying", "no a"],
    ["b", "Pending", "waits for a (failed 1 time)"],
    ["c", "Pending", "waits for a (failed 1 time)"],
  ]);
});
