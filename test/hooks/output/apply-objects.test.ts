import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { FilterEngine } from "../../../src/hooks/filter/index.ts";
import { applyObjects, parseObjectOperations } from "../../../src/hooks/index.ts";
import { CONFIG_MAPS, connect } from "../../../src/kube/index.ts";
import type { KubeClient } from "../../../src/kube/index.ts";
import { silentLogger } from "../../../src/base/index.ts";
import { readJson, type JsonObject } from "../../../src/base/model/index.ts";
import { Children } from "../../../src/base/process/index.ts";
import { ManualClock, settle } from "../../support/clock.ts";
import { FakeApi, status } from "../../support/fake-api.ts";
import type { Answer } from "../../support/fake-api.ts";

const MAPS = "/api/v1/namespaces/ns/configmaps";
const ONE = `${MAPS}/one`;
const object = (data: Record<string, string>, resourceVersion?: string) => ({
  apiVersion: "v1",
  kind: "ConfigMap",
  metadata: { name: "one", namespace: "ns", ...(resourceVersion && { resourceVersion }) },
  data,
});
const target = { kind: "cm", namespace: "ns", name: "one" };
const ok: Answer = { json: object({}) };
const conflict = status(409, "Conflict");
const exists = status(409, "AlreadyExists");

// docs/reference/hooks.md, "Objects"
describe("object patches", () => {
  let api: FakeApi;
  let client: KubeClient;
  let filters: FilterEngine;
  const clock = new ManualClock();
  beforeEach(async () => {
    api = await FakeApi.start();
    client = connect({ kubeConfig: api.kubeconfig(), userAgent: "test", logger: silentLogger });
    filters = new FilterEngine({
      children: new Children(),
      jqBin: undefined,
      env: process.env,
      clock,
      logger: silentLogger,
    });
  });
  afterEach(async () => {
    await client.close();
    filters.close();
    await api.close();
  });

  const resolve = (kind: string) => Promise.resolve(kind === "Nothing" ? undefined : CONFIG_MAPS);
  const apply = (...documents: object[]) =>
    applyObjects(
      { client, filters, clock, discovery: { resolve } },
      parseObjectOperations(documents.map((each) => JSON.stringify(each)).join("\n")),
    );
  const requested = () => api.requests.map(({ method, path }) => `${method} ${path}`);
  const bodies = () => api.requests.flatMap(({ body }) => (body === "" ? [] : [JSON.parse(body) as unknown]));

  test.each([
    ["Create", exists, /Create ConfigMap one: /],
    ["CreateIfNotExists", exists, undefined],
    ["CreateIfNotExists", status(403, "Forbidden"), /Forbidden/],
  ] as const)("%s meets %j", async (operation, answer, failure) => {
    api.on(`POST ${MAPS}`, answer);
    const result = await apply({ operation, object: object({ a: "1" }) }).catch(String);
    expect(result ?? "done").toMatch(failure ?? /^done$/);
    expect(bodies()).toEqual([object({ a: "1" })]);
    expect(api.requests[0]?.query["fieldManager"]).toBe("addon-operator");
  });

  test("an error of the API server says nothing of a Secret's content", async () => {
    const message = 'Secret "one" is invalid: stringData[pin]: Invalid value: "0pen-5esame": too short';
    api.on(`POST ${MAPS}`, { status: 422, json: { kind: "Status", reason: "Invalid", message } });
    const secret = { ...object({}), kind: "Secret", stringData: { pin: "0pen-5esame" } };
    const error = await apply({ operation: "Create", object: secret }).catch(String);
    expect(error).toMatch(/Create Secret one: .*too short/);
    expect(error).not.toContain("0pen-5esame");
  });

  test("CreateOrUpdate replaces the whole object under the version that is there, again after a conflict", async () => {
    api.on(`POST ${MAPS}`, exists);
    api.on(`GET ${ONE}`, { json: object({ old: "1" }, "7") }, { json: object({ old: "2" }, "8") });
    api.on(`PUT ${ONE}`, conflict, ok);
    await apply({ operation: "CreateOrUpdate", object: object({ a: "1" }) });
    expect(bodies().slice(1)).toEqual([object({ a: "1" }, "7"), object({ a: "1" }, "8")]);
  });

  test("a replace is given up after five conflicts, and at once after any other error", async () => {
    api.on(`GET ${ONE}`, { json: object({}, "7") });
    api.on(`PUT ${ONE}`, ...Array.from({ length: 5 }, () => conflict), status(403, "Forbidden"), ok);
    const patch = { operation: "JQPatch", ...target, jqFilter: '.data.a = "2"' };
    await expect(apply(patch)).rejects.toThrow(/Conflict/);
    expect(api.count(`PUT ${ONE}`)).toBe(5);
    await expect(apply(patch)).rejects.toThrow(/Forbidden/);
    expect(api.count(`PUT ${ONE}`)).toBe(6);
  });

  test.each([
    ["DeleteInBackground", "Background"],
    ["DeleteNonCascading", "Orphan"],
  ])("%s does not wait; what is not there is deleted", async (operation, propagationPolicy) => {
    api.on(`DELETE ${ONE}`, ok, status(404, "NotFound"));
    await apply({ operation, ...target });
    await apply({ operation, ...target });
    // Only the second answer that it is missing counts.
    expect(requested()).toEqual([`DELETE ${ONE}`, `DELETE ${ONE}`, `DELETE ${ONE}`]);
    expect(bodies()[0]).toMatchObject({ propagationPolicy });
  });

  test("Delete waits until the object is gone", async () => {
    api.on(`DELETE ${ONE}`, ok);
    api.on(`GET ${ONE}`, ok, ok, status(404, "NotFound"));
    const done = apply({ operation: "Delete", ...target });
    // In small steps: on a busy machine the answers are not to take longer than the 20 s that there are.
    while (api.count(`GET ${ONE}`) < 3) {
      await settle();
      await clock.advance(10);
    }
    await done;
    expect(bodies()[0]).toMatchObject({ propagationPolicy: "Foreground" });
  });

  test("Delete gives up after 20 s", async () => {
    api.on(`DELETE ${ONE}`, ok);
    api.on(`GET ${ONE}`, ok);
    const failures: string[] = [];
    const done = apply({ operation: "Delete", ...target }).catch((error: Error) => {
      failures.push(error.message);
    });
    while (failures.length === 0) {
      await settle();
      await clock.advance(2000);
    }
    await done;
    expect(failures[0]).toMatch(/Delete cm one: still exists after 20s/);
  });

  test("an abort ends the wait for a deletion, and no later operation starts", async () => {
    const abort = new AbortController();
    api.on(`DELETE ${ONE}`, ok);
    api.on(`GET ${ONE}`, ok);
    const operations = parseObjectOperations(
      `${JSON.stringify({ operation: "Delete", ...target })}\n${JSON.stringify({ operation: "Create", object: object({}) })}`,
    );
    const options = { client, filters, clock, discovery: { resolve }, signal: abort.signal };
    const done = applyObjects(options, operations).catch(String);
    while (api.count(`GET ${ONE}`) === 0) await settle();
    abort.abort(new Error("the operator stops"));
    expect(await done).toBe("Error: the operator stops");
    expect(api.count(`POST ${MAPS}`)).toBe(0);
  });

  test.each([
    ["MergePatch", { mergePatch: { data: { a: null } } }, "application/merge-patch+json"],
    ["JSONPatch", { jsonPatch: [{ op: "remove", path: "/data/a" }] }, "application/json-patch+json"],
  ])("%s patches, also a subresource", async (operation, patch, type) => {
    api.on(`PATCH ${ONE}`, ok);
    api.on(`PATCH ${ONE}/status`, ok);
    await apply(
      { operation, ...target, ...patch },
      { operation, ...target, ...patch, subresource: "/status" },
    );
    expect(requested()).toEqual([`PATCH ${ONE}`, `PATCH ${ONE}/status`]);
    expect(bodies()).toEqual([Object.values(patch)[0], Object.values(patch)[0]]);
    expect(api.requests[0]?.headers["content-type"]).toBe(type);
  });

  test.each(["MergePatch", "JSONPatch", "JQPatch"])("%s of a missing object", async (operation) => {
    const patch = { operation, ...target, mergePatch: {}, jsonPatch: [], jqFilter: "." };
    await expect(apply(patch)).rejects.toThrow(/one: .*NotFound/);
    await apply({ ...patch, ignoreMissingObject: true });
  });

  test("JQPatch replaces what the filter changed; an equal result is no write; no object is an error", async () => {
    api.on(`GET ${ONE}`, { json: object({ a: "1" }, "7") });
    api.on(`PUT ${ONE}`, conflict, ok);
    const patch = (jqFilter: string) => apply({ operation: "JQPatch", ...target, jqFilter });
    await patch(".");
    expect(requested()).toEqual([`GET ${ONE}`]);
    await patch('.data.a = "2"');
    expect(bodies()).toEqual([object({ a: "2" }, "7"), object({ a: "2" }, "7")]);
    await expect(patch(".data.a")).rejects.toThrow(/result is no object/);
  });

  test("numbers keep their text, also in what JQPatch replaces", async () => {
    const spec = '{"a":1234567890123456789,"b":[1.0,-0,0.12345678901234567890,1e999],"n":5}';
    const withNumbers = `{"kind":"A","metadata":{"resourceVersion":"7"},"spec":${spec}}`;
    api.on(`GET ${ONE}`, { json: readJson(withNumbers) });
    for (const call of [`PUT ${ONE}`, `PATCH ${ONE}`, `POST ${MAPS}`]) api.on(call, ok);
    const applyText = (text: string) =>
      applyObjects({ client, filters, clock, discovery: { resolve } }, parseObjectOperations(text));
    const named = '"kind":"cm","namespace":"ns","name":"one"';
    const labelled = `{"kind":"A","metadata":{"labels":{"a":"b"},"resourceVersion":"7"},"spec":${spec}}`;
    await applyText(`{"operation":"MergePatch",${named},"mergePatch":${spec}}`);
    await applyText(
      `{"operation":"JSONPatch",${named},"jsonPatch":[{"op":"add","path":"/a","value":${spec}}]}`,
    );
    await applyText(
      `{"operation":"Create","object":{"apiVersion":"v1","kind":"cm","metadata":{"name":"one","namespace":"ns"},"spec":${spec}}}`,
    );
    await applyText(`{"operation":"JQPatch",${named},"jqFilter":".metadata.labels.a = \\"b\\""}`);
    await applyText(`{"operation":"JQPatch",${named},"jqFilter":"del(.none)"}`);
    const sent = api.requests.map(({ body }) => body).filter((body) => body !== "");
    expect(sent).toEqual([
      spec,
      `[{"op":"add","path":"/a","value":${spec}}]`,
      `{"apiVersion":"v1","kind":"cm","metadata":{"name":"one","namespace":"ns"},"spec":${spec}}`,
      labelled,
    ]);
  });

  test("JQPatch refuses to write a number that jq has rounded, in a text or where it cannot be restored", async () => {
    const spec = { a: 1, b: 2, c: "1234567890123456800" };
    const text = JSON.stringify({ kind: "A", metadata: {}, spec }).replace(
      '"a":1,"b":2',
      '"a":1234567890123456789,"b":1234567890123456790',
    );
    api.on(`GET ${ONE}`, { json: readJson(text) });
    const patch = (jqFilter: string) => apply({ operation: "JQPatch", ...target, jqFilter });
    const isExact = (await filters.compile("[.a] | map(tostring)")).evaluate(
      readJson('{"a":1234567890123456789}') as JsonObject,
    );
    if (JSON.stringify(await isExact).includes("789")) return;
    await expect(patch(".spec.d = .spec.a")).rejects.toThrow(
      "jq has rounded a number of the object, which the filter puts at /spec/d",
    );
    await expect(patch('.spec.d = "id-\\(.spec.b)"')).rejects.toThrow("at /spec/d; use MergePatch");
  });

  test("failures are collected, the rest is tried", async () => {
    api.on(`POST ${MAPS}`, ok);
    const done = apply(
      { operation: "MergePatch", kind: "Nothing", name: "x", mergePatch: {} },
      { operation: "MergePatch", ...target, mergePatch: {} },
      { operation: "Create", object: object({}) },
    );
    await expect(done).rejects.toThrow(/MergePatch Nothing x: .*knows no.*; MergePatch cm one: /);
    expect(requested()).toEqual([`PATCH ${ONE}`, `PATCH ${ONE}`, `POST ${MAPS}`]);
  });
});
