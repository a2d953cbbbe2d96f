import { describe, expect, it } from "vitest";

import type { ApiRequest, KubeClient } from "../../src/kube/index.ts";
import { LockConfigMap } from "../../src/sources/lock.ts";
import type { LockEntry } from "../../src/sources/types.ts";

const DIGEST = `sha256:${"a".repeat(64)}`;
const ENTRY: LockEntry = { source: "s", version: "1.4.2", digest: DIGEST, verifiedBy: "ci.pub", at: 7 };
const FULL: LockEntry = {
  ...ENTRY,
  order: 10,
  enabled: false,
  isNew: true,
  isBack: true,
  removed: true,
  previous: { version: "1.4.1", digest: DIGEST },
  rejected: [DIGEST],
  rejectedFor: "x",
  chart: { from: "oci://charts.example.org", name: "web", unsigned: true, terms: { onFailure: "rollback" } },
  seen: { version: "1.5.0", digest: DIGEST, since: 1 },
};

function lockOf(): { lock: LockConfigMap; requests: ApiRequest[] } {
  const requests: ApiRequest[] = [];
  const json = (request: ApiRequest): Promise<unknown> => Promise.resolve(void requests.push(request));
  const client = { json } as unknown as KubeClient;
  return { lock: new LockConfigMap({ client, namespace: "ops", configMap: "addon-operator" }), requests };
}

const parsed = (data: Record<string, string>) => lockOf().lock.parse({ data, metadata: {} as never });

describe("an entry of the lock", () => {
  it.each([ENTRY, FULL])("is read as it was written: %j", (entry) => {
    const { entries, damaged } = parsed({ web: JSON.stringify(entry) });
    expect([entries.get("web"), damaged]).toEqual([entry, []]);
  });

  it.each<[string, Record<string, unknown>]>([
    ["an order that no directory has", { order: -1 }],
    ["no whole order", { order: 1.5 }],
    ["an order that is too large", { order: 1e9 }],
    ["a flag that is a text", { enabled: "false" }],
    ["a list that is none", { rejected: "all" }],
    ["digests that are none", { rejected: ["x"] }],
    ["a content that is none", { previous: { version: "1" } }],
    ["a time that is none", { seen: { version: "1", digest: DIGEST, since: "now" } }],
    ["keys of somebody else", { mood: "good" }],
  ])("is read without %s", (_, change) => {
    const { entries } = parsed({ web: JSON.stringify({ ...ENTRY, ...change }) });
    expect(entries.get("web")).toEqual(ENTRY);
  });

  it.each<[string, Record<string, string>]>([
    ["no JSON", { web: "{" }],
    ["no object", { web: "[]" }],
    ["no digest", { web: JSON.stringify({ ...ENTRY, digest: "sha256:A" }) }],
    ["a chart that is none", { web: JSON.stringify({ ...ENTRY, chart: { from: "https://a" } }) }],
    [
      "a chart with other settings",
      { web: JSON.stringify({ ...ENTRY, chart: { from: "a", name: "b", terms: 1 } }) },
    ],
    ["no time", { web: JSON.stringify({ ...ENTRY, at: null }) }],
    ["a name that no module has", { "values.yaml": JSON.stringify(ENTRY) }],
  ])("counts as damaged with %s", (_, data) => {
    const { entries, damaged } = parsed(data);
    expect([[...entries.keys()], damaged]).toEqual([[], Object.keys(data)]);
  });

  it("is not written if it is too large", async () => {
    const { lock, requests } = lockOf();
    await expect(lock.writeEntry("web", { ...ENTRY, version: "1".repeat(2048) })).rejects.toThrow(
      "its entry in the lock has more than 2048 characters",
    );
    expect(requests).toEqual([]);
    await lock.writeEntry("web", FULL);
    expect(requests).toHaveLength(1);
  });
});
