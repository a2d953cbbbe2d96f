import { beforeEach, expect, onTestFinished, test } from "vitest";

import { ApiError, connect, findServedVersion } from "../../../src/kube/index.ts";
import type { KubeClient } from "../../../src/kube/index.ts";
import { silentLogger } from "../../../src/base/index.ts";
import { FakeApi, status } from "../../support/fake-api.ts";

let api: FakeApi;
let client: KubeClient;
beforeEach(async () => {
  api = await FakeApi.start();
  client = connect({ kubeConfig: api.kubeconfig(), userAgent: "test", logger: silentLogger });
  onTestFinished(async () => {
    await client.close();
    await api.close();
  });
});

const find = (kind: string, apiVersion: string): Promise<string | undefined> =>
  findServedVersion({ kind, apiVersion }, { client });

/** The versions of the group `g.io` that are served, each with its kinds; the first one is preferred. */
function serve(versions: Readonly<Record<string, readonly string[]>>): void {
  const names = Object.keys(versions).map((version) => ({ groupVersion: `g.io/${version}` }));
  api.on("GET /apis/g.io", { json: { versions: names.toReversed(), preferredVersion: names[0] } });
  for (const [version, kinds] of Object.entries(versions))
    api.on(`GET /apis/g.io/${version}`, {
      json: { resources: kinds.map((kind) => ({ name: kind.toLowerCase(), kind })) },
    });
}

test("a kind is found in its version, else in the preferred one that has it", async () => {
  serve({ v2: ["Thing", "New"], v1: ["Thing", "Old"], v3: ["Thing"] });
  expect(await find("Old", "g.io/v1")).toBe("g.io/v1");
  expect(await find("New", "g.io/v1")).toBe("g.io/v2");
  expect(await find("Thing", "g.io/v1beta1")).toBe("g.io/v2");
  expect(await find("Gone", "g.io/v1")).toBeUndefined();
  expect(await find("Thing", "other.io/v1")).toBeUndefined();
});

test.each([401, 403, 500, 503])("a server that answers %i says nothing about its kinds", async (code) => {
  serve({ v1: ["Thing"] });
  api.on("GET /apis/down.io/v1", status(code, "Failed"));
  await expect(find("Thing", "down.io/v1")).rejects.toThrow(ApiError);
  api.on("GET /apis/g.io/v1", status(code, "Failed"));
  await expect(find("Thing", "g.io/v1beta1")).rejects.toThrow(ApiError);
});
