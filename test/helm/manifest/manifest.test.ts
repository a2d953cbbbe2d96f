import { gzipSync } from "node:zlib";
import { describe, expect, test } from "vitest";

import { parseDocuments, manifestChecksum } from "../../../src/helm/index.ts";
import { listLastingObjects } from "../../../src/helm/manifest/manifest.ts";
import { adoptionChecksum } from "../../../src/helm/manifest/manifest.ts";
import { decodeRelease, changeEncodedRecord } from "../../../src/helm/release/record.ts";

const A = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n";
const B = "apiVersion: v1\nkind: Secret\nmetadata:\n  name: b\n";
const LABELLED =
  "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n  labels: {heritage: addon-operator}\n";

describe("manifestChecksum", () => {
  const checksum = (parts: string[]): string => manifestChecksum(parts.flatMap(parseDocuments));
  type Case = [what: string, one: string[], other: string[], equal: boolean];
  test.each<Case>([
    ["comments, separators and order", [`---\n# Source: x\n${A}---\n${B}`], [B, `---\n${A}\n`], true],
    ["order of keys", [A], ["kind: ConfigMap\nmetadata: {name: a}\napiVersion: v1"], true],
    ["a value", [A], [A.replace("name: a", "name: c")], false],
    ["an added document", [A], [A, B], false],
    ["a string that looks like a separator", ["a: |\n  ---\n  b"], ["a: |\n  ---\n  c"], false],
    ["heritage counts among ours", [A], [LABELLED], false],
  ])("%s", (...[, one, other, equal]: Case) => {
    expect(checksum(one) === checksum(other)).toBe(equal);
  });

  test("heritage does not count when a release is adopted", () => {
    expect(adoptionChecksum(parseDocuments(A))).toBe(adoptionChecksum(parseDocuments(LABELLED)));
    expect(adoptionChecksum(parseDocuments(A))).not.toBe(adoptionChecksum(parseDocuments(B)));
  });
});

test("objects to be healed: no hooks, no delete policies, no Jobs with a TTL", () => {
  const annotated = (name: string) =>
    `apiVersion: v1\nkind: Pod\nmetadata: {name: p, annotations: {${name}: x}}\n`;
  const job = (spec: string) =>
    `apiVersion: batch/v1\nkind: Job\nmetadata: {name: j, namespace: ns}\nspec: {${spec}}\n`;
  const list = `apiVersion: v1\nkind: List\nitems: [{apiVersion: v1, kind: Service, metadata: {name: s}}]\n`;
  const documents = [
    annotated("helm.sh/hook"),
    annotated("helm.sh/hook-delete-policy"),
    job("ttlSecondsAfterFinished: 0"),
    job(""),
    list,
  ];
  expect(listLastingObjects(parseDocuments(documents.join("---\n"))).map(({ ref }) => ref)).toEqual([
    { apiVersion: "batch/v1", kind: "Job", name: "j", namespace: "ns" },
    { apiVersion: "v1", kind: "Service", name: "s", namespace: undefined },
  ]);
});

describe("release records", () => {
  test("another manifest leaves the rest of a record as it is", async () => {
    const data = Buffer.from(gzipSync(JSON.stringify(release)).toString("base64")).toString("base64");
    const changed = await decodeRelease(
      await changeEncodedRecord(data, { mapManifests: (text, isHook) => (isHook ? text : "x") }),
    );
    expect(changed).toEqual({ ...(await decodeRelease(data)), manifest: "x" });
  });

  const release = {
    name: "m",
    info: { status: "pending-install", notes: "n", last_deployed: "2026-01-02T04:04:05.678901234+01:00" },
    chart: { metadata: { version: "1.2.3" } },
    manifest: A,
    hooks: [
      {
        manifest: B,
        kind: "Secret",
        name: "b",
        events: ["pre-install"],
        delete_policies: ["hook-failed"],
      },
    ],
    config: { a: 1 },
    apply_method: "ssa",
  };
  const twice = (bytes: Buffer) => Buffer.from(bytes.toString("base64")).toString("base64");

  test.each([
    ["packed", twice(gzipSync(JSON.stringify(release)))],
    ["plain", twice(Buffer.from(JSON.stringify(release)))],
  ])("%s", async (_, data) => {
    expect(await decodeRelease(data)).toEqual({
      manifest: A,
      hooks: [
        {
          manifest: B,
          object: "Secret/b",
          events: ["pre-install"],
          phase: undefined,
          startedAt: undefined,
          deletePolicies: ["hook-failed"],
        },
      ],
      config: { a: 1 },
      chartVersion: "1.2.3",
      lastDeployed: Date.UTC(2026, 0, 2, 3, 4, 5, 678),
      applyMethod: "ssa",
    });
  });

  test("that unpacks to more than any of helm's is refused", async () => {
    const bomb = twice(gzipSync(Buffer.alloc(65 * 1024 * 1024)));
    await expect(decodeRelease(bomb)).rejects.toThrow("it cannot be unpacked");
  });

  test("marked failed, the rest as it was", async () => {
    const failed = await changeEncodedRecord(twice(gzipSync(JSON.stringify(release))), {
      info: { status: "failed", description: "why" },
    });
    const plain = Buffer.from(Buffer.from(failed, "base64").toString("latin1"), "base64");
    const { gunzipSync } = await import("node:zlib");
    expect(JSON.parse(gunzipSync(plain).toString())).toEqual({
      ...release,
      info: { ...release.info, status: "failed", description: "why" },
    });
  });
});
