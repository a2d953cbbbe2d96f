import { describe, expect, test } from "vitest";

import { BrokenRecordError } from "../../../src/helm/binary/helm-errors.ts";
import { summarize, SummaryCache, type ReleaseRecord } from "../../../src/helm/release/record.ts";
import type { ReleaseMeta } from "../../../src/helm/release/revisions.ts";

const MIB = 1024 * 1024;

function record(manifest: string): ReleaseRecord {
  const times = { chartVersion: "1.0.0", lastDeployed: undefined, description: undefined };
  return { manifest, hooks: [], config: {}, applyMethod: "ssa", ...times };
}

const documents = (count: number, text: (index: number) => string): string =>
  Array.from({ length: count }, (_, index) => `---\n${text(index)}\n`).join("");
const configMap = (index: number): string => `{apiVersion: v1, kind: ConfigMap, metadata: {name: c${index}}}`;
const ofKind = (index: number): string => `{apiVersion: g/v1, kind: K${index}, metadata: {name: a}}`;
const inNamespace = (index: number): string =>
  `{apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: n${index}}}`;

describe("a record that needs too much work is broken", () => {
  test.each([
    ["a large document", `a: "${"a".repeat(4 * MIB)}"`, "a document of more than 4 MiB"],
    ["documents without objects", "---\n".repeat(10_001), "more than 10000 documents"],
    ["objects", documents(5001, configMap), "more than 5000 objects"],
    ["kinds", documents(301, ofKind), "more than 300 kinds of objects"],
    ["namespaces", documents(301, inNamespace), "more than 300 kinds of objects"],
  ])("%s", async (_, manifest, message) => {
    await expect(summarize(record(manifest))).rejects.toThrow(message);
  });

  test("the largest release is readable, and other work goes on meanwhile", async () => {
    let turns = 0;
    const counter = setInterval(() => (turns += 1), 1);
    const summary = await summarize(record(documents(5000, configMap)));
    clearInterval(counter);
    expect(summary.objects).toHaveLength(5000);
    expect(turns).toBeGreaterThan(5);
  });
});

test("a broken record is read again only after a change of its Secret", async () => {
  const meta = { name: "m", uid: "u", resourceVersion: "1" } as ReleaseMeta;
  const versions: string[] = [];
  const cache = new SummaryCache(async ({ resourceVersion }) => {
    versions.push(resourceVersion);
    throw new BrokenRecordError({ namespace: "ns", secret: "s" }, "it is too large");
  });
  for (const resourceVersion of ["1", "1", "2"])
    await expect(cache.read({ ...meta, resourceVersion })).rejects.toThrow("it is too large");
  expect(versions).toEqual(["1", "2"]);
});
