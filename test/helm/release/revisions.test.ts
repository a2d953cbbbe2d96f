import { createHash } from "node:crypto";
import { expect, it } from "vitest";

import {
  parseReleaseMeta,
  toArtifactLabel,
  readArtifactDigest,
  RELEASE_LABELS,
} from "../../../src/helm/release/revisions.ts";

// The label that names the artifact of a registry (docs/reference/status.md, "Labels and annotations").

const digests = Array.from(
  { length: 1000 },
  (_, seed) => `sha256:${createHash("sha256").update(`${seed}`).digest("hex")}`,
);

it("a digest is a valid label, and can be read again", () => {
  for (const digest of digests) {
    const label = toArtifactLabel(digest);
    expect(label).toMatch(/^[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$/);
    expect(readArtifactDigest({ labels: { [RELEASE_LABELS.artifact]: label } })).toBe(digest);
  }
});

it("without the label, or with one of another kind, nothing is known", () => {
  expect(readArtifactDigest({ labels: {} })).toBeUndefined();
  expect(readArtifactDigest({ labels: { [RELEASE_LABELS.artifact]: "sha512.x" } })).toBeUndefined();
});

it.each([
  ["7", 7],
  ["9007199254740991", 9_007_199_254_740_991],
  ["9007199254740992", undefined],
  ["99999999999999999999", undefined],
  ["1e3", undefined],
])("a Secret with the label version=%s has the revision %s", (version, revision) => {
  const labels = { owner: "helm", name: "web", status: "deployed", version };
  const secret = { apiVersion: "v1", kind: "Secret", metadata: { name: "any", namespace: "team", labels } };
  expect(parseReleaseMeta(secret)?.revision).toBe(revision);
});
