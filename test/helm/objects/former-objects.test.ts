import { expect, test } from "vitest";

import { handleFormerObjects } from "../../../src/helm/objects/former-objects.ts";
import type { Reconciler } from "../../../src/helm/types.ts";
import { CONFIG_MAPS } from "../../../src/kube/index.ts";
import { fake } from "../../kube/fixture.ts";
import { status, type Answer } from "../../support/fake-api.ts";
import { keepLog, type LoggedLine } from "../../support/logged.ts";

const PATH = "/api/v1/namespaces/ops/configmaps/old";
const OWN = { "meta.helm.sh/release-name": "app", "meta.helm.sh/release-namespace": "ops" };
const ref = (name: string, apiVersion = "v1", namespace?: string) => ({
  apiVersion,
  kind: "ConfigMap",
  name,
  namespace,
});

/** Fails so many times at first. */
function failing<T>(times: number, work: () => T): () => T | Answer {
  return () => (times-- > 0 ? status(500, "InternalError") : work());
}

async function leave(
  metadata: object | undefined,
  installed = [ref("new")],
  { releaseStatus = "deployed", failures = 0 } = {},
): Promise<{ deleted: number; log: string; watched: string[] }> {
  const { api, client } = await fake();
  const logged: LoggedLine[] = [];
  const watched: string[] = [];
  if (metadata !== undefined)
    api.on(
      `GET ${PATH}`,
      failing(failures, () => ({ json: { metadata: { name: "old", uid: "u", ...metadata } } })),
    );
  api.on(
    `DELETE ${PATH}`,
    failing(failures, () => ({ json: {} })),
  );
  const summary = failing(failures, () => ({ objects: installed }));
  const readSummary = async () => {
    const found = summary();
    if (!("objects" in found)) throw new Error("no answer");
    return found;
  };
  const tools = {
    client,
    // Delays take no time.
    clock: {
      setTimer: (_: number, fn: () => void) => {
        const immediate = setImmediate(fn);
        return { cancel: () => clearImmediate(immediate) };
      },
    },
    namespace: "ops",
    discovery: { resolve: () => Promise.resolve({ ...CONFIG_MAPS, verbs: ["get", "delete"] }) },
    logger: keepLog(logged),
    store: { get: () => ({ status: releaseStatus }), readSummary },
    watchFormerObjects: (_: string, objects: { name: string }[]) =>
      watched.push(...objects.map(({ name }) => name)),
  } as unknown as Reconciler;
  const { signal } = new AbortController();
  await handleFormerObjects(tools, "app", { recorded: [ref("old"), ref("new")], signal });
  return { deleted: api.count(`DELETE ${PATH}`), log: JSON.stringify(logged), watched };
}

test("an object that helm left is deleted, and the log says so", async () => {
  const { deleted, log, watched } = await leave({ annotations: OWN });
  expect(deleted).toBe(1);
  expect(watched).toEqual(["old"]);
  expect(log).toContain("An object that helm left is deleted");
});

test("an object that helm left is deleted although the API server fails for a moment", async () => {
  const { deleted, log, watched } = await leave({ annotations: OWN }, [ref("new")], { failures: 2 });
  expect(deleted).toBe(3);
  expect(watched).toEqual(["old"]);
  expect(log).toContain("An object that helm left is deleted");
  expect(log).not.toContain("cannot");
});

test("an object whose deletion fails again and again is watched, and the log says so", async () => {
  const { log, watched } = await leave({ annotations: OWN }, [ref("new")], { failures: 4 });
  expect(watched).toEqual(["old"]);
  expect(log).toContain("An object that helm left cannot be deleted");
});

test.each([
  ["is gone", undefined],
  ["belongs to another release", { annotations: { ...OWN, "meta.helm.sh/release-name": "other" } }],
  ["belongs to nobody", { annotations: {} }],
  ["must be kept", { annotations: { ...OWN, "helm.sh/resource-policy": "keep" } }],
])("an object that %s is left alone", async (_, metadata) => {
  expect(await leave(metadata)).toEqual({ deleted: 0, log: "[]", watched: [] });
});

test("an object that is being deleted is watched", async () => {
  const metadata = { annotations: OWN, deletionTimestamp: "2026-01-01T00:00:00Z" };
  expect(await leave(metadata)).toEqual({ deleted: 0, log: "[]", watched: ["old"] });
});

test("helm leaves nothing of a release that is removed", async () => {
  const { deleted, watched } = await leave({ annotations: OWN }, [ref("old"), ref("new")], {
    releaseStatus: "uninstalled",
  });
  expect([deleted, watched]).toEqual([1, ["old"]]);
});

test.each([
  ["another version", ref("old", "v2")],
  ["its namespace", ref("old", "v1", "ops")],
])("an object that the installed revision names with %s is left alone", async (_, object) => {
  expect(await leave({ annotations: OWN }, [object])).toEqual({ deleted: 0, log: "[]", watched: [] });
});
