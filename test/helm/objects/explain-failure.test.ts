import { expect, it } from "vitest";

import { HelmError } from "../../../src/helm/binary/helm-errors.ts";
import { explainFailure } from "../../../src/helm/objects/explain-failure.ts";
import type { Reconciler } from "../../../src/helm/types.ts";

async function explain(stderr: string): Promise<string> {
  const result = { outcome: "failed", message: "refused", stdout: "", stderr } as HelmError["result"];
  const wanted = [{ apiVersion: "v1", kind: "Secret", name: "db", namespace: "other" }];
  const failure = await explainFailure(
    { namespace: "ns" } as Reconciler,
    new HelmError("upgrade web", result),
    {
      run: { verb: "upgrade", hooks: [] },
      listWanted: () => wanted,
      signal: new AbortController().signal,
    },
  );
  return failure.message;
}

it.each([
  [
    'Secret "db" is invalid: data: Forbidden: field is immutable when `immutable` is set',
    "secret db -n other",
  ],
  [
    'Service "a" is invalid: spec.clusterIPs[0]: Invalid value: ["10.0.0.5"]: may not change once set',
    "service a -n ns",
  ],
  [
    'StorageClass.storage.k8s.io "a" is invalid: parameters: Forbidden: updates to parameters are forbidden.',
    "storageclass.storage.k8s.io a -n ns",
  ],
  [
    'ConfigMap "b" is invalid: data.x: Invalid value: "": wrong\nDeployment.apps "web" is invalid: spec.selector: Invalid value: {}: field is immutable',
    "deployment.apps web -n ns",
  ],
])("%s: says how to delete the object", async (stderr, object) => {
  expect(await explain(stderr)).toContain(`or run "kubectl delete ${object}"`);
});

it.each([
  'PersistentVolumeClaim "data" is invalid: spec: Forbidden: spec is immutable after creation',
  'Database.db.example.org "data" is invalid: spec.engine: Invalid value: "a": engine is immutable',
  'constructor.x "data" is invalid: Toy.x "data" is invalid: spec: is immutable',
])("%s: recommends no deletion, for it may delete data", async (stderr) => {
  expect(await explain(stderr)).toMatch(
    /: undo the change, or replace the object by hand, because its deletion can delete data$/,
  );
});

it.each(['Job.batch "a" is invalid: spec.backoffLimit: Invalid value: -1: must be at least 0', "timed out"])(
  "%s: stays as it is",
  async (stderr) => {
    expect(await explain(stderr)).toBe("helm upgrade web: refused");
  },
);

it("says how the namespace of objects comes into being, unless the operator creates it for the release", async () => {
  const missing = (name: string): string => `failed to create resource: namespaces "${name}" not found`;
  expect(await explain(`${missing("istio-system")}\n${missing("other")}`)).toBe(
    'helm upgrade web: refused; the chart has objects in namespace istio-system: set "namespace: istio-system" in addon.yaml, and the operator creates it, or create it by hand',
  );
  expect(await explain(missing("ns"))).toBe("helm upgrade web: refused");
});
