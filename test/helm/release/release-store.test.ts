import { expect, test } from "vitest";

import { ReleaseStore } from "../../../src/helm/index.ts";
import type { KubeClient, WatchConsumer, WatchedObject } from "../../../src/kube/index.ts";
import { silentLogger } from "../../../src/base/index.ts";

const secret = (revision: number, resourceVersion: string, status: string): WatchedObject => ({
  apiVersion: "v1",
  kind: "Secret",
  metadata: {
    name: `sh.helm.release.v1.app.v${revision}`,
    namespace: "ops",
    uid: `u${revision}`,
    resourceVersion,
    labels: { owner: "helm", name: "app", version: `${revision}`, status },
  },
});

/** A store whose client sends nothing, and the end of its watch. */
function storeOf() {
  let watch: WatchConsumer | undefined;
  const store = new ReleaseStore({
    client: {} as KubeClient,
    hub: {
      subscribe: (_, consumer) => {
        watch = consumer;
        return { whenSynced: Promise.resolve(), close: () => {} };
      },
    },
    namespace: "ops",
    logger: silentLogger,
  });
  return { store, watch };
}

test("the records of releases are believed as a server has them that was put back to an earlier state", () => {
  const { store, watch } = storeOf();
  const known = (): string[] => store.revisions("app").map((meta) => `${meta.revision} ${meta.status}`);
  void watch?.onListed(secret(1, "60", "superseded"));
  void watch?.onListed(secret(2, "61", "deployed"));
  void watch?.onApplied(secret(1, "50", "deployed"));
  expect(known()).toEqual(["2 deployed", "1 superseded"]);
  watch?.onEtcdRestored?.();
  void watch?.onApplied(secret(1, "50", "deployed"));
  void watch?.onDeleted({ ...secret(2, "55", "") }, false);
  expect(known()).toEqual(["1 deployed"]);
});

test("a revision that the watch has reported as deployed is not read again", async () => {
  const { store, watch } = storeOf();
  await watch?.onApplied(secret(1, "50", "deployed"));
  expect(await store.readDeployedRevision("app", 1)).toMatchObject({ uid: "u1" });
  await watch?.onApplied(secret(2, "60", "pending-upgrade"));
  await expect(store.readDeployedRevision("app", 2)).rejects.toThrow("not a function");
});
