import { describe, expect, it } from "vitest";

import { toApproval, parseVersionTags, chooseContent } from "../../../src/sources/leader/choose.ts";
import { serializeRequest } from "../../../src/sources/leader/entry-marks.ts";
import type {
  CandidateVersion,
  Choice,
  ChoiceInput,
  ResolvedCandidate,
  LockEntry,
  ModuleRequest,
} from "../../../src/sources/types.ts";
import { isInRange, isOlderVersion } from "../../../src/base/index.ts";

type Policy = NonNullable<ChoiceInput["update"]>;

const HOUR = 3_600_000;
/** A Tuesday. */
const NOW = Date.UTC(2026, 10, 24, 12);
const POLICY: Policy = { approval: "auto", windows: [], minAgeMs: 0 };

/** A digest that begins with these digits. */
const digest = (digits: string): string => `sha256:${digits.padEnd(64, "0")}`;
const complete = (version: string, digits = "1", tag?: string): ResolvedCandidate => ({
  version,
  tag,
  digest: digest(digits),
});
const locked = (version: string, change: Partial<LockEntry> = {}): LockEntry => ({
  source: "s",
  version,
  digest: digest("a"),
  verifiedBy: "k",
  at: 0,
  ...change,
});

interface Case {
  readonly request: ModuleRequest;
  readonly locked?: LockEntry;
  /** Versions are tags that nobody has asked for yet. */
  readonly offers?: readonly (string | CandidateVersion)[];
  readonly update?: Partial<Policy>;
  readonly approved?: string;
}

const inputOf = ({ request, locked: lock, offers = [], update, approved }: Case): ChoiceInput => ({
  request,
  locked: lock,
  candidates: offers.flatMap((each) => (typeof each === "string" ? parseVersionTags([each]) : [each])),
  update: update === undefined ? undefined : { ...POLICY, ...update },
  approved,
  now: NOW,
  timeZone: "UTC",
});

/** A choice in short: `apply 1.4.2`, `wait 1.4.2: REASON`. */
function told(choice: Choice): string {
  if (choice.kind === "keep") return choice.reason === undefined ? "keep" : `keep: ${choice.reason}`;
  const { version, digest: by } = choice.candidate;
  const what = `${choice.kind} ${version ?? by?.slice(7, 8) ?? "?"}`;
  if (choice.kind !== "wait") return what;
  const hours = choice.until === undefined ? "" : ` (${(choice.until - NOW) / HOUR}h)`;
  return `${what}: ${choice.reason}${hours}`;
}

const OLDER = /is older than .* modules do not go back by themselves/;

describe("which content", () => {
  it.each<[string, Case, string]>([
    [
      "the highest version of a range",
      { request: { version: "~1.4" }, offers: ["1.4.9", "1.4.10", "1.5.0", "stable"] },
      "resolve 1.4.10",
    ],
    [
      "a tag whose digest is known",
      { request: { version: "~1.4" }, offers: [complete("1.4.10")] },
      "apply 1.4.10",
    ],
    [
      "what is locked is not asked for",
      { request: { version: "~1.4" }, locked: locked("1.4.10"), offers: ["1.4.9", "1.4.10"] },
      "keep",
    ],
    [
      "no version in the range",
      { request: { version: "^9" }, offers: ["1.0.0"] },
      "keep: the registry has no version in the range ^9",
    ],
    [
      "an empty list",
      { request: { version: "*" }, locked: locked("1.0.0") },
      "keep: the registry has no version in the range *",
    ],
    ["no pre-release", { request: { version: "^1.4" }, offers: ["1.4.1", "1.5.0-rc.1"] }, "resolve 1.4.1"],
    [
      "a pre-release that the range names",
      { request: { version: "^1.5.0-rc.0" }, offers: ["1.4.1", "1.5.0-rc.1"] },
      "resolve 1.5.0-rc.1",
    ],
    ["_ is +", { request: { version: "1.4.x" }, offers: ["1.4.2_build.5"] }, "resolve 1.4.2+build.5"],
    [
      "of equal versions the last tag",
      { request: { version: "1.4.x" }, offers: ["1.4.2_b", "1.4.2_c", "1.4.2_a"] },
      "resolve 1.4.2+c",
    ],
    [
      "of equal versions what is locked",
      { request: { version: "1.4.x" }, locked: locked("1.4.2+a"), offers: ["1.4.2_b", "1.4.2_a", "1.4.2_c"] },
      "keep",
    ],
    ["an exact version", { request: { version: "1.4.2" }, offers: ["1.4.2"] }, "resolve 1.4.2"],
    [
      "an exact version that is locked",
      { request: { version: "1.4.2" }, locked: locked("1.4.2"), offers: ["1.4.2"] },
      "keep",
    ],
    [
      "an exact version only",
      { request: { version: "1.4.2" }, offers: ["1.4.3", "1.4.2_b"] },
      "keep: the registry has no version 1.4.2",
    ],
    ["a digest", { request: { digest: digest("1") } }, "resolve 1"],
    ["a digest and its version", { request: { digest: digest("1"), version: "2.0.1" } }, "apply 2.0.1"],
    [
      "a digest that is locked",
      { request: { digest: digest("a"), version: "2.0.1" }, locked: locked("2.0.1") },
      "keep",
    ],
    [
      "a channel",
      { request: { tag: "stable" }, offers: [{ version: undefined, tag: "stable", digest: digest("1") }] },
      "resolve 1",
    ],
    [
      "a channel that has not moved",
      {
        request: { tag: "stable" },
        locked: locked("1.0.0"),
        offers: [{ version: undefined, tag: "stable", digest: digest("a") }],
      },
      "keep",
    ],
    [
      "a channel of another name",
      { request: { tag: "stable" }, offers: [complete("1.0.0", "1", "edge")] },
      "keep: the registry has no tag stable",
    ],
    [
      "a channel that has moved",
      { request: { tag: "stable" }, locked: locked("1.0.0"), offers: [complete("1.1.0", "1", "stable")] },
      "apply 1.1.0",
    ],
    [
      "a channel with other content of the same version",
      { request: { tag: "stable" }, locked: locked("1.0.0"), offers: [complete("1.0.0", "1", "stable")] },
      "apply 1.0.0",
    ],
  ])("%s", (_, given, expected) => {
    expect(told(chooseContent(inputOf(given)))).toBe(expected);
  });
});

describe("back to an older version", () => {
  it.each<[string, Case, string | RegExp]>([
    [
      "not as a channel moves",
      { request: { tag: "stable" }, locked: locked("1.5.0"), offers: [complete("1.4.2", "1", "stable")] },
      OLDER,
    ],
    [
      "not as versions vanish",
      { request: { version: "^1" }, locked: locked("1.5.0"), offers: [complete("1.4.2")] },
      OLDER,
    ],
    [
      "not to a pre-release",
      {
        request: { tag: "stable" },
        locked: locked("1.5.0"),
        offers: [complete("1.5.0-rc.1", "1", "stable")],
      },
      OLDER,
    ],
    [
      "as the range excludes what is locked",
      { request: { version: "~1.4" }, locked: locked("1.5.0"), offers: [complete("1.4.2")] },
      "apply 1.4.2",
    ],
    [
      "as the exact version is named",
      { request: { version: "1.4.2" }, locked: locked("1.5.0"), offers: [complete("1.4.2")] },
      "apply 1.4.2",
    ],
    [
      "as the digest is named",
      { request: { digest: digest("1"), version: "1.4.2" }, locked: locked("1.5.0") },
      "apply 1.4.2",
    ],
    [
      "as it is approved",
      {
        request: { tag: "stable" },
        locked: locked("1.5.0"),
        offers: [complete("1.4.2", "1", "stable")],
        approved: `1.4.2@${digest("1")}`,
      },
      "apply 1.4.2",
    ],
    [
      "not as another digest of it is approved",
      {
        request: { tag: "stable" },
        locked: locked("1.5.0"),
        offers: [complete("1.4.2", "1", "stable")],
        approved: `1.4.2@${digest("2")}`,
      },
      OLDER,
    ],
    [
      "not as an older one is approved while a newer one is offered",
      {
        request: { version: "^1" },
        locked: locked("1.5.0"),
        offers: ["1.4.2", "1.6.0"],
        approved: `1.4.2@${digest("1")}`,
      },
      "resolve 1.6.0",
    ],
  ])("%s", (_, given, expected) => {
    expect(told(chooseContent(inputOf(given)))).toMatch(expected);
  });
});

describe("what failed", () => {
  const request = { version: "^1" };
  const pinned = { digest: digest("1"), version: "1.1.0" };
  /** Version 1.0.0, after 1.1.0 was rejected for a request. */
  const back = (wanted: ModuleRequest): LockEntry =>
    locked("1.0.0", { rejected: [digest("1")], rejectedFor: serializeRequest(wanted) });
  it.each<[string, Case, string | RegExp]>([
    [
      "is not tried again",
      { request, locked: back(request), offers: [complete("1.1.0")] },
      "wait 1.1.0: 1.1.0 is not tried again",
    ],
    ["also where it is pinned", { request: pinned, locked: back(pinned) }, "wait 1.1.0: "],
    [
      "unless it is approved",
      {
        request,
        locked: back(request),
        offers: [complete("1.1.0")],
        approved: `1.1.0@${digest("1")}`,
      },
      "apply 1.1.0",
    ],
    ["unless the request is another one", { request: pinned, locked: back(request) }, "apply 1.1.0"],
    [
      "but another content of the version is",
      { request, locked: back(request), offers: [complete("1.1.0", "2")] },
      "apply 1.1.0",
    ],
    [
      "but a newer version is",
      { request, locked: back(request), offers: [complete("1.1.0"), "1.1.1"] },
      "resolve 1.1.1",
    ],
  ])("%s", (_, given, expected) => {
    expect(told(chooseContent(inputOf(given)))).toMatch(expected);
  });
});

describe("approval", () => {
  const request = { version: "*" };
  const lock = locked("1.4.2");
  it.each<[string, Case, string]>([
    [
      "auto takes every version of the range",
      { request, locked: lock, offers: [complete("2.0.0")], update: {} },
      "apply 2.0.0",
    ],
    [
      "patch takes patches",
      { request, locked: lock, offers: [complete("1.4.3")], update: { approval: "patch" } },
      "apply 1.4.3",
    ],
    [
      "patch holds others",
      { request, locked: lock, offers: [complete("1.5.0")], update: { approval: "patch" } },
      "wait 1.5.0: 1.5.0 is no patch of 1.4.2: it waits for approval",
    ],
    [
      "patch takes the first version",
      { request, offers: [complete("1.5.0")], update: { approval: "patch" } },
      "apply 1.5.0",
    ],
    [
      "manual holds patches",
      { request, locked: lock, offers: [complete("1.4.3")], update: { approval: "manual" } },
      "wait 1.4.3: 1.4.3 waits for approval",
    ],
    [
      "manual holds the first version",
      { request, offers: [complete("1.4.3")], update: { approval: "manual" } },
      "wait 1.4.3: 1.4.3 waits for approval",
    ],
    [
      "manual holds a channel",
      { request: { tag: "edge" }, offers: [complete("1.4.3", "1", "edge")], update: { approval: "manual" } },
      "wait 1.4.3: 1.4.3 waits for approval",
    ],
    [
      "an exact version is approved by its name",
      {
        request: { version: "1.5.0" },
        locked: lock,
        offers: [complete("1.5.0")],
        update: { approval: "manual" },
      },
      "apply 1.5.0",
    ],
    [
      "a digest is approved by its name",
      { request: { digest: digest("1"), version: "1.5.0" }, locked: lock, update: { approval: "manual" } },
      "apply 1.5.0",
    ],
    [
      "what is approved is taken",
      {
        request,
        locked: lock,
        offers: [complete("1.4.3")],
        update: { approval: "manual" },
        approved: `1.4.3@${digest("1")}`,
      },
      "apply 1.4.3",
    ],
    [
      "the first version, too",
      {
        request,
        offers: [complete("1.4.3")],
        update: { approval: "manual" },
        approved: `1.4.3@${digest("1")}`,
      },
      "apply 1.4.3",
    ],
    [
      "an approval is for one digest",
      {
        request,
        locked: lock,
        offers: [complete("1.4.3", "2")],
        update: { approval: "manual" },
        approved: `1.4.3@${digest("1")}`,
      },
      "wait 1.4.3: 1.4.3 waits for approval",
    ],
    [
      "a newer version does not outrun one that is approved",
      {
        request,
        locked: lock,
        offers: ["1.4.3", "1.5.0"],
        update: { approval: "manual" },
        approved: `1.4.3@${digest("1")}`,
      },
      "resolve 1.4.3",
    ],
    [
      "one that is approved and locked is done",
      {
        request,
        locked: locked("1.4.3", { digest: digest("1") }),
        offers: ["1.4.3", complete("1.5.0", "2")],
        update: { approval: "manual" },
        approved: `1.4.3@${digest("1")}`,
      },
      "wait 1.5.0: 1.5.0 waits for approval",
    ],
    [
      "a channel's version that is none",
      { request: { tag: "edge" }, locked: lock, offers: [complete("nightly", "1", "edge")] },
      'wait nightly: "nightly" is no semantic version: it waits for approval',
    ],
  ])("%s", (_, given, expected) => {
    expect(told(chooseContent(inputOf(given)))).toBe(expected);
  });
});

describe("times", () => {
  const request = { version: "^1" };
  const lock = locked("1.0.0");
  const offers = [complete("1.1.0")];
  const night = [{ cron: "0 2 * * 1-5", forMs: 2 * HOUR }];
  const noon = [{ cron: "30 11 * * *", forMs: HOUR }];
  const seen = (hours: number, digits = "1"): LockEntry =>
    locked("1.0.0", { seen: { version: "1.1.0", digest: digest(digits), since: NOW - hours * HOUR } });
  it.each<[string, Case, string]>([
    [
      "a window that is closed",
      { request, locked: lock, offers, update: { windows: night } },
      "wait 1.1.0: 1.1.0 waits for the next window (14h)",
    ],
    ["a window that is open", { request, locked: lock, offers, update: { windows: noon } }, "apply 1.1.0"],
    [
      "one of two windows",
      { request, locked: lock, offers, update: { windows: [...night, ...noon] } },
      "apply 1.1.0",
    ],
    [
      "a window that has just closed",
      { request, locked: lock, offers, update: { windows: [{ cron: "0 11 * * *", forMs: HOUR }] } },
      "wait 1.1.0: 1.1.0 waits for the next window (23h)",
    ],
    [
      "a window that has just opened",
      { request, locked: lock, offers, update: { windows: [{ cron: "0 12 * * *", forMs: 60_000 }] } },
      "apply 1.1.0",
    ],
    [
      "a window that never opens",
      { request, locked: lock, offers, update: { windows: [{ cron: "0 0 30 2 *", forMs: HOUR }] } },
      "wait 1.1.0: 1.1.0 waits for a window, and none ever opens",
    ],
    [
      "a new version that has to be known for a day",
      { request, locked: lock, offers, update: { minAgeMs: 24 * HOUR } },
      "wait 1.1.0: 1.1.0 waits until it has been known for 24h0m0s (24h)",
    ],
    [
      "one that has been known for an hour",
      { request, locked: seen(1), offers, update: { minAgeMs: 24 * HOUR } },
      "wait 1.1.0: 1.1.0 waits until it has been known for 24h0m0s (23h)",
    ],
    [
      "one that has been known for a day",
      { request, locked: seen(24), offers, update: { minAgeMs: 24 * HOUR } },
      "apply 1.1.0",
    ],
    [
      "another digest of a version that was known",
      { request, locked: seen(24, "2"), offers, update: { minAgeMs: 24 * HOUR } },
      "wait 1.1.0: 1.1.0 waits until it has been known for 24h0m0s (24h)",
    ],
    [
      "the first window after that",
      { request, locked: seen(1), offers, update: { windows: night, minAgeMs: 17 * HOUR } },
      "wait 1.1.0: 1.1.0 waits for the next window (38h)",
    ],
    [
      "an open window after that",
      { request, locked: seen(1), offers, update: { windows: night, minAgeMs: 16 * HOUR } },
      "wait 1.1.0: 1.1.0 waits until it has been known for 16h0m0s (15h)",
    ],
    [
      "a first installation waits for neither",
      { request, offers, update: { windows: night, minAgeMs: HOUR } },
      "apply 1.1.0",
    ],
    [
      "what is approved waits for neither",
      {
        request,
        locked: lock,
        offers,
        update: { windows: night, minAgeMs: HOUR },
        approved: `1.1.0@${digest("1")}`,
      },
      "apply 1.1.0",
    ],
    [
      "an exact version waits for its window only",
      {
        request: { version: "1.1.0" },
        locked: lock,
        offers,
        update: { windows: night, minAgeMs: 99 * HOUR },
      },
      "wait 1.1.0: 1.1.0 waits for the next window (14h)",
    ],
  ])("%s", (_, given, expected) => {
    expect(told(chooseContent(inputOf(given)))).toBe(expected);
  });

  it("windows open in the operator's time zone", () => {
    const given = inputOf({ request, locked: lock, offers, update: { windows: night } });
    expect(told(chooseContent({ ...given, timeZone: "Asia/Tokyo" }))).toContain("(5h)");
    expect(told(chooseContent({ ...given, timeZone: "America/Los_Angeles" }))).toContain("(22h)");
  });
});

it("an approval names version and digest", () => {
  expect(toApproval(complete("1.4.2", "1"))).toBe(`1.4.2@${digest("1")}`);
});

it("tags that are no versions are no candidates", () => {
  const tags = ["latest", "1.4", "1.4.2", "v1.5.0", "1.4.2_b.1", "sha256-00.sig", "01.2.3", "1.2.3-", "x_1"];
  expect(parseVersionTags(tags).map(({ version }) => version)).toEqual(["1.4.2", "v1.5.0", "1.4.2+b.1"]);
});

it("10,000 tags are chosen from at once", () => {
  const tags = Array.from({ length: 10_000 }, (_, index) => `1.${index % 100}.${index}`);
  const given = { ...inputOf({ request: { version: "^1" } }), candidates: parseVersionTags(tags) };
  const started = performance.now();
  expect(told(chooseContent(given))).toBe("resolve 1.99.9999");
  expect(performance.now() - started).toBeLessThan(5000);
});

/** The same numbers on each run. */
function* numbers(): Generator<number> {
  for (let state = 1; ;) yield (state = (state * 48_271) % 2_147_483_647);
}

it("among 20,000 random situations none goes back unless a user asked for it, and none takes what failed", () => {
  const random = numbers();
  const below = (bound: number): number => (random.next().value as number) % bound;
  const pick = <T>(...from: readonly T[]): T => from[below(from.length)] as T;
  const version = (): string => `1.${below(3)}.${below(3)}${pick("", "", "-rc.1", "+b")}`;
  const kinds = new Set<string>();
  for (let turn = 0; turn < 20_000; turn += 1) {
    const digits = (): string => pick("1", "2", "3", "a");
    const request = pick<ModuleRequest>({ version: pick("^1", "~1.1", "*", ">=1.1 <2") }, { tag: "stable" });
    const failed = { rejected: [digest(pick("1", "2"))], rejectedFor: serializeRequest(request) };
    const entry = locked(version(), failed);
    const offers = Array.from({ length: below(4) }, () => ({
      ...complete(version(), digits()),
      tag: "stable",
    }));
    const approved = pick(undefined, undefined, ...offers.map(toApproval));
    const choice = chooseContent(
      inputOf({
        request,
        locked: entry,
        offers,
        update: { approval: pick("auto", "patch", "manual") },
        ...(approved === undefined ? {} : { approved }),
      }),
    );
    kinds.add(choice.kind);
    if (choice.kind !== "apply" || toApproval(choice.candidate) === approved) continue;
    expect(entry.rejected).not.toContain(choice.candidate.digest);
    // A range that has nothing for the locked version excludes it.
    const isExcluded = request.version !== undefined && !isInRange(entry.version, request.version);
    expect(isExcluded || !isOlderVersion(choice.candidate.version, entry.version)).toBe(true);
  }
  expect([...kinds].sort()).toEqual(["apply", "keep", "wait"]);
});
