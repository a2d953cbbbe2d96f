import { execFileSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";

import { inPod, printedLines, printedScripts, printsArchive } from "../../scripts/docs-commands.mjs";
import { parseCommandLine } from "../../src/main/commands/run.ts";

const root = join(import.meta.dirname, "../..");
const text = (path: string): string => readFileSync(join(root, path), "utf8");
const { scripts } = JSON.parse(text("package.json")) as { scripts: Record<string, string> };

/** Names of commands in running text: nobody types them so. */
const NAMED_ONLY = new Set([
  "kubectl wait",
  "kubectl wait --all",
  "kubectl wait --for=condition=Ready",
  "helm upgrade",
  "helm template",
  "helm get values",
  "helm rollback",
  "helm repo add NAME URL --username USER --password-stdin",
  "helm registry login",
  "helm uninstall",
]);

/** Who types what begins so against a cluster. */
const TYPED: readonly (readonly [start: string, by: string])[] = [
  ["kubectl -n addon-operator annotate --overwrite addonoperator", "test/integration/leaving.test.ts"],
  ["kubectl exec deploy/addon-operator -- ", "scripts/e2e.mjs"],
  ["helm dependency build ", "test/surface/offline/new/new-module.test.ts"],
  ["helm install addon-operator charts/addon-operator ", "scripts/e2e.mjs"],
  ["helm install addon-operator oci://ghcr.io/OWNER/charts/addon-operator ", "test/scripts/release.test.ts"],
  ["kubectl apply -k ", "test/integration/chart.test.ts"],
  ["helm test", "scripts/e2e.mjs"],
  ["helm upgrade addon-operator ", "test/integration/leaving.test.ts"],
  ["helm uninstall addon-operator ", "test/integration/leaving.test.ts"],
  ["kubectl delete validatingwebhookconfigurations,", "test/integration/webhooks-server.test.ts"],
  ["kubectl delete crd ", "test/integration/leaving.test.ts"],
  ["kubectl patch crd ", "test/integration/webhooks-server.test.ts"],
  ["kubectl delete namespace ", "test/support/cluster.ts"],
  [
    "kubectl annotate --overwrite -n addon-operator addonoperator/addon-operator addon-operator.io/confirm-delete",
    "test/integration/brake.test.ts",
  ],
  ["kubectl create configmap addon-operator", "scripts/capture.mjs"],
  ["kubectl describe addonmodule priority-classes", "scripts/capture/commands.mjs"],
  ["kubectl patch configmap addon-operator ", "test/integration/first-module.test.ts"],
  ["kubectl addon ", "test/integration/addon-plugin.test.ts"],
  ["kubectl ", "test/integration/docs-commands.test.ts"],
];

const typed = printedLines().filter((line) => !NAMED_ONLY.has(line.text));
const startingWith = (...starts: string[]) =>
  typed.filter((line) => starts.some((start) => line.text.startsWith(start)));

/** Words of a line, without the brackets of what may be left out. */
const words = (line: string): string[] => line.replaceAll(/[[\]]/g, "").split(" ");

test("there are commands, and nothing is named that is not printed", () => {
  expect(typed.length).toBeGreaterThan(40);
  const printed = new Set(printedLines().map((line) => line.text));
  expect([...NAMED_ONLY].filter((name) => !printed.has(name))).toEqual([]);
});

/** Whether a line calls what is there: a script of package.json, a file, the Dockerfile. */
function isThere(line: string): boolean {
  return line.split(" && ").every((part) => {
    const [program = "", first = "", second = ""] = part.split(" ");
    if (program === "npm" && ["pack", "ci", "install", "rebuild"].includes(first)) return true;
    if (program === "npm") return Object.hasOwn(scripts, first === "run" ? second : first);
    const file = program === "docker" ? "Dockerfile" : first;
    return file === "dist/main.js" || existsSync(join(root, file));
  });
}

test.each(startingWith("npm ", "node ", "docker "))("$page: $text", (line) => {
  expect(isThere(line.text)).toBe(true);
});

/** Offline commands are run in these tests, with every flag that is printed. */
const OFFLINE = [
  "main",
  "docs/webhooks",
  "surface/offline/lint-charts",
  "surface/offline/new/new-module",
  "surface/offline/new/new-hook",
  "surface/offline/new/upgrade-chart",
]
  .map((name) => text(`test/${name}.test.ts`))
  .join("");

/** Whether the program understands the words after its name. */
function isUnderstood(given: readonly string[]): boolean {
  const parsed = parseCommandLine(given);
  if ("help" in parsed) return true;
  const isOffline = ["lint", "hook", "new", "upgrade-chart"].includes(given[0] ?? "");
  return (
    !isOffline || given.filter((word) => word.startsWith("--")).every((flag) => OFFLINE.includes(`"${flag}"`))
  );
}

describe("addon-operator", () => {
  const lines = [
    ...startingWith("addon-operator ").map((line) => line.text),
    ...typed.flatMap((line) => inPod(line.text) ?? []),
  ];
  test.each([...new Set(lines)])("%s", (line) => {
    expect(isUnderstood(words(line).slice(1))).toBe(true);
  });
});

test("of what is typed in the Pod, bundle alone prints an archive", () => {
  const lines = [...new Set(typed.flatMap(({ text }) => inPod(text) ?? []))];
  expect(lines.filter(printsArchive)).toEqual(["addon-operator bundle -"]);
  expect(lines.filter((line) => !printsArchive(line)).every((line) => !line.includes("bundle"))).toBe(true);
});

describe("kubectl and helm", () => {
  const lines = startingWith("kubectl ", "helm ").map((line) => line.text);
  test.each([...new Set(lines)])("%s", (line) => {
    const by = TYPED.find(([start]) => line.startsWith(start))?.[1];
    expect(by).toBeDefined();
    expect(existsSync(join(root, by ?? ""))).toBe(true);
  });

  test.each(TYPED)("%s is printed", (start) => {
    expect(lines.some((line) => line.startsWith(start))).toBe(true);
  });

  test.each(printedScripts())("a script of $page can be read by sh", (script) => {
    execFileSync("sh", ["-n"], { input: script.text });
  });
});
