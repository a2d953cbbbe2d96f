import { expect, it } from "vitest";

import { helmEnvironment } from "../../../src/helm/binary/binary.ts";

const context = { managedBy: "v1-x", home: "/t/helm-home", release: "web" };
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
    HELM_QPS: "10",
    NO_PROXY: "a.example,fd00::1",
  });
  expect(Object.keys(made).filter((name) => /^HELM_(KUBE|NAMESPACE)/.test(name))).toEqual([]);
});

it("without a cluster no kubeconfig counts", () => {
  expect(helmEnvironment({ ...context, env: {}, server: "" })).toMatchObject({ KUBECONFIG: "/dev/null" });
});
