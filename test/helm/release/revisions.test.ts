import { createHash } from "node:crypto";
import { expect, it } from "vitest";

import { toArtifactLabel, readArtifactDigest, RELEASE_LABELS } from "../../../src/helm/release/revisions.ts";

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
