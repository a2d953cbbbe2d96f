import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { beforeEach, describe, expect, onTestFinished, test } from "vitest";

import { ensureCrds } from "../../../src/helm/index.ts";
import { connect } from "../../../src/kube/index.ts";
import { silentLogger } from "../../../src/base/index.ts";
import type { JsonObject } from "../../../src/base/model/index.ts";
import { ManualClock } from "../../support/clock.ts";
import { FakeApi, status } from "../../support/fake-api.ts";

// docs/reference/modules.md, "CRDs that change": a confirmation answers one question, once.

const CRD = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/things.example.org";
const MARK = "addon-operator.io/confirmed-change";

/** A definition whose objects need these fields. */
const specOf = (...required: readonly string[]): JsonObject => ({
  group: "example.org",
  names: { plural: "things", kind: "Thing" },
  scope: "Cluster",
  versions: [
    {
      name: "v1",
      served: true,
      storage: true,
      schema: { openAPIV3Schema: { type: "object", required: [...required] } },
    },
  ],
});

let spec: JsonObject;
let generation: number;
let annotations: JsonObject;
let things: { metadata: { name: string; uid: string } }[];
/** The server fails at the next definition. */
let isDown: boolean;
let ensure: (next: JsonObject, confirmed?: string) => Promise<string[]>;
let refused: (next: JsonObject, confirmed?: string) => Promise<{ message: string; token: string }>;

beforeEach(async () => {
  const api = await FakeApi.start();
  [spec, generation, annotations, isDown] = [specOf(), 1, {}, false];
  things = [{ metadata: { name: "one", uid: "1" } }];
  const live = (): object => ({
    apiVersion: "apiextensions.k8s.io/v1",
    kind: "CustomResourceDefinition",
    metadata: { name: "things.example.org", uid: "crd", generation, annotations },
    spec,
    status: { storedVersions: ["v1"], conditions: [{ type: "Established", status: "True" }] },
  });
  api.on(`GET ${CRD}`, () => ({ json: live() }));
  api.on(`PATCH ${CRD}`, ({ body, headers }) => {
    const isApply = headers["content-type"]?.includes("apply") === true;
    if (isApply && isDown) return status(503, "ServiceUnavailable");
    const change = JSON.parse(body) as { metadata: { annotations?: JsonObject }; spec?: JsonObject };
    annotations = { ...annotations, ...(isApply ? {} : change.metadata.annotations) };
    if (annotations[MARK] === null) delete annotations[MARK];
    if (change.spec !== undefined && JSON.stringify(change.spec) !== JSON.stringify(spec)) {
      spec = change.spec;
      generation++;
    }
    return { json: live() };
  });
  api.on("GET /apis/example.org/v1/things", () => ({ json: { metadata: {}, items: things } }));
  const dir = mkdtempSync(join(tmpdir(), "crds-"));
  const file = join(dir, "crd.yaml");
  const client = connect({ kubeConfig: api.kubeconfig(), userAgent: "test", logger: silentLogger });
  const clock = new ManualClock(0);
  ensure = (next, confirmed) => {
    const metadata = { name: "things.example.org" };
    const crd = { apiVersion: "apiextensions.k8s.io/v1", kind: "CustomResourceDefinition", metadata };
    writeFileSync(file, JSON.stringify({ ...crd, spec: next }));
    return ensureCrds([file], { client, clock, confirmed, namespace: "ops", release: "web" });
  };
  refused = async (next, confirmed) => {
    const found = await ensure(next, confirmed).then(
      () => expect.unreachable("it was applied"),
      (error: unknown) => (error as { problems: { message: string; remedy: string }[] }).problems[0],
    );
    const message = `${found?.message} (${found?.remedy})`;
    return { message, token: /confirm-crds=(\w+)/.exec(message)?.[1] ?? "none" };
  };
  onTestFinished(async () => {
    await client.close();
    await api.close();
    rmSync(dir, { recursive: true });
  });
});

describe("a confirmation of a change of CRDs", () => {
  test("is one command, which fits into a status also after long names of objects", async () => {
    things = ["a", "b", "c", "d", "e", "f"].map((name) => ({
      metadata: { name: name.repeat(200), uid: name },
    }));
    const { message, token } = await refused(specOf("x"));
    const command = `kubectl annotate --overwrite -n ops addonmodule/web addon-operator.io/confirm-crds=${token}`;
    expect(message).toContain(`confirm: ${command} reconcile.addon-operator.io/requestedAt="$(date +%s)")`);
    expect(message.length).toBeLessThan(1000);
  });

  test("is used up: after the way back, the same change is asked about again", async () => {
    const { token } = await refused(specOf("x"));
    await ensure(specOf("x"), token);
    expect(spec).toEqual(specOf("x"));
    expect(annotations).toEqual({});
    await ensure(specOf(), token);
    const again = await refused(specOf("x"), token);
    expect(again.token).not.toBe(token);
    expect(again.message).toContain(`its present value ${token} does not confirm this change`);
    expect(spec).toEqual(specOf());
  });

  test("covers the objects that break: one more needs another confirmation", async () => {
    const { token } = await refused(specOf("x"));
    things.push({ metadata: { name: "two", uid: "2" } });
    expect((await refused(specOf("x"), token)).token).not.toBe(token);
    things = [{ metadata: { name: "one", uid: "again" } }];
    expect((await refused(specOf("x"), token)).token).not.toBe(token);
  });

  test("covers the definition in force, and the new one", async () => {
    const { token } = await refused(specOf("x"));
    expect((await refused(specOf("y"), token)).token).not.toBe(token);
    things[0] = { metadata: { name: "one", uid: "1" }, b: 1 } as never;
    spec = specOf("b");
    generation++;
    expect((await refused(specOf("b", "x"), token)).token).not.toBe(token);
  });

  test("goes on after a failure, though the definition in force is marked and more objects came meanwhile", async () => {
    const { token } = await refused(specOf("x"));
    isDown = true;
    await expect(ensure(specOf("x"), token)).rejects.toThrow(/503|ServiceUnavailable/);
    expect(annotations).toHaveProperty([MARK]);
    things.push({ metadata: { name: "two", uid: "2" } });
    // What is under way is this change alone.
    await refused(specOf("y"), token);
    isDown = false;
    await ensure(specOf("x"), token);
    expect(spec).toEqual(specOf("x"));
    expect(annotations).toEqual({});
  });
});
