import { execFileSync } from "node:child_process";
import {
  accessSync,
  constants,
  mkdtempSync,
  readFileSync,
  readdirSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { parseHookConfig } from "../../src/hooks/index.ts";

const root = join(import.meta.dirname, "..", "..", "examples");
const modules = readdirSync(join(root, "modules")).filter((name) => /^\d{3}-/.test(name));
const hooksOf = (dir: string) =>
  readdirSync(join(root, dir, "hooks"), { withFileTypes: true }).map(({ name }) => join(dir, "hooks", name));
const withHooks = modules.filter((name) => readdirSync(join(root, "modules", name)).includes("hooks"));
const hooks = [...hooksOf("global-hooks"), ...withHooks.flatMap((name) => hooksOf(join("modules", name)))];

describe("every hook answers --config", () => {
  test.each(hooks)("%s", (hook) => {
    const file = join(root, hook);
    accessSync(file, constants.X_OK);
    const config = execFileSync(file, ["--config"], {
      encoding: "utf8",
      stdio: ["ignore", "pipe", "inherit"],
    });
    const parsed = parseHookConfig(config, hook.startsWith("global-hooks") ? "global" : "module");
    expect(parsed).toHaveProperty("config");
    expect(parsed).toHaveProperty("warnings", []);
  });
});

test.each(modules)("%s says in its README.md what it does", (name) => {
  const text = readFileSync(join(root, "modules", name, "README.md"), "utf8");
  expect(text).toMatch(new RegExp(`^# ${name.replace(/^\d+-/, "")}\n`));
  expect(text.split("\n").length).toBeLessThan(20);
});

interface Given {
  contexts?: unknown;
  values: unknown;
}

/** Runs one hook offline with the documented files; what it left, parsed. */
describe("what the hooks leave", () => {
  let dir = "";
  beforeEach(() => {
    dir = mkdtempSync(join(tmpdir(), "examples-"));
  });
  afterEach(() => rmSync(dir, { recursive: true }));

  const file = (name: string) => join(dir, name);
  const left = (name: string): unknown[] => {
    const text = readFileSync(file(name), "utf8").trim();
    return text === "" ? [] : text.split("\n").map((line): unknown => JSON.parse(line));
  };

  function run(hook: string, { contexts = [], values }: Given): void {
    const files = ["config-patch", "values-patch", "metrics", "objects"];
    for (const name of files) writeFileSync(file(name), "");
    writeFileSync(file("contexts"), JSON.stringify(contexts));
    writeFileSync(file("values"), JSON.stringify(values));
    execFileSync(join(root, hook), [], {
      stdio: ["ignore", "ignore", "inherit"],
      env: {
        ...process.env,
        ADDON_OPERATOR_NAMESPACE: "addons",
        BINDING_CONTEXT_PATH: file("contexts"),
        VALUES_PATH: file("values"),
        CONFIG_VALUES_JSON_PATCH_PATH: file("config-patch"),
        VALUES_JSON_PATCH_PATH: file("values-patch"),
        METRICS_PATH: file("metrics"),
        KUBERNETES_PATCH_PATH: file("objects"),
      },
    });
  }

  test("cluster-id makes an id once", () => {
    run("global-hooks/hooks/cluster-id.sh", { values: { global: {} } });
    expect(left("config-patch")).toEqual([
      [{ op: "add", path: "/global/clusterId", value: expect.stringMatching(/^[0-9a-f]{16}$/) }],
    ]);
    run("global-hooks/hooks/cluster-id.sh", { values: { global: { clusterId: "mine" } } });
    expect(left("config-patch")).toEqual([]);
  });

  test("make-ca makes a self-signed authority once", () => {
    const hook = "modules/002-internal-ca/hooks/make-ca.sh";
    run(hook, { values: { internalCa: { commonName: "Test CA", days: 7 } } });
    const [[patch]] = left("config-patch") as [
      [{ path: string; value: { key: string; certificate: string } }],
    ];
    expect(patch.path).toBe("/internalCa/ca");
    writeFileSync(file("ca.crt"), patch.value.certificate);
    const subject = execFileSync("openssl", ["x509", "-in", file("ca.crt"), "-noout", "-subject"], {
      encoding: "utf8",
    });
    expect(subject).toMatch(/CN ?= ?Test CA/);
    run(hook, { values: { internalCa: { ca: patch.value } } });
    expect(left("config-patch")).toEqual([]);
  });

  test("certificate hands over what the snapshot holds, and nothing before it is there", () => {
    const hook = "modules/003-trust-bundle/hooks/certificate.sh";
    const contexts = (authority: unknown[]) => [{ binding: "beforeHelm", snapshots: { authority } }];
    run(hook, { contexts: contexts([{ filterResult: "Y2VydA==" }]), values: {} });
    const value = { certificate: "cert" };
    expect(left("values-patch")).toEqual([[{ op: "add", path: "/trustBundle/internal", value }]]);
    run(hook, { contexts: contexts([]), values: {} });
    expect(left("values-patch")).toEqual([]);
  });

  test("namespaces leaves out what is going away and an override that is no number", () => {
    const namespaces = [
      { name: "shop", pods: null, going: false },
      { name: "gone", pods: null, going: true },
      { name: "lab", pods: "many", going: false },
      { name: "big", pods: "50", going: false },
    ].map((filterResult) => ({ filterResult }));
    const contexts = [{ binding: "beforeHelm", snapshots: { namespaces } }];
    run("modules/010-guard-rails/hooks/namespaces.sh", { contexts, values: {} });
    const value = { namespaces: [{ name: "big", pods: "50" }, { name: "lab" }, { name: "shop" }] };
    expect(left("values-patch")).toEqual([[{ op: "add", path: "/guardRails/internal", value }]]);
  });

  test("census counts by namespace", () => {
    const configmaps = ["a", "b", "a", "kube-system"].map((filterResult) => ({ filterResult }));
    const contexts = [
      { binding: "configmaps", type: "Group", groupName: "census", snapshots: { configmaps } },
    ];
    const values = { namespaceCensus: { ignored: ["kube-system"] } };
    run("modules/020-namespace-census/hooks/census.py", { contexts, values });
    const metric = { group: "census", name: "census_configmaps", action: "set" };
    expect(left("metrics")).toEqual([
      { action: "expire", group: "census" },
      { ...metric, value: 2, labels: { namespace: "a" } },
      { ...metric, value: 1, labels: { namespace: "b" } },
    ]);
  });

  test("stamp patches only namespaces without a stamp", () => {
    const event = (name: string, seen: string | null) => ({
      binding: "new-namespaces",
      type: "Event",
      watchEvent: "Added",
      filterResult: { name, seen },
    });
    const contexts = [event("new", null), event("old", "2020-01-01T00:00:00Z")];
    run("modules/020-namespace-census/hooks/stamp.sh", { contexts, values: {} });
    expect(left("objects")).toEqual([
      expect.objectContaining({ operation: "MergePatch", kind: "Namespace", name: "new" }),
    ]);
  });

  test.each([
    ["report", "CreateOrUpdate"],
    ["namespaces", "CreateOrUpdate"],
    ["afterDeleteHelm", "DeleteInBackground"],
  ])("report on %s: %s", (binding, operation) => {
    const namespaces = ["b", "a", "kube-system"].map((filterResult) => ({ filterResult }));
    const values = { namespaceCensus: { ignored: ["kube-system"] } };
    const hook = "modules/020-namespace-census/hooks/report.sh";
    run(hook, { contexts: [{ binding, snapshots: { namespaces } }], values });
    expect(left("objects")).toEqual([expect.objectContaining({ operation })]);
    if (operation === "CreateOrUpdate")
      expect(left("objects")).toEqual([
        expect.objectContaining({
          object: expect.objectContaining({ data: { count: "2", namespaces: "a\nb" } }),
        }),
      ]);
  });
});
