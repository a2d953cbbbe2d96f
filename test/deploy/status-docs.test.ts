import { readFileSync } from "node:fs";

import { describe, expect, it } from "vitest";

import { parseYaml } from "../../src/lib/index.ts";
import { EVENT_TYPES } from "../../src/status/index.ts";

const read = (path: string): string => readFileSync(new URL(`../../${path}`, import.meta.url), "utf8");
const docs = read("docs/STATUS.md");

/** The words a status may have as its state. */
function states(plural: string): string[] {
  const text = JSON.stringify(parseYaml(read(`crds/${plural}.yaml`), plural).value);
  const [, list = ""] = /"state":\{"type":"string","enum":\[([^\]]*)\]/.exec(text) ?? [];
  return list.split(",").map((word) => word.replaceAll('"', ""));
}

describe("docs/STATUS.md", () => {
  it.each(states("addonmodules"))("describes the state %s of a module", (state) => {
    const [, table = ""] = docs.split("## States of a module");
    expect(table.split("## States of the operator")[0]).toContain(`| ${state} | `);
  });

  it.each(states("addonoperators"))("describes the state %s of the operator", (state) => {
    expect(docs.split("## States of the operator")[1]).toContain(`| ${state} | `);
  });

  it.each(Object.keys(EVENT_TYPES))("lists the Event %s", (reason) => {
    expect(docs).toContain(`\`${reason}\``);
  });

  it.each(
    [...new Set(read("src/status/operator.ts").matchAll(/reason: "(\w+)"/g))].map(([, reason]) => reason),
  )("names the reason %s", (reason) => {
    expect(docs).toContain(`\`${reason}\``);
  });
});

it("docs/GITOPS.md points to files that exist", () => {
  const paths = read("docs/GITOPS.md").match(/`((?:deploy|test)\/[\w./-]+\.(?:yaml|ts))`/g) ?? [];
  expect(paths.length).toBeGreaterThan(5);
  for (const path of paths) expect(read(path.slice(1, -1)).length).toBeGreaterThan(0);
});
