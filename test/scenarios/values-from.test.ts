import { describe, expect, it } from "vitest";

import { redactValues } from "../../src/base/index.ts";
import { EngineLab } from "../support/engine-lab.ts";
import type { ModuleSpec } from "../support/engine-lab.ts";
import { blockerOf } from "../report/views.ts";

// docs/reference/values.md, "Values from Secrets".

const web: ModuleSpec = {
  name: "web",
  enabled: true,
  section: { db: { user: "web" } },
  valuesFrom: [{ kind: "Secret", name: "db", key: "password", path: "/db/password" }],
  schema:
    "type: object\nproperties: {db: {type: object, required: [password], properties: {password: {type: string}, user: {type: string}}}}",
};
const other: ModuleSpec = { name: "other", order: 2, enabled: true };

const DB = "Secret default/db";
const data = (content: Record<string, string>) => ({
  data: Object.fromEntries(Object.entries(content).map(([key, text]) => [key, Buffer.from(text)])),
});
const GONE = { lack: "does not exist" };

async function started(source: Parameters<EngineLab["state"]["inputs"]["recordSource"]>[1], module = web) {
  const lab = new EngineLab({ modules: [module, other] });
  if (source !== undefined) lab.state.inputs.recordSource(DB, source);
  await lab.start();
  return lab;
}

const viewOf = (lab: EngineLab, name = "web") => lab.state.view.modules.get(name);
const dbOf = (lab: EngineLab): unknown => {
  const { helmValues } = lab.state.values.mergedSection("web");
  return Array.isArray(helmValues) ? undefined : helmValues["db"];
};

describe("a module with values from a Secret", () => {
  it("runs with the values of files and Secret", async () => {
    const lab = await started(data({ password: "pass-1234" }));
    expect(dbOf(lab)).toEqual({ user: "web", password: "pass-1234" });
    expect(lab.linesOf("release ")).toEqual(["release web v1", "release other v1"]);
    expect(viewOf(lab)?.secretPaths).toEqual(new Set(["/web/db/password"]));
  });

  it("does not start before the Secret was looked at", async () => {
    const lab = await started(undefined);
    expect(lab.state.view.boot).toBe("waiting");
    lab.state.inputs.recordSource(DB, data({ password: "pass-1234" }));
    await lab.run();
    expect(lab.linesOf("release ")).toEqual(["release web v1", "release other v1"]);
  });

  it("waits while the Secret is missing, and others run", async () => {
    const lab = await started(GONE);
    expect(lab.linesOf("release ")).toEqual(["release other v1"]);
    expect(viewOf(lab)).toMatchObject({ problem: undefined, missingValues: [`${DB}, which does not exist`] });
    expect(viewOf(lab)?.blockedSince).toBeDefined();
    lab.state.inputs.recordSource(DB, data({ password: "pass-1234" }));
    await lab.run();
    expect(lab.linesOf("release ")).toEqual(["release other v1", "release web v1"]);
  });

  it("runs alone when the Secret changes", async () => {
    const lab = await started(data({ password: "pass-1234" }));
    const { converges } = lab;
    lab.state.inputs.recordSource(DB, data({ password: "pass-5678", unused: "1" }));
    await lab.run();
    expect(dbOf(lab)).toEqual({ user: "web", password: "pass-5678" });
    expect(lab.linesOf("release ")).toEqual(["release web v1", "release other v1", "release web v2"]);
    expect(lab.converges).toBe(converges);
    expect(viewOf(lab)?.lastRun?.cause).toEqual({ kind: "sources" });
    lab.state.inputs.recordSource(DB, data({ password: "pass-5678", unused: "2" }));
    await lab.run();
    expect(lab.linesOf("helm web")).toHaveLength(2);
  });

  it("keeps the last good values when the Secret is deleted or becomes unusable", async () => {
    const lab = await started(data({ password: "pass-1234" }));
    lab.state.inputs.recordSource(DB, GONE);
    await lab.run();
    expect(dbOf(lab)).toEqual({ user: "web", password: "pass-1234" });
    expect(viewOf(lab)).toMatchObject({
      missingValues: [],
      blockedSince: undefined,
      staleValues: [
        `${DB}: password: the Secret does not exist (put it back, or remove it from valuesFrom of module web); its last good content stays in force`,
      ],
    });
    lab.state.inputs.recordSource(DB, { data: { password: Buffer.from([0xff, 0xfe]) } });
    await lab.run();
    expect(viewOf(lab)?.staleValues[0]).toContain(
      `${DB}: password: has values of module web and is no UTF-8`,
    );
    expect(lab.linesOf("helm web")).toHaveLength(1);
  });

  it("is invalid while the content never was usable, and runs once it is", async () => {
    const [source] = web.valuesFrom ?? [];
    const whole = { ...web, valuesFrom: [{ ...source, kind: "Secret", name: "db", path: "/db" } as const] };
    const lab = await started(data({ password: "a-secret-text" }), whole);
    const message = viewOf(lab)?.problem?.message;
    expect(viewOf(lab)?.problem).toMatchObject({ file: DB, key: "password" });
    expect(message).toContain("does not fit the schema of module web: web/db: ");
    expect(JSON.stringify(viewOf(lab)?.problem)).not.toContain("a-secret-text");
    lab.edit({ webValuesFrom: "[]", web: "db: {password: from-config}" });
    await lab.run();
    expect(lab.linesOf("release ")).toContain("release other v1");
  });

  it("is above files and below the ConfigMap, and not in what hooks read of the ConfigMap", async () => {
    const lab = await started(data({ password: "pass-1234" }));
    lab.edit({ web: "db: {user: edited}" });
    await lab.run();
    expect(dbOf(lab)).toEqual({ user: "edited", password: "pass-1234" });
    lab.edit({ web: "db: {password: edited-pass}" });
    await lab.run();
    expect(dbOf(lab)).toEqual({ user: "web", password: "edited-pass" });
    expect(lab.state.values.configSection("web")).toEqual({ db: { password: "edited-pass" } });
    expect(lab.state.values.explainSection("web")).toMatchObject({ "/db/password": "ConfigMap: key web" });
  });
});

describe("the ConfigMap", () => {
  it("names sources of a module, above those of addon.yaml", async () => {
    const lab = await started(data({ password: "pass-1234" }));
    lab.state.inputs.recordSource(
      "ConfigMap apps/web",
      data({ "values.yaml": "db: {password: second-1, user: shared}" }),
    );
    lab.edit({ webValuesFrom: "[{kind: ConfigMap, namespace: apps, name: web}]" });
    await lab.run();
    expect(dbOf(lab)).toEqual({ user: "shared", password: "second-1" });
    expect(lab.state.values.explainSection("web")).toMatchObject({
      "/db/user": "valuesFrom: ConfigMap apps/web, key values.yaml",
    });
  });

  it("with a source that is not there makes the module wait, with the former values in force", async () => {
    const lab = await started(data({ password: "pass-1234" }));
    lab.state.inputs.recordSource("Secret default/more", GONE);
    lab.edit({ webValuesFrom: "[{kind: Secret, name: more}]" });
    await lab.run();
    expect(viewOf(lab)?.missingValues).toEqual(["Secret default/more, which does not exist"]);
    expect(lab.linesOf("helm web")).toHaveLength(1);
    lab.edit({ webValuesFrom: "[{kind: Secret, name: more, optional: true}]" });
    await lab.run();
    expect(viewOf(lab)).toMatchObject({ missingValues: [], blockedSince: undefined });
  });

  it.each([
    ["a map", "{kind: Secret, name: a}", "webValuesFrom: must be array"],
    ["another kind", "[{kind: Pod, name: a}]", "webValuesFrom: /0/kind: "],
    ["an unknown key", "[{kind: Secret, name: a, keys: b}]", "webValuesFrom: "],
  ])("is refused with %s as sources", async (_what, text, expected) => {
    const lab = await started(data({ password: "pass-1234" }));
    lab.edit({ webValuesFrom: text });
    const { condition, problems } = lab.state.view.config;
    expect(condition).toBe("invalid");
    expect(`${problems[0]?.key}: ${problems[0]?.message}`).toContain(expected);
  });
});

describe("globalValuesFrom", () => {
  it("holds the start until the values are there, and a change reloads all modules", async () => {
    const lab = new EngineLab({
      modules: [other],
      config: { globalValuesFrom: "[{kind: Secret, name: db}]" },
    });
    lab.state.inputs.recordSource(DB, GONE);
    await lab.start();
    expect(lab.state.view.boot).toBe("waiting");
    expect(blockerOf({ view: lab.state.view, queues: lab.queues.views() }, "other")).toBe(
      `waits for ${DB}, which does not exist: global values are in it`,
    );
    lab.state.inputs.recordSource(DB, data({ "values.yaml": "token: abcd-1234" }));
    await lab.run();
    expect(lab.linesOf("release ")).toEqual(["release other v1"]);
    expect(lab.state.values.mergedSection("global").values).toEqual({ token: "abcd-1234" });
    const { converges } = lab;
    lab.state.inputs.recordSource(DB, data({ "values.yaml": "token: abcd-5678" }));
    await lab.run();
    expect(lab.converges).toBe(converges + 1);
  });
});

describe("the values of a module with a Secret", () => {
  it("may lack in the ConfigMap what a missing Secret may set, but nothing else", async () => {
    const lab = await started(GONE);
    const problemsOf = (text: string) =>
      lab.state.inputs.applyConfig({ name: "c", data: { web: text }, overlay: undefined }, "9").problems;
    expect(problemsOf("db: {user: edited}")).toEqual([]);
    expect(problemsOf("db: {user: 1}")).toMatchObject([{ key: "web/db/user" }]);
  });

  it("are hidden, whatever their keys", async () => {
    const lab = await started(data({ password: "pass-1234" }));
    lab.state.inputs.recordSource("Secret default/more", data({ "values.yaml": "db: {user: hello}" }));
    lab.edit({ webValuesFrom: "[{kind: Secret, name: more}]" });
    await lab.run();
    const view = viewOf(lab);
    const hidden = expect.stringMatching(/^<redacted/);
    expect(redactValues(view?.values() ?? null, view?.secretPaths)).toMatchObject({
      web: { db: { user: hidden, password: hidden } },
    });
  });
});

describe("an enabled script", () => {
  it("is not asked while values are missing, and decides once they are there", async () => {
    const asked: number[] = [];
    const script = (): boolean => {
      asked.push(1);
      return false;
    };
    const lab = await started(GONE, { ...web, script });
    expect(asked).toEqual([]);
    expect(viewOf(lab)).toMatchObject({ enabled: true, awaitsScript: true });
    lab.state.inputs.recordSource(DB, data({ password: "pass-1234" }));
    await lab.run();
    expect(asked).toHaveLength(1);
    expect(viewOf(lab)?.enabled).toBe(false);
    expect(lab.linesOf("helm web")).toEqual([]);
  });
});
