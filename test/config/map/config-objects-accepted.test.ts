import { gzipSync } from "node:zlib";
import { describe, expect, it } from "vitest";

import { ApiError } from "../../../src/kube/index.ts";
import type { ApiRequest, KubeClient } from "../../../src/kube/index.ts";
import { AcceptedConfig } from "../../../src/config/index.ts";
import { ManualClock } from "../../support/clock.ts";
import { keepLog, type LoggedLine } from "../../support/logged.ts";

// docs/guides/running.md, "An invalid ConfigMap".

const SECRET = "hunter2";

const failure = (status: number, reason: string) => new ApiError({ status, reason, message: reason });

function world(stored?: Record<string, string>) {
  const lab = { stored, requests: [] as ApiRequest[], fails: false, logged: [] as LoggedLine[] };
  const client = {
    json: (request: ApiRequest) => {
      if (lab.fails) return Promise.reject(failure(503, "ServiceUnavailable"));
      if (request.method === "GET" || request.method === undefined)
        return lab.stored === undefined
          ? Promise.reject(failure(404, "NotFound"))
          : Promise.resolve({ metadata: {}, data: lab.stored });
      if (request.method === "PATCH" && lab.stored === undefined)
        return Promise.reject(failure(404, "NotFound"));
      lab.requests.push(request);
      lab.stored = (request.body as { data: Record<string, string> }).data;
      return Promise.resolve({});
    },
  } as unknown as KubeClient;
  const clock = new ManualClock(0);
  const place = { client, clock, logger: keepLog(lab.logged), namespace: "ops", name: "cm" };
  return { lab, clock, accepted: new AcceptedConfig(place) };
}

describe("content that was accepted", () => {
  it("is read back as it was kept, and written once", async () => {
    const { lab, clock, accepted } = world();
    const content = { data: { app: `password: ${SECRET}` }, overlay: { app: "a: 1" } };
    expect(await accepted.read()).toBeUndefined();
    accepted.save(content);
    await clock.advance(0);
    await expect.poll(() => accepted.read()).toEqual(content);
    accepted.save(content);
    await clock.advance(0);
    accepted.save({ data: {}, overlay: undefined });
    await clock.advance(0);
    await expect.poll(() => accepted.read()).toEqual({ data: {} });
    expect(lab.requests.map(({ method }) => method)).toEqual(["POST", "PATCH"]);
  });

  it("is written again until that succeeds, the newest only, and never logged", async () => {
    const { lab, clock, accepted } = world();
    lab.fails = true;
    accepted.save({ data: { app: SECRET }, overlay: undefined });
    await clock.advance(0);
    await expect.poll(() => lab.logged).toHaveLength(1);
    accepted.save({ data: { app: "b" }, overlay: undefined });
    lab.fails = false;
    await clock.advance(10_000);
    await expect.poll(() => accepted.read()).toEqual({ data: { app: "b" } });
    expect(lab.requests).toHaveLength(1);
    expect(JSON.stringify(lab.logged)).not.toContain(SECRET);
  });

  it.each([
    ["is no archive", SECRET],
    ["is no JSON", gzipSync(SECRET).toString("base64")],
    ["is something else", gzipSync(`{"data": {"app": {"is": "${SECRET}"}}}`).toString("base64")],
  ])("is refused without a word of it when it %s", async (_, text) => {
    const { accepted } = world({ "content.json.gz": text });
    const error = await accepted.read().catch(String);
    expect(error).toBe(
      "Error: Secret addon-operator-cm-accepted: its content.json.gz cannot be read; delete the Secret",
    );
  });
});
