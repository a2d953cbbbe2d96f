import { describe, expect, it } from "vitest";

import {
  checkConfigEdit,
  type AdmissionSources,
  type ReviewAnswer,
} from "../../../src/surface/admit/index.ts";
import { parseLimit } from "../../../src/base/index.ts";
import type { Limit } from "../../../src/base/index.ts";
import { applyConfig, CONFIG_MAP_LIMIT } from "../../../src/values/index.ts";
import { describeProblem } from "../../../src/base/model/index.ts";
import { EngineLab, type ModuleSpec } from "../../support/engine-lab.ts";

const SCHEMA = "type: object\nadditionalProperties: false\nproperties: {size: {type: integer}}\n";
const NAMES = ["a", "b", "c", "d", "e"];
const BRAKE = "3,50%";

type Change = Record<string, string | undefined>;

interface World {
  readonly modules?: readonly ModuleSpec[];
  readonly config?: Record<string, string>;
}

/** An operator with these modules, on by their flags. */
async function world({ modules = NAMES.map((name) => ({ name, schema: SCHEMA })), config }: World = {}) {
  const flags = Object.fromEntries(modules.map(({ name }) => [`${name}Enabled`, "true"]));
  const lab = new EngineLab({ deletionLimit: BRAKE, config: { ...flags, ...config }, modules });
  await lab.start();
  return lab;
}

const sourcesOf = (lab: EngineLab): AdmissionSources => ({
  state: lab.state,
  observed: lab.observed,
  clock: lab.clock,
  deleteBrake: parseLimit(BRAKE) as Limit,
});

interface Circumstances {
  readonly isDryRun?: boolean;
  readonly annotations?: Record<string, string>;
}

/** The answer to an edit of some keys; undefined removes one. */
function check(lab: EngineLab, change: Change, circumstances: Circumstances = {}): ReviewAnswer {
  const merged = { ...lab.data, ...change };
  const data = Object.fromEntries(Object.entries(merged).filter(([, text]) => text !== undefined));
  const edit = { name: "addon-operator", before: lab.data, data: data as Record<string, string> };
  return checkConfigEdit({ ...edit, annotations: {}, isDryRun: false, ...circumstances }, sourcesOf(lab));
}

const off = (...names: readonly string[]): Change =>
  Object.fromEntries(names.map((name) => [`${name}Enabled`, undefined]));

const dryRun = (lab: EngineLab, change: Change): readonly string[] =>
  check(lab, change, { isDryRun: true }).warnings;

describe("an edit that the operator would not accept", () => {
  it.each<readonly [string, Change, string]>([
    ["a value against the schema", { a: "size: big" }, "ConfigMap addon-operator: a/size: "],
    ["a text that is no YAML", { a: "{" }, "ConfigMap addon-operator: a, line 1"],
    ["a flag that is neither true nor false", { aEnabled: "maybe" }, "ConfigMap addon-operator: aEnabled: "],
    ["an unknown mode of drift", { aDrift: "sometimes" }, "aDrift: unknown mode of drift (write off, warn"],
    ["more than fits", { big: "x".repeat(CONFIG_MAP_LIMIT) }, "big: would have 1048576 bytes, and the whole"],
  ])("%s is refused", async (_, change, message) => {
    const lab = await world();
    const answer = check(lab, change);
    expect(answer.allowed).toBe(false);
    expect(answer.message).toContain(message);
  });

  it("is refused with the message that ConfigMapInvalid has", async () => {
    const lab = await world();
    const change = { a: "size: big\nother: 1", b: "size: 1.5", cEnabled: "x" };
    const read = { name: "addon-operator", data: { ...lab.data, ...change }, overlay: undefined };
    const { problems } = applyConfig(lab.state.values.fork(), read);
    expect(problems.length).toBeGreaterThan(0);
    expect(check(lab, change).message).toBe(problems.map(describeProblem).join("; "));
  });

  it("changes nothing that is in force", async () => {
    const lab = await world();
    const { view } = lab.state;
    const before = JSON.stringify(lab.state.values.mergedSection("a").values);
    check(lab, { a: "size: 7", ...off("b") }, { isDryRun: true });
    expect(lab.state.view).toBe(view);
    expect(JSON.stringify(lab.state.values.mergedSection("a").values)).toBe(before);
  });
});

describe("an edit that the operator accepts", () => {
  it.each<readonly [string, Change, readonly string[]]>([
    ["a valid section", { a: "size: 1" }, []],
    [
      "an unknown key",
      { aEnabledd: "true" },
      ["aEnabledd (did you mean aEnabled?): this key matches no module"],
    ],
    ["a section of a module that is off", { a: "size: x", aEnabled: "false" }, ["the module is disabled"]],
  ])("%s", async (_, change, warnings) => {
    const answer = check(await world(), change);
    expect(answer).toMatchObject({ allowed: true });
    expect(answer.warnings.length).toBe(warnings.length);
    for (const [index, text] of warnings.entries()) expect(answer.warnings[index]).toContain(text);
  });

  it("has no warnings about what it does not change", async () => {
    const lab = await world({ config: { typoo: "1" } });
    expect(check(lab, { a: "size: 1" }).warnings).toEqual([]);
  });

  it("has few warnings, however many keys are unknown", async () => {
    const keys = Object.fromEntries(Array.from({ length: 5000 }, (_, index) => [`unknown${index}`, "1"]));
    const { warnings } = check(await world(), keys);
    expect(warnings).toHaveLength(21);
    expect(warnings.at(-1)).toBe("4980 more warnings are left out");
  });

  it("is refused if it has more keys than anyone needs, unless it changes none", async () => {
    const keys = Object.fromEntries(Array.from({ length: 20_001 }, (_, index) => [`k${index}`, ""]));
    const lab = await world();
    expect(check(lab, keys)).toEqual({
      allowed: false,
      message: expect.stringMatching(
        /^ConfigMap addon-operator: too large: it has 200\d\d keys \(keep at most 20000 keys\)$/,
      ),
      warnings: [],
    });
    lab.edit(keys);
    expect(check(lab, {}).allowed).toBe(true);
  });

  it("passes if only annotations change, even while the stored content is invalid", async () => {
    const lab = await world();
    lab.edit({ aEnabled: "maybe" });
    expect(check(lab, {})).toEqual({ allowed: true, warnings: [] });
  });

  it("passes before the operator has content in force", () => {
    const answer = check(new EngineLab({ modules: [{ name: "a", schema: SCHEMA }] }), { a: "size: x" });
    expect(answer).toMatchObject({
      allowed: true,
      warnings: ["the operator is starting, so the edit is not checked"],
    });
  });
});

describe("the deletion limit", () => {
  it("refuses an edit that exceeds it, and names the token that the operator will ask for", async () => {
    const lab = await world();
    const { allowed, message = "" } = check(lab, off(...NAMES));
    expect(allowed).toBe(false);
    expect(message).toMatch(
      /^not deleted: a, b, c, d, e: 5 of 5 modules at once are more than --delete-brake/,
    );
    const [, token = ""] = /confirm-delete: (\w{12}) of the ConfigMap/.exec(message) ?? [];
    const annotations = { "addon-operator.io/confirm-delete": token };
    const repeated = check(lab, off(...NAMES), { annotations });
    expect(repeated.allowed).toBe(true);
    expect(repeated.warnings[0]).toContain(`confirm-delete=${token}`);
    lab.edit(off(...NAMES));
    await lab.run();
    expect(lab.state.view.deletionLimit?.token).toBe(token);
  });

  it("refuses the annotation of another removal", async () => {
    const annotations = { "addon-operator.io/confirm-delete": "0123456789ab" };
    expect(check(await world(), off(...NAMES), { annotations }).allowed).toBe(false);
  });

  it("lets other edits pass while a removal is blocked", async () => {
    const lab = await world();
    lab.edit(off(...NAMES));
    await lab.run();
    expect(lab.state.view.deletionLimit?.confirmed).toBe(false);
    expect(check(lab, { a: "size: 1" }).allowed).toBe(true);
    expect(check(lab, { aEnabled: "true" }).allowed).toBe(true);
    expect(check(lab, { global: "{x: 1}" }).allowed).toBe(true);
  });

  it("counts what waits for a confirmation together with what the edit adds", async () => {
    const names = [...NAMES, "f", "g"];
    const lab = await world({ modules: names.map((name) => ({ name })) });
    lab.edit(off(...NAMES));
    await lab.run();
    expect(check(lab, off("f")).message).toMatch(/^not deleted: a, b, c, d, e, f: 6 of 7 modules/);
    expect(check(lab, { eEnabled: "true" }, { isDryRun: true })).toEqual({
      allowed: true,
      warnings: ["would run e, f, g"],
    });
  });

  it("counts what was removed within ten minutes", async () => {
    const lab = await world();
    expect(check(lab, off("a", "b", "c")).allowed).toBe(true);
    lab.edit(off("a", "b", "c"));
    await lab.run();
    expect(check(lab, off("d")).message).toMatch(/4 of 5 modules within 10 minutes \(3 removed already\)/);
  });

  it("counts releases without a module whose protection ends", async () => {
    const lab = await world();
    const orphans = ["u", "v", "w", "x", "y", "z"];
    for (const name of orphans) lab.addRelease(name);
    const guards = Object.fromEntries(orphans.map((name) => [`${name}Protected`, "true"]));
    lab.edit(guards);
    await lab.run();
    const none = Object.fromEntries(Object.keys(guards).map((key) => [key, undefined]));
    expect(check(lab, none).message).toMatch(/^not deleted: u, v, w, x, y, z: 6 of 11 modules/);
    expect(dryRun(lab, { vProtected: undefined })).toContain("would purge v");
  });
});

describe("a protected module", () => {
  const message =
    "the module is protected but disabled (remove aProtected from the ConfigMap, or enable the module)";

  it.each([[undefined], ["false"]])("is not switched off by the flag %s", async (flag) => {
    const lab = await world({ config: { aProtected: "true" } });
    const answer = check(lab, { aEnabled: flag });
    expect(answer.allowed).toBe(false);
    expect(answer.message).toContain(message);
  });

  it("may lose protection and flag at once", async () => {
    const lab = await world({ config: { aProtected: "true" } });
    expect(check(lab, { aEnabled: undefined, aProtected: undefined }).allowed).toBe(true);
  });

  it("that is off already blocks no other edit", async () => {
    const lab = await world({ config: { aProtected: "true" } });
    lab.edit({ aEnabled: "false" });
    await lab.run();
    expect(check(lab, { bEnabled: "false" }).allowed).toBe(true);
  });
});

describe("a dry run says what an edit would do", () => {
  it.each<readonly [string, Change, readonly string[]]>([
    ["a section of one module", { b: "size: 1" }, ["would run b"]],
    ["a setting of one module", { bDrift: "off" }, ["would run b"]],
    [
      "only an unknown key",
      { x: "1" },
      [expect.stringContaining("matches no module") as string, "no module would run"],
    ],
    ["global values", { global: "{x: 1}" }, ["would run a, b, c, d, e"]],
    ["a module is switched off", off("c"), ["would delete c", "would run a, b, d, e"]],
  ])("%s", async (_, change, warnings) => {
    expect(dryRun(await world(), change)).toEqual(warnings);
  });

  it("installs what is switched on", async () => {
    const lab = await world({ config: { aEnabled: "false" } });
    expect(dryRun(lab, { aEnabled: "true" })).toEqual(["would install a", "would run b, c, d, e"]);
  });

  it("keeps what others require", async () => {
    const modules = [{ name: "a" }, { name: "b", requires: { modules: { a: "*" } } }];
    const lab = await world({ modules });
    expect(dryRun(lab, off("a"))).toEqual(["would run b", "not deleted: a: b requires it"]);
  });

  it("says nothing of what stays anyway", async () => {
    const modules = [{ name: "a" }, { name: "b", requires: { modules: { a: "*" } } }, { name: "c" }];
    const lab = await world({ modules });
    lab.edit(off("a"));
    await lab.run();
    expect(dryRun(lab, off("c"))).toEqual(["would delete c", "would run b"]);
  });

  it("names no more than twenty modules", async () => {
    const modules = Array.from({ length: 25 }, (_, index) => ({ name: `m${index}` }));
    const [text] = dryRun(await world({ modules }), { global: "{x: 1}" });
    expect(text).toMatch(/^would run .*m9 and 5 more$|^would run .* and 5 more$/);
  });

  it("takes the last answer of an enabled script", async () => {
    const lab = await world({ modules: [{ name: "a", script: () => "no GPU" }, { name: "b" }] });
    expect(dryRun(lab, { a: "size: 1" })).toEqual(["no module would run"]);
    expect(dryRun(lab, { global: "{x: 1}" })).toEqual(["would run b"]);
  });
});
