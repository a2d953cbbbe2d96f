// Run with helm 3 as well.
// Runs at night: documentation.
import { execFile, spawn } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { promisify } from "node:util";
import { expect, onTestFinished, test } from "vitest";

import { freePorts } from "../../scripts/control-plane/ports.mjs";
import { programFile } from "../../scripts/operator.mjs";
import { modernNode } from "../../scripts/setup/tools.mjs";
import { cluster, eventually, freshNamespace, helmUnderTest } from "../support/cluster.ts";
import { chartRepository } from "../support/chart-repository.ts";

// docs/get-started/first-module.md, typed line by line.

const repo = join(import.meta.dirname, "../..");
const page = readFileSync(join(repo, "docs/get-started/first-module.md"), "utf8");
/** What the page says to type, without its output, and without the namespace, of which the test has its own. */
const lines = [...page.matchAll(/^```(.*)\n([^]*?)^```$/gm)]
  .filter(([, language]) => language === "")
  .flatMap(([, , block = ""]) => block.trim().split("\n"))
  .filter((line) => !/^kubectl (create|delete) namespace /.test(line));

/** Files whose content the page prints, by the word of their block that says which. */
const WRITTEN: readonly (readonly [block: string, path: string])[] = [
  ["hooks/count.sh", "modules/020-census/hooks/count.sh"],
  ["templates/configmap.yaml", "modules/020-census/templates/configmap.yaml"],
  ["BINDING_CONTEXT_PATH", "context.json"],
];
const contentOf = (block: string): string => page.split(`${block}\n`)[1]?.split("```", 1)[0] ?? "";

const COUNTED = "kubectl get configmap census -o jsonpath='{.data.namespaces}'";

const CHART = {
  "Chart.yaml": "apiVersion: v2\nname: podinfo\nversion: 6.99.0\n",
  "values.yaml": "replicaCount: 1\n",
  "templates/map.yaml": `apiVersion: v1
kind: ConfigMap
metadata: {name: {{ .Release.Name }}}
data: {replicas: "{{ .Values.replicaCount }}"}
`,
};

test(
  "the page's lines take a public chart to Ready, and its values are in force",
  { timeout: 240_000 },
  async () => {
    const root = mkdtempSync(join(tmpdir(), "first-module-"));
    onTestFinished(() => rmSync(root, { recursive: true, force: true, maxRetries: 5 }));
    const namespace = await freshNamespace("first-module");
    const url = await chartRepository({ name: "podinfo", version: "6.99.0" }, CHART);
    const bin = join(root, "bin");
    mkdirSync(bin);
    symlinkSync(cluster().bin.kubectl, join(bin, "kubectl"));
    symlinkSync(helmUnderTest(), join(bin, "helm"));
    writeFileSync(join(bin, "addon-operator"), `#!/bin/sh\nexec ${modernNode()} ${programFile()} "$@"\n`, {
      mode: 0o755,
    });
    cpSync(cluster().kubeconfig, join(root, "config"));
    const [port] = await freePorts(1);
    const env = {
      PATH: [bin, process.env["PATH"]].join(delimiter),
      HOME: root,
      KUBECONFIG: join(root, "config"),
      NODE_NO_WARNINGS: "1",
      ADDON_OPERATOR_TMP_DIR: join(root, "tmp"),
      ADDON_OPERATOR_LISTEN_PORT: String(port),
      ADDON_OPERATOR_DEBUG_UNIX_SOCKET: join(root, "debug.socket"),
    };
    const own = (line: string): string =>
      line
        .replace("https://stefanprodan.github.io/podinfo", url)
        .replaceAll(/(?<=--namespace[ =])addon-operator\b/g, namespace)
        // The chart of this test has no Deployment: there is no node that runs it.
        .replace("deployment podinfo", "configmap podinfo")
        .replace("{.spec.replicas}", "{.data.replicas}");
    const type = async (line: string): Promise<string> =>
      (await promisify(execFile)("sh", ["-e", "-c", own(line)], { cwd: root, env })).stdout;
    let stop = (): Promise<unknown> => Promise.resolve();
    const start = (line: string): void => {
      const child = spawn("sh", ["-c", `exec ${own(line)}`], { cwd: root, env, stdio: "ignore" });
      const end = new Promise((done) => child.once("exit", done));
      stop = () => {
        child.kill();
        return end;
      };
    };
    onTestFinished(async () => void (await stop()));

    const said: string[] = [];
    for (const line of lines) {
      if (line.includes(" start ")) {
        await stop();
        start(line);
        await eventually(() => type("kubectl get addonmodule/podinfo"), "the module is there");
      } else said.push(await type(line));
      if (line.includes(" new hook "))
        for (const [block, path] of WRITTEN) writeFileSync(join(root, path), contentOf(block));
    }
    const displayed = said.filter((text) => text.startsWith("NAME "));
    expect(said[0]).toContain("modules/010-podinfo: written. Next:");
    expect(said[2]).toContain("install:\n  podinfo:");
    expect(displayed[0]).toMatch(/podinfo +true +True +Ready +1 /);
    expect(displayed[1]).toMatch(/podinfo +true +True +Ready +2 /);
    expect(said).toContain("2");
    const namespaces = said[lines.filter((line) => !line.includes(" start ")).indexOf(COUNTED)];
    expect(Number(namespaces)).toBeGreaterThan(3);
  },
);
