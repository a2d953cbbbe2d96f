import { execFileSync } from "node:child_process";
import { chmodSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { renderContext } from "../../src/hooks/bindings/index.ts";
import {
  HookLoader,
  toHookFile,
  runHookFileOffline,
  parseHookConfig,
  parseMetrics,
  parseObjectOperations,
} from "../../src/hooks/index.ts";
import type { HookOutput } from "../../src/hooks/index.ts";
import { silentLogger } from "../../src/base/index.ts";
import { LIFECYCLE } from "../../src/base/model/index.ts";
import { Children } from "../../src/base/process/index.ts";
import { event, hookWith, lifecycle, sync, tick } from "../hooks/build.ts";

const root = join(import.meta.dirname, "..", "..");
const page = ["reference/hooks.md", "guides/write-hooks.md", "get-started/first-module.md"]
  .map((name) => readFileSync(join(root, "docs", name), "utf8"))
  .join("\n");
const dir = mkdtempSync(join(tmpdir(), "hooks-page-"));
afterAll(() => rmSync(dir, { recursive: true }));

const env = { PATH: process.env["PATH"] ?? "", SHELL_LIB_PATH: join(root, "shell", "shell_lib.sh") };
const settings = {
  env,
  children: new Children(),
  workingDir: undefined,
  tmpDir: dir,
  debugKeepTmpFiles: false,
  logProxyHookJson: false,
};

/** Fenced blocks in order; the words after the language say what a block is. */
const blocks = [...page.matchAll(/^```(\w+) (.+)\n([^]*?)^```$/gm)].map(([, , kind = "", text = ""]) => ({
  kind,
  text,
}));
const kindOf = (word: string | undefined) => (word === "module" ? "module" : "global");

describe("configurations", () => {
  const configs = blocks.filter(({ kind }) => kind.endsWith(" config"));
  test.each(configs)("$text", ({ kind, text }) => {
    const parsed = parseHookConfig(text, kindOf(kind.split(" ")[0]));
    expect(parsed).toMatchObject({ config: {}, warnings: [] });
  });
});

/** Rows of the table whose head begins so, as cells. */
function table(head: string): string[][] {
  const from = page.indexOf(`| ${head} |`);
  const rows = page.slice(from, page.indexOf("\n\n", from)).trim().split("\n").slice(2);
  return rows.map((row) =>
    row
      .slice(2, -2)
      .split(" | ")
      .map((cell) => cell.trim()),
  );
}

/** Names between back quotes. */
const codes = (cell = ""): string[] => [...cell.matchAll(/`([^`]+)`/g)].map(([, code = ""]) => code);

test("the table of lifecycle bindings says who may have which", () => {
  const rows = table("Binding | Global | Module | When the hook runs").map((row) =>
    row.join(" | ").split("|"),
  );
  expect(rows.map(([binding]) => codes(binding)[0])).toEqual(LIFECYCLE);
  for (const [binding = "", global = "", module = ""] of rows) {
    const [name = ""] = codes(binding);
    for (const [kind, says] of [
      ["global", global],
      ["module", module],
    ] as const) {
      const parsed = parseHookConfig(`configVersion: v1\n${name}: 7`, kind);
      const [found] = "config" in parsed ? parsed.config.bindings.lifecycle : [];
      expect([kind, found?.name, found?.order]).toEqual(
        says.trim() === "Yes" ? [kind, name, 7] : [kind, undefined, undefined],
      );
    }
  }
});

/** What is between `kind` alone and a binding with this field; its default where that is a value. */
const FIELDS: Readonly<Record<string, readonly [given: string, is: object, fallback: unknown]>> = {
  name: ["pods", { name: "pods" }, "kubernetes"],
  apiVersion: ["apps/v1", { apiVersion: "apps/v1" }, undefined],
  "nameSelector.matchNames": ["[a]", { names: ["a"] }, undefined],
  labelSelector: ["{matchLabels: {a: b}}", { labelSelector: { matchLabels: { a: "b" } } }, undefined],
  "fieldSelector.matchExpressions": [
    "[{field: a.b, operator: NotEquals, value: c}]",
    { fieldSelector: "a.b!=c" },
    undefined,
  ],
  "namespace.nameSelector": ["{matchNames: [a]}", { namespaces: ["a"] }, undefined],
  "namespace.labelSelector": [
    "{matchLabels: {a: b}}",
    { namespaceLabels: { matchLabels: { a: "b" } } },
    undefined,
  ],
  executeHookOnEvent: ["[]", { events: [] }, ["Added", "Modified", "Deleted"]],
  executeHookOnSynchronization: ["false", { executeOnSynchronization: false }, true],
  waitForSynchronization: ["false, queue: side", { waitForSynchronization: false }, true],
  keepFullObjectsInMemory: ["false", { keepFullObjects: false }, true],
  jqFilter: [".a", { jqFilter: ".a" }, undefined],
  allowFailure: ["true", { allowFailure: true }, false],
  queue: ["side", { queue: "side" }, "main"],
  includeSnapshotsFrom: ["[other]", { includeSnapshotsFrom: ["other"] }, []],
  group: ["g", { group: "g" }, undefined],
};

describe("the table of fields of a kubernetes binding", () => {
  const rows = table("Field | Meaning | Default").map(([field, , fallback]) => ({
    fields: codes(field),
    fallback,
  }));
  test("lists them all", () => {
    expect(rows.flatMap(({ fields }) => fields).toSorted()).toEqual(
      ["kind", ...Object.keys(FIELDS)].toSorted(),
    );
    expect(parseHookConfig("configVersion: v1\nkubernetes: [{name: x}]", "global")).toEqual({
      errors: ["kubernetes[0].kind is required"],
    });
  });

  test.each(Object.entries(FIELDS))(
    "%s is read as written, and has the default that is documented",
    (field, [given, is, fallback]) => {
      const bindings = (extra: string): readonly object[] => {
        const text = `configVersion: v1\nkubernetes:\n- {kind: Pod, name: other}\n- {kind: Pod${extra}}`;
        const parsed = parseHookConfig(text, "global");
        expect(parsed).toHaveProperty("config");
        return "config" in parsed ? parsed.config.bindings.kubernetes : [];
      };
      const [outer = "", inner] = field.split(".");
      const written = inner === undefined ? `${outer}: ${given}` : `${outer}: {${inner}: ${given}}`;
      expect(bindings(`, ${written}`)[1]).toMatchObject(is);
      const [member = ""] = Object.keys(is);
      expect(bindings("")[1]).toHaveProperty(member, fallback);
      const reported = rows.find(({ fields }) => fields.includes(field))?.fallback ?? "";
      const said =
        /^`(.*)`$/.exec(reported)?.[1] ?? { "All three": "Added,Modified,Deleted" }[reported] ?? "";
      expect(said).toBe(fallback === undefined ? "" : String(fallback as string | number | boolean));
    },
  );
});

const TRIGGERS: Readonly<Record<string, string>> = {
  onStartup: "onStartup: 1",
  "Other lifecycle bindings": "beforeAll: 1",
  "A schedule": 'schedule: [{crontab: "* * * * *"}]',
  "The start of a kubernetes binding": "kubernetes: [{kind: Pod, jqFilter: .a}]",
  "An event": "kubernetes: [{kind: Pod, jqFilter: .a}]",
  "A group": "kubernetes: [{kind: Pod, group: g}]",
};

test.each(table("Cause | Fields"))("the table of contexts: %s: %s", (cause, fields) => {
  const because = cause.replaceAll("`", "");
  const hook = hookWith(`configVersion: v1\n${TRIGGERS[because] ?? "none"}`, "h", "global");
  const [binding] = hook.config.bindings.kubernetes;
  const [line] = hook.config.bindings.schedule;
  const [point] = hook.config.bindings.lifecycle;
  const trigger =
    binding === undefined
      ? line === undefined
        ? lifecycle(point?.name ?? "onStartup")
        : tick(line)
      : because === "An event"
        ? event(binding)
        : sync(binding);
  const snapshots = { byBindingName: () => [], byBindingId: () => [] };
  const text = [...renderContext({ config: hook.config, triggers: [trigger], snapshots })].join("");
  const [context = {}] = JSON.parse(text) as Record<string, unknown>[];
  const reported = codes(fields).map((each) => each.split(": "));
  const own = Object.keys(context).filter(
    (key) => key !== "snapshots" || because === "Other lifecycle bindings",
  );
  expect(own.toSorted()).toEqual(reported.map(([key = ""]) => key).toSorted());
  expect(context).toMatchObject(Object.fromEntries(reported.filter(([, value]) => value !== undefined)));
});

test("a hook takes its own files from hooks/lib, which holds no hooks", async () => {
  const hooks = join(dir, "own", "hooks");
  mkdirSync(join(hooks, "lib"), { recursive: true });
  const [line = ""] = /`(source "\$WORKING_DIR[^`]*)`/.exec(page)?.slice(1) ?? [];
  writeFileSync(join(hooks, "lib", "functions.sh"), 'say() { echo \'{"name": "said", "set": 1}\'; }\n');
  const path = join(hooks, "hook.sh");
  writeFileSync(path, `#!/bin/bash\n${line}\nsay >"$METRICS_PATH"\n`, { mode: 0o755 });
  const given = { path, context: "[]", values: "{}", configValues: "{}", settings, logger: silentLogger };
  expect(await runHookFileOffline(given)).toMatchObject({ output: { metrics: [{ name: "said" }] } });
});

/** A hook of the page, and the context and outputs that follow it. */
interface Example {
  readonly name: string;
  readonly kind: "global" | "module";
  readonly path: string;
  readonly context: string | undefined;
  readonly left: readonly { readonly kind: string; readonly text: string }[];
}

function examples(): Example[] {
  const starts = blocks.flatMap(({ kind }, index) => (/^(global|module) hooks\//.test(kind) ? [index] : []));
  return starts.map((start) => {
    const [kind, name = ""] = (blocks[start]?.kind ?? "").split(" ");
    const path = join(dir, kind ?? "", name);
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, blocks[start]?.text ?? "");
    chmodSync(path, 0o755);
    const rest = blocks.slice(start + 1);
    const end = rest.findIndex((block) => !block.kind.endsWith("_PATH"));
    const files = rest.slice(0, end);
    const context = files.find((block) => block.kind === "BINDING_CONTEXT_PATH")?.text;
    const left = files.filter((block) => block.kind !== "BINDING_CONTEXT_PATH");
    return { name, kind: kindOf(kind), path, context, left };
  });
}

const READ: Readonly<Record<string, (output: HookOutput, text: string) => [unknown, unknown]>> = {
  VALUES_JSON_PATCH_PATH: (output, text) => [JSON.parse(output.valuesPatchText), JSON.parse(text)],
  METRICS_PATH: (output, text) => [output.metrics, parseMetrics(text)],
};

describe("hooks", () => {
  test.each(examples())("$name", async ({ kind, path, context = "[]", left }) => {
    const loader = new HookLoader({ env, children: new Children(), workingDir: undefined });
    const loaded = await loader.load(toHookFile(path), kind === "module" ? "web" : undefined);
    expect(loaded).toMatchObject({ hooks: [{}], warnings: [] });
    const item = "hooks" in loaded ? loaded.hooks[0]?.item : undefined;
    const { failure, output } = await runHookFileOffline({
      path,
      module: kind === "module" ? "web" : undefined,
      item,
      context,
      values: "{}",
      configValues: "{}",
      settings,
      logger: silentLogger,
    });
    expect(failure).toBeUndefined();
    for (const block of left) {
      const [got, reported] = READ[block.kind]?.(output as HookOutput, block.text) ?? [block.kind, "known"];
      expect(got).toEqual(reported);
    }
  });
});

describe("a hook that counts objects counts them in the context of each of its bindings", () => {
  const counting = examples().filter(({ name }) => /\/count(-\w+)?\.sh$/.test(name));
  test("there are such hooks", () => expect(counting).toHaveLength(1));

  test.each(counting)("$name", async ({ path }) => {
    const hook = hookWith(execFileSync(path, ["--config"], { encoding: "utf8" }));
    const [binding] = hook.config.bindings.kubernetes;
    if (!binding) throw new Error(`${path} has no kubernetes binding`);
    const snapshots = {
      byBindingName: () => ["a", "b"].map((filterResult) => ({ filterResult })),
      byBindingId: () => [],
    };
    for (const trigger of [sync(binding), event(binding), lifecycle("beforeHelm")]) {
      const context = [...renderContext({ config: hook.config, triggers: [trigger], snapshots })].join("");
      const given = { path, context, values: "{}", configValues: "{}", settings, logger: silentLogger };
      const { output } = await runHookFileOffline({ ...given, module: "web" });
      expect(JSON.parse(output?.valuesPatchText ?? "")).toMatchObject({ value: 2 });
    }
  });
});

test("the file with all operations is one, and names all of the table", () => {
  const text = blocks.find(({ kind }) => kind === "KUBERNETES_PATCH_PATH syntax")?.text ?? "";
  const operations = parseObjectOperations(text).map(({ operation }) => operation);
  const table = page.slice(page.indexOf("| Operation |"), page.indexOf("This file contains all nine"));
  expect(operations).toHaveLength(9);
  expect([...table.matchAll(/^\| `(\w+)` \|/gm)].map(([, name]) => name)).toEqual(operations);
});

test("every block of the page is known", () => {
  const known = /^((global|module) (config|hooks\/.+)|[A-Z_]+_PATH( syntax)?|templates\/.+)$/;
  expect(blocks.filter(({ kind }) => !known.test(kind))).toEqual([]);
});
