import { expect, test } from "vitest";

import { EngineLab } from "../support/engine-lab.ts";

const SCHEMA = "type: object\nrequired: [host]\nproperties: {host: {type: string}, size: {type: integer}}\n";
const WEB = { name: "web", enabled: true, schema: SCHEMA };
const ADDED = { name: "added", enabled: true };

const problemOf = (lab: EngineLab): string | undefined => lab.state.view.modules.get("web")?.problem?.message;

test("a module whose values are wrong by its files is Invalid, and the others go on", async () => {
  const lab = new EngineLab({ modules: [{ ...WEB, section: { host: "a", size: "big" } }, ADDED] });
  lab.addRelease("web");
  await lab.start();
  expect(problemOf(lab)).toMatch(/^web\/size: must be integer; set in /);
  expect(lab.linesOf("helm")).toEqual(["helm added"]);
  expect(lab.linesOf("uninstall")).toEqual([]);
  lab.setModules([{ ...WEB, section: { host: "a", size: 1 } }, ADDED]);
  lab.state.record("convergeRequested", "mended");
  await lab.run();
  expect(problemOf(lab)).toBeUndefined();
  expect(lab.linesOf("helm")).toContain("helm web");
});

const MISSING = "missing property `host`: set web.host in ConfigMap default/addon-operator, key web";

test("a required value that nobody set, and that an edit takes away again: Invalid, without a run", async () => {
  const lab = new EngineLab({ modules: [WEB, ADDED] });
  await lab.start();
  expect(problemOf(lab)).toBe(MISSING);
  lab.edit({ web: "host: a" });
  await lab.run();
  expect(problemOf(lab)).toBeUndefined();
  const ran = lab.linesOf("helm web").length;
  expect(ran).toBe(1);
  lab.edit({ web: "{}" });
  await lab.run();
  expect(problemOf(lab)).toBe(MISSING);
  expect(lab.linesOf("helm web")).toHaveLength(ran);
  expect(lab.failures).toEqual(["web: ValuesInvalid", "web: ValuesInvalid"]);
  expect(lab.linesOf("uninstall")).toEqual([]);
  lab.edit({ web: "host: b" });
  await lab.run();
  expect(problemOf(lab)).toBeUndefined();
  expect(lab.linesOf("helm web")).toHaveLength(ran + 1);
});
