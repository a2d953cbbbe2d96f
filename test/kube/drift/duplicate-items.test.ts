import { expect, it } from "vitest";

import {
  areListsApplied,
  describeDuplicateItems,
  findDuplicateItems,
} from "../../../src/kube/drift/duplicate-items.ts";

const ENV = ["f:spec", "f:containers", 'k:{"name":"a.b"}', "f:env"];
const PORTS = ["f:spec", "f:initContainers", 'k:{"name":"x"}', "f:ports"];

it("finds the lists that the API server names, and describes them", () => {
  const found = findDuplicateItems(`failed to create typed patch object (ns/m; /v1, Kind=Pod): errors:
  .spec.containers[name="a.b"].env: duplicate entries for key [name="A"]
  .spec.initContainers[name="x"].ports: duplicate entries for key [containerPort=80,protocol="TCP"]`);
  expect(found.map(({ path }) => path)).toEqual([ENV, PORTS]);
  expect(describeDuplicateItems(found)).toBe(
    'spec.containers[name="a.b"].env (several items with the key [name="A"]), spec.initContainers[name="x"].ports (several items with the key [containerPort=80,protocol="TCP"]); give each item a key of its own in the chart',
  );
  expect(findDuplicateItems('.spec.ports[0].name: Duplicate value: "http"')).toEqual([]);
});

it.each([
  ["Apply", true],
  ["Update", false],
])("helm's entry of an %s that has the list: %s", (operation, isApplied) => {
  const fieldsV1 = { "f:spec": { "f:containers": { 'k:{"name":"a.b"}': { "f:env": {} } } } };
  const live = { metadata: { managedFields: [{ manager: "helm", operation, fieldsV1 }] } };
  expect(areListsApplied(live, [{ path: ENV, key: "" }])).toBe(isApplied);
  expect(areListsApplied(live, [{ path: PORTS, key: "" }])).toBe(false);
});
