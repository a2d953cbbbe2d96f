import { expect, test } from "vitest";

import { enabledScriptInput } from "../../../src/engine/tasks/index.ts";
import { EngineLab } from "../../support/engine-lab.ts";

async function filesOf(globalValues: Record<string, string | string[]>) {
  const lab = new EngineLab({ globalValues, modules: [{ name: "one", enabled: true, section: { x: 1 } }] });
  await lab.start();
  const { values, tree } = lab.state;
  const [module] = tree.modules;
  if (module === undefined) throw new Error("no module");
  return {
    valuesFile: () => enabledScriptInput(values, module, ["one", "two"]).values,
    configFile: () => enabledScriptInput(values, module, []).configValues,
  };
}

test.each([
  ["nothing", {}, '{"enabledModules":["one","two"]}'],
  ["values", { a: "b" }, '{"a":"b","enabledModules":["one","two"]}'],
  ["a list of that name", { enabledModules: ["old"] }, '{"enabledModules":["one","two"]}'],
])("the enabled modules stand once among global values: with %s", async (_, globalValues, global) => {
  const { valuesFile } = await filesOf(globalValues);
  expect(Buffer.concat(valuesFile()).toString()).toBe(`{"global":${global},"one":{"x":1}}`);
});

test("files of several hooks share the memory of their sections", async () => {
  const { valuesFile, configFile } = await filesOf({ a: "b" });
  const [first, second] = [valuesFile(), valuesFile()];
  expect(first.at(-2)).toBe(second.at(-2));
  const placeOf = (global: Uint8Array | undefined) => [
    global?.buffer === second[1]?.buffer,
    global?.byteOffset,
  ];
  expect(placeOf(first[1])).toEqual(placeOf(second[1]));
  expect(configFile().map(({ length }) => length)).toEqual([10, 2, 7, 2, 1]);
});
