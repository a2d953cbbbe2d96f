import { expect, test } from "vitest";

import { CONFIG_MAPS, LEASES, NAMESPACES, pathOf, toPathTemplate } from "../../src/kube/index.ts";
import type { ObjectPath, ResourceType } from "../../src/kube/index.ts";

test.each<[ResourceType, ObjectPath, string]>([
  [CONFIG_MAPS, {}, "/api/v1/configmaps"],
  [CONFIG_MAPS, { namespace: "ops" }, "/api/v1/namespaces/ops/configmaps"],
  [CONFIG_MAPS, { namespace: "ops", name: "a" }, "/api/v1/namespaces/ops/configmaps/a"],
  [LEASES, { namespace: "ops", name: "a/b" }, "/apis/coordination.k8s.io/v1/namespaces/ops/leases/a%2Fb"],
  [NAMESPACES, { namespace: "ignored", name: "a", subresource: "status" }, "/api/v1/namespaces/a/status"],
  [
    CONFIG_MAPS,
    { namespace: "o", name: "a", subresource: "proxy/x" },
    "/api/v1/namespaces/o/configmaps/a/proxy/x",
  ],
])("path %#", (resource, place, want) => {
  expect(pathOf(resource, place)).toBe(want);
});

test.each([
  ["/version", "/version"],
  ["/apis", "/apis"],
  ["/api/v1", "/api/v1"],
  ["/api/v1/nodes", "/api/v1/nodes"],
  ["/api/v1/nodes/n", "/api/v1/nodes/{name}"],
  ["/api/v1/namespaces", "/api/v1/namespaces"],
  ["/api/v1/namespaces/ops", "/api/v1/namespaces/{name}"],
  ["/api/v1/namespaces/ops/pods", "/api/v1/namespaces/{namespace}/pods"],
  ["/api/v1/namespaces/ops/pods/p/log", "/api/v1/namespaces/{namespace}/pods/{name}/log"],
  ["/apis/apps/v1/namespaces/ops/deployments/d", "/apis/apps/v1/namespaces/{namespace}/deployments/{name}"],
  ["/apis/apps/v1/deployments", "/apis/apps/v1/deployments"],
])("template of %s", (path, want) => {
  expect(toPathTemplate(path)).toBe(want);
});
