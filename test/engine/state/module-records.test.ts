import { expect, it } from "vitest";

import { deriveFromModules, ModuleViews } from "../../../src/engine/state/module-records.ts";
import type { ModuleView } from "../../../src/engine/state/view.ts";

const view = (name: string, enabled: boolean): ModuleView => ({ name, enabled }) as ModuleView;

it("after a change of one module, what is derived is computed again for that module alone", () => {
  const computed: string[] = [];
  const compute = ({ name, enabled }: ModuleView): string => {
    computed.push(name);
    return `${name} ${enabled}`;
  };
  const before = new ModuleViews([view("a", true), view("b", true), view("c", true)]);
  expect(deriveFromModules(before, compute)).toEqual(["a true", "b true", "c true"]);
  const after = before.withReplaced([view("b", false), view("unknown", true)]);
  expect(deriveFromModules(after, compute)).toEqual(["a true", "b false", "c true"]);
  expect(deriveFromModules(before, compute)).toEqual(["a true", "b true", "c true"]);
  expect(computed).toEqual(["a", "b", "c", "b"]);
});

it("derives from a plain map, too", () => {
  const modules = new Map([["a", view("a", true)]]);
  expect(deriveFromModules(modules, ({ name }) => name)).toEqual(["a"]);
});
