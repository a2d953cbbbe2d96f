import { describe, expect, it } from "vitest";

import { RestMapper } from "../../../src/surface/offline/rule-set.ts";

const CRD = {
  kind: "CustomResourceDefinition",
  spec: { group: "example.com", scope: "Cluster", names: { kind: "Quota", plural: "quotas" } },
};

describe("the mapper of kinds", () => {
  it.each<[string, string | undefined, object]>([
    ["Ingress", undefined, { group: "networking.k8s.io", plural: "ingresses" }],
    ["ingresses", undefined, { group: "networking.k8s.io", plural: "ingresses" }],
    ["NetworkPolicies", "networking.k8s.io/v1", { group: "networking.k8s.io", plural: "networkpolicies" }],
    ["storageclasses", undefined, { group: "storage.k8s.io", plural: "storageclasses" }],
    ["pods", "v1", { group: "", plural: "pods" }],
    ["Endpoints", undefined, { group: "", plural: "endpoints" }],
    ["Quota", undefined, { group: "example.com", plural: "quotas" }],
    ["quotas", "example.com/v1", { group: "example.com", plural: "quotas" }],
    ["Proxy", "other.io/v1", { group: "other.io", plural: "proxies" }],
    ["Unknown", undefined, { group: "", plural: "unknowns" }],
  ])("resolves %s of %s", (kind, apiVersion, names) => {
    const mapper = new RestMapper();
    mapper.addCrds([CRD]);
    expect(mapper.resolve(kind, apiVersion)).toEqual(names);
  });
});
