import { describe, expect, test } from "vitest";

import { decide, mayAdopt, determineReleaseOwner } from "../../src/helm/index.ts";
import { RELEASE_LABELS, listOrphans } from "../../src/helm/index.ts";
import type { AdoptPolicy, DecisionInput, ReleaseOwner, OrphanFacts } from "../../src/helm/index.ts";
import type { Module } from "../../src/base/model/index.ts";

const OURS = `v1-${"a".repeat(40)}`;
const OTHER = `v1-${"b".repeat(40)}`;
const labels = (managedBy: string, inputs = "v1-now"): Record<string, string> => ({
  [RELEASE_LABELS.managedBy]: managedBy,
  [RELEASE_LABELS.inputs]: inputs,
});

describe("decide", () => {
  const deployed = { status: "deployed", labels: labels(OURS) };
  test.each<[string, Partial<DecisionInput>, string]>([
    ["no release", { release: undefined }, "install: there is no release"],
    [
      "uninstalled",
      { release: { ...deployed, status: "uninstalled" } },
      "install: the release was uninstalled",
    ],
    ["equal inputs", {}, "keep"],
    ["equal inputs, but lookup", { usesOnlyLookup: true }, "compare: templates use lookup"],
    [
      "changed inputs",
      { release: { ...deployed, labels: labels(OURS, "v1-old") } },
      "compare: inputs changed",
    ],
    [
      "equal inputs by the digest of version 0.2",
      { release: { ...deployed, labels: labels(OURS, "v1-old") }, hasFormerDigest: true },
      "keep",
    ],
    [
      "no labels of ours",
      { release: { ...deployed, labels: {} } },
      "compare: the release has no labels of ours",
    ],
    [
      "labels of an older scheme",
      { release: { ...deployed, labels: labels("v0-x", "v0-y") } },
      "compare: the release has no labels of ours",
    ],
    ["failed", { release: { ...deployed, status: "failed" } }, "upgrade: the release is failed"],
    ["superseded", { release: { ...deployed, status: "superseded" } }, "upgrade: the release is superseded"],
    [
      "pending-install",
      { release: { ...deployed, status: "pending-install" } },
      "recover: the release is pending-install",
    ],
    [
      "pending-upgrade",
      { release: { ...deployed, status: "pending-upgrade" } },
      "recover: the release is pending-upgrade",
    ],
    [
      "pending-rollback",
      { release: { ...deployed, status: "pending-rollback" } },
      "recover: the release is pending-rollback",
    ],
    [
      "uninstalling",
      { release: { ...deployed, status: "uninstalling" } },
      "recover: the release is uninstalling",
    ],
  ])("%s", (_, change, expected) => {
    const evidence: DecisionInput = {
      release: deployed,
      inputsDigest: "v1-now",
      managedBy: OURS,
      usesOnlyLookup: false,
      ...change,
    };
    const decision = decide(evidence);
    expect("why" in decision ? `${decision.act}: ${decision.why}` : decision.act).toBe(expected);
  });
});

type Case = [who: string, found: Record<string, string>, hasGoOperatorMark: boolean, origin: ReleaseOwner];

test.each<Case>([
  ["ours", labels(OURS), false, "ours"],
  ["another operator's", labels(OTHER), false, "other"],
  [
    "another operator's, though once the Go operator's",
    { ...labels(OTHER), moduleChecksum: "x" },
    false,
    "other",
  ],
  ["of an older scheme", labels("v0-x"), false, "ours"],
  ["by hand", {}, false, "manual"],
  ["the Go operator's", { moduleChecksum: "x" }, false, "go"],
  ["an older Go operator's", {}, true, "go"],
])("origin of a release: %s", (...[, found, hasGoOperatorMark, origin]: Case) => {
  expect(determineReleaseOwner({ labels: found }, OURS, hasGoOperatorMark)).toBe(origin);
});

test.each<[AdoptPolicy, ReleaseOwner[]]>([
  ["all", ["ours", "go", "manual"]],
  ["go", ["ours", "go"]],
  ["none", ["ours"]],
])("--adopt=%s takes over what is %j", (policy, origins) => {
  const all: ReleaseOwner[] = ["ours", "other", "go", "manual"];
  expect(all.filter((origin) => mayAdopt(policy, origin))).toEqual(origins);
});

describe("listOrphans", () => {
  const releases = [
    { name: "gone", labels: labels(OURS) },
    { name: "here", labels: labels(OURS) },
    { name: "foreign", labels: {} },
    { name: "go", labels: { moduleChecksum: "x" } },
    { name: "other", labels: labels(OTHER) },
  ];
  const modules = [{ name: "here" } as Module];
  test.each<[string, Partial<OrphanFacts>, string[]]>([
    ["owned", {}, ["gone"]],
    ["all", { policy: "all" }, ["foreign", "go", "gone"]],
    ["off", { policy: "off" }, []],
    ["ignored", { policy: "all", excluded: new Set(["foreign"]) }, ["go", "gone"]],
    ["protected", { excluded: new Set(["gone"]) }, []],
  ])("%s", (_, change, names) => {
    const input: OrphanFacts = { releases, modules, policy: "owned", managedBy: OURS, excluded: new Set() };
    expect(listOrphans({ ...input, ...change })).toEqual(names);
  });
});
