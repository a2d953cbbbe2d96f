import { mkdirSync, mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { expect, it, onTestFinished } from "vitest";

import { HelmBinary, helmEnvironment } from "../../../src/helm/binary/binary.ts";

const context = { managedBy: "v1-x", home: "/t/helm-home", release: "web", goMemLimit: "96MiB" };
const kubeconfig = { path: "/t/kube/helm.kubeconfig", refresh: () => Promise.resolve() };

it("nothing in helm's environment leads to another cluster, or around the operator's own way there", () => {
  const env = {
    HOME: "/home/of-hooks",
    KUBECONFIG: "/home/of-hooks/.kube/config",
    HELM_KUBECONTEXT: "prod",
    HELM_KUBETOKEN: "t",
    HELM_KUBEAPISERVER: "https://prod",
    HELM_NAMESPACE: "other",
    HELM_QPS: "10",
    no_proxy: "a.example",
  };
  const made = helmEnvironment({ ...context, env, kubeconfig, server: "https://[fd00::1]:6443" });
  expect(made).toMatchObject({
    HOME: "/t/helm-home",
    KUBECONFIG: kubeconfig.path,
    GOMEMLIMIT: "96MiB",
    HELM_QPS: "10",
    NO_PROXY: "a.example,fd00::1",
  });
  expect(Object.keys(made).filter((name) => /^HELM_(KUBE|NAMESPACE)/.test(name))).toEqual([]);
});

it("without a cluster no kubeconfig counts", () => {
  expect(helmEnvironment({ ...context, env: {}, server: "" })).toMatchObject({ KUBECONFIG: "/dev/null" });
});

it("a process that was killed while it recorded the version leaves nothing after the next start", async () => {
  const home = mkdtempSync(join(tmpdir(), "helm-home-"));
  onTestFinished(() => rmSync(home, { recursive: true, force: true }));
  const getVersion = (): Promise<string> =>
    new HelmBinary(process.execPath, "", home).getVersion(() => Promise.resolve("v4.0.0"));
  // A directory in the place of the record stops the process between its two steps.
  mkdirSync(join(home, "version.json"));
  await getVersion();
  rmSync(join(home, "version.json"), { recursive: true });
  await getVersion();
  expect(readdirSync(home)).toEqual(["version.json"]);
});
