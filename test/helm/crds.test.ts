import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { beforeEach, describe, expect, onTestFinished, test } from "vitest";

import { ensureCrds } from "../../src/helm/index.ts";
import { connect } from "../../src/kube/index.ts";
import { silentLogger } from "../../src/lib/index.ts";
import type { Clock } from "../../src/lib/index.ts";
import { FakeApi, status } from "../support/fake-api.ts";

// docs/MODULES.md, "The chart": when the kinds of a CRD count as there.

/** Time passes where it is waited for, and nowhere else. */
class WaitingClock implements Clock {
  #now = 0;
  now = (): number => this.#now;
  monotonic = (): number => this.#now;
  setTimer(ms: number, fn: () => void): { cancel: () => void } {
    const immediate = setImmediate(() => {
      this.#now += ms;
      fn();
    });
    return { cancel: () => clearImmediate(immediate) };
  }
}

const NAME = "things.example.org";
const CRD = `/apis/apiextensions.k8s.io/v1/customresourcedefinitions/${NAME}`;
const THINGS = "/apis/example.org/v1/things";
const definition = {
  apiVersion: "apiextensions.k8s.io/v1",
  kind: "CustomResourceDefinition",
  metadata: { name: NAME },
  spec: { group: "example.org", names: { plural: "things" }, versions: [{ name: "v1", served: true }] },
};
const withCondition = (type: string, value: string, message = ""): { json: unknown } => ({
  json: { ...definition, status: { conditions: [{ type, status: value, message }] } },
});

let api: FakeApi;
let clock: WaitingClock;
let ensure: () => Promise<string[]>;
beforeEach(async () => {
  api = await FakeApi.start();
  clock = new WaitingClock();
  const dir = mkdtempSync(join(tmpdir(), "crds-"));
  const file = join(dir, "crd.yaml");
  writeFileSync(file, JSON.stringify(definition));
  const client = connect({ kubeConfig: api.kubeconfig(), userAgent: "test", logger: silentLogger });
  ensure = () => ensureCrds([file], { client, clock });
  onTestFinished(async () => {
    await client.close();
    await api.close();
    rmSync(dir, { recursive: true });
  });
  api.on(`PATCH ${CRD}`, { json: definition });
});

/** Established and served after so much time. */
function slowServer(ms: number): void {
  const late = (): boolean => clock.monotonic() < ms;
  api.on(`GET ${CRD}`, () => withCondition("Established", late() ? "False" : "True"));
  api.on(`GET ${THINGS}`, () => (late() ? status(404, "NotFound") : { json: { items: [] } }));
}

describe("CRDs", () => {
  test("of a busy API server are waited for, without reading large definitions all the time", async () => {
    slowServer(45_000);
    expect(await ensure()).toEqual([NAME]);
    expect(clock.monotonic()).toBeGreaterThanOrEqual(45_000);
    expect(api.count(`GET ${CRD}`)).toBeLessThan(60);
  });

  test("that are served soon are noticed soon", async () => {
    slowServer(200);
    await ensure();
    expect(clock.monotonic()).toBeLessThan(400);
  });

  test("that are not served within a minute fail, to be tried again", async () => {
    slowServer(Infinity);
    await expect(ensure()).rejects.toThrow(`CRD ${NAME} is not served after 60s`);
  });

  test("whose names are taken fail at once, with what the server says", async () => {
    api.on(`GET ${CRD}`, withCondition("NamesAccepted", "False", '"Thing" is already in use'));
    await expect(ensure()).rejects.toThrow(
      `CRD ${NAME}: its names are not accepted: "Thing" is already in use`,
    );
    expect(clock.monotonic()).toBeLessThan(100);
  });
});
