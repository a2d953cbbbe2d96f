import { readFileSync } from "node:fs";

import { describe, expect, it } from "vitest";

import { parseYaml } from "../../src/base/index.ts";
import { EVENT_REASONS } from "../../src/report/index.ts";
import { rows } from "../report/rows.ts";

const read = (path: string): string => readFileSync(new URL(`../../${path}`, import.meta.url), "utf8");
const docs = read("docs/reference/status.md");

/** The words a status may have as its state. */
function states(plural: string): string[] {
  const text = JSON.stringify(parseYaml(read(`crds/${plural}.yaml`), plural).value);
  const [, list = ""] = /"state":\{"type":"string","enum":\[([^\]]*)\]/.exec(text) ?? [];
  return list.split(",").map((word) => word.replaceAll('"', ""));
}

/** The table of states: `state Ready beside` with the reasons, as documented. */
function documented(): Map<string, string[]> {
  const [, section = ""] = docs.split("## States of a module");
  const [table = "", text = ""] = section.split(/\n\n### Reasons of Retrying\n\n/);
  const [, body = ""] = table.split("|---|\n");
  const reasons = (cell: string): string[] =>
    [...cell.matchAll(/`([A-Z]\w+)`/g)].map(([, word = ""]) => word);
  const found = new Map<string, string[]>();
  for (const line of body.split("\n").filter((each) => /^\| [A-Z]/.test(each))) {
    const [, state = "", , ready = "", beside = "", reason = ""] = line.split("|").map((cell) => cell.trim());
    const other = ["Reconciling", "Stalled"].includes(beside) ? beside : "";
    const key = [state, ready, other].join(" ").trim();
    found.set(key, [
      ...(found.get(key) ?? []),
      ...reasons(reason.includes("#reasons-of-retrying") ? (text.split("\n\n")[0] ?? "") : reason),
    ]);
  }
  return found;
}

describe("docs/reference/status.md", () => {
  it("has exactly the rows that views lead to, with their reasons", () => {
    const made = new Map<string, Set<string>>();
    for (const { state, ready, other, reason } of rows) {
      const key = [state, ready, other ?? ""].join(" ").trim();
      made.set(key, (made.get(key) ?? new Set()).add(reason));
    }
    const sorted = (table: ReadonlyMap<string, Iterable<string>>) =>
      Object.fromEntries([...table].map(([key, words]) => [key, [...words].toSorted()]));
    expect(sorted(made)).toEqual(sorted(documented()));
  });

  it.each(states("addonmodules"))("describes the state %s of a module", (state) => {
    const [, table = ""] = docs.split("## States of a module");
    expect(table.split("## States of the operator")[0]).toContain(`| ${state} | `);
  });

  it.each(states("addonoperators"))("describes the state %s of the operator", (state) => {
    expect(docs.split("## States of the operator")[1]).toContain(`| ${state} | `);
  });

  it.each(Object.keys(EVENT_REASONS))("lists the Event %s", (reason) => {
    expect(docs).toContain(`\`${reason}\``);
  });

  it.each(
    [...new Set(read("src/report/project/operator-status.ts").matchAll(/reason: "(\w+)"/g))].map(
      ([, reason]) => reason,
    ),
  )("names the reason %s", (reason) => {
    expect(docs).toContain(`\`${reason}\``);
  });
});

it("docs/guides/gitops.md points to files that exist", () => {
  const paths = read("docs/guides/gitops.md").match(/`((?:deploy|test)\/[\w./-]+\.(?:yaml|ts))`/g) ?? [];
  expect(paths.length).toBeGreaterThan(5);
  for (const path of paths) expect(read(path.slice(1, -1)).length).toBeGreaterThan(0);
});
