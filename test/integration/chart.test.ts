import { expect, test } from "vitest";
import type { JsonObject } from "../../src/base/model/index.ts";
import { MATRIX, objectsOf, render } from "../charts/matrix.ts";
import { cluster, freshNamespace } from "../support/cluster.ts";
import { installCrds } from "../support/crds.ts";

const FOREIGN = new Set(["ServiceMonitor", "PodMonitor", "PrometheusRule", "Certificate", "Issuer"]);

test("the API server accepts every object of every rendering", async () => {
  await installCrds();
  const namespace = await freshNamespace("chart");
  for (const [name, values] of Object.entries(MATRIX)) {
    const objects = objectsOf(render("helm", values)).filter(({ kind }) => !FOREIGN.has(kind));
    const items = objects.map((object) => moved(object, namespace));
    const list = JSON.stringify({ apiVersion: "v1", kind: "List", items });
    const answer = await cluster().kubectl(
      ["create", "--dry-run=server", "--validate=strict", "-f", "-"],
      list,
    );
    expect({ name, accepted: answer.trim().split("\n").length }).toEqual({ name, accepted: objects.length });
  }
});

test("the API server accepts what kustomize makes of deploy/manifests", async () => {
  await installCrds();
  const built = await cluster().kubectl([
    "kustomize",
    new URL("../../deploy/manifests", import.meta.url).pathname,
  ]);
  const namespace = await freshNamespace("manifests");
  const text = built
    .replaceAll("namespace: addon-operator\n", `namespace: ${namespace}\n`)
    .replaceAll("name: addons-addon-operator", `name: ${namespace}`);
  const answer = await cluster().kubectl(["apply", "--dry-run=server", "--validate=strict", "-f", "-"], text);
  expect(answer).toContain("deployment.apps/addon-operator created (server dry run)");
  expect(answer.trim().split("\n").length).toBe(built.split(/^---$/m).length);
  // In a new cluster, kubectl cannot apply objects of a CRD together with the CRD.
  expect(built).not.toMatch(/^apiVersion: addon-operator\.io/m);
});

function moved<T extends { metadata: JsonObject }>(object: T, namespace: string): T {
  if (object.metadata["namespace"] === undefined) return object;
  return { ...object, metadata: { ...object.metadata, namespace } };
}
