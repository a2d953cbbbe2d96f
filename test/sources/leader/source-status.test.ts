import { describe, expect, it } from "vitest";

import type { IModuleSource } from "../../../src/report/index.ts";
import { buildStatus, type SourceFindings } from "../../../src/sources/leader/source-status.ts";
import type { LockEntry, SourceSpec, ModuleRequest } from "../../../src/sources/types.ts";

const NOW = Date.UTC(2026, 10, 24, 12);
const digest = (digit: string): string => `sha256:${digit.repeat(64)}`;
const LOCKED: LockEntry = { source: "s", version: "1.4.2", digest: digest("a"), verifiedBy: "ci.pub", at: 0 };
const NEXT = { version: "1.5.0", digest: digest("b"), tag: undefined, since: NOW - 3_600_000 };

const MISSING = {
  dir: undefined,
  problem: { reason: "SourceUnavailable", message: "1.4.2 is not on disk" },
} as const;

interface Given {
  readonly request: ModuleRequest;
  readonly locked?: LockEntry;
  readonly findings?: Partial<SourceFindings>;
  /** The locked content is not on disk. */
  readonly isMissing?: boolean;
}

/** The status of a source with one module, `web`. */
function statusWith({ request, locked, findings, isMissing = false }: Given) {
  const modules = new Map([["web", request]]);
  const spec: SourceSpec = {
    registry: { host: "h", name: "modules" },
    charts: undefined,
    unsigned: false,
    mirrors: [],
    plainHttp: false,
    secret: undefined,
    ca: undefined,
    intervalMs: 1,
    suspend: false,
    keys: undefined,
    update: undefined,
    modules,
  };
  const object = { metadata: { name: "s", generation: 3 }, spec: {} } as unknown as IModuleSource;
  const lock = { entries: new Map(locked === undefined ? [] : [["web", locked]]) };
  const lockedModules = {
    getContent: () =>
      locked && { digest: locked.digest, ...(isMissing ? MISSING : { dir: "/d", problem: undefined }) },
  };
  const nothing = {
    errors: new Map(),
    waitingVersions: new Map(),
    lastCheck: NOW,
    nextCheck: NOW,
    failures: new Map(),
    answer: "answered" as const,
    handledToken: undefined,
  };
  const source = { name: "s", object, spec, problem: undefined };
  const status = buildStatus({
    source,
    lock,
    lockedModules,
    findings: { ...nothing, ...findings },
    now: NOW,
    namespace: "ops",
  });
  const conditions = Object.fromEntries((status.conditions ?? []).map(({ type, ...each }) => [type, each]));
  return { ...status, conditions };
}

const held = (reason: string, until?: number): Partial<SourceFindings> => ({
  waitingVersions: new Map([
    ["web", { ...NEXT, waitsFor: until === undefined ? "approval" : "window", reason, until }],
  ]),
});
const failed = (
  reason: "CheckFailed" | "Withdrawn" | "NotVerified",
  message = "no",
): Partial<SourceFindings> => ({
  errors: new Map([["web", { reason, message }]]),
});

describe("what waits", () => {
  it("is named with the command that approves it, and the module is Ready", () => {
    const status = statusWith({
      request: { version: "^1" },
      locked: LOCKED,
      findings: held("1.5.0 waits for the next window", NOW + 60_000),
    });
    expect(status).toMatchObject({ summary: "1/1", waiting: 1 });
    expect(status.conditions["Ready"]).toMatchObject({
      status: "True",
      message: "The module is verified and in place",
    });
    expect(status.modules?.[0]?.next).toEqual({
      version: "1.5.0",
      digest: digest("b"),
      since: "2026-11-24T11:00:00Z",
      until: "2026-11-24T12:01:00Z",
      held: `1.5.0 waits for the next window; to use it now: kubectl annotate --overwrite -n ops addonmodule/web addon-operator.io/approve=1.5.0@${digest("b")}`,
    });
  });

  it("is why a first installation is not there", () => {
    const status = statusWith({ request: { version: "^1" }, findings: held("1.5.0 waits for approval") });
    expect(status).toMatchObject({ summary: "0/1", waiting: 1 });
    expect(status.conditions["Ready"]).toMatchObject({
      status: "False",
      reason: "UpdateHeld",
      message: expect.stringContaining("approve=1.5.0@") as string,
    });
    expect(status.conditions["Stalled"]).toBeUndefined();
  });
});

describe("a registry that is away or has nothing", () => {
  it.each<[string, ModuleRequest, "CheckFailed" | "Withdrawn", string]>([
    ["a range that has what is locked", { version: "^1" }, "CheckFailed", "True"],
    ["a channel", { tag: "stable" }, "Withdrawn", "True"],
    ["a range that excludes what is locked", { version: "^2" }, "CheckFailed", "False"],
    ["an exact version that is another one", { version: "1.5.0" }, "CheckFailed", "False"],
  ])("leaves %s", (...[, request, reason, ready]) => {
    const status = statusWith({
      request,
      locked: LOCKED,
      findings: { ...failed(reason), answer: "none" },
    });
    expect(status.conditions["Ready"]?.status).toBe(ready);
    expect(status.conditions["Reachable"]?.status).toBe("False");
  });

  it("says why content that is missing on disk is not there", () => {
    const findings = failed("CheckFailed", "403");
    const { conditions } = statusWith({
      request: { tag: "stable" },
      locked: LOCKED,
      findings,
      isMissing: true,
    });
    expect(conditions["Ready"]).toMatchObject({ status: "False", message: "web: 1.4.2 is not on disk: 403" });
  });

  it("is told by the condition Withdrawn", () => {
    const findings = failed("Withdrawn", "the registry has no tag stable");
    const { conditions } = statusWith({ request: { tag: "stable" }, locked: LOCKED, findings });
    expect(conditions["Withdrawn"]).toMatchObject({
      status: "True",
      message: "web: the registry has no tag stable",
    });
    expect(
      statusWith({ request: { tag: "stable" }, locked: LOCKED }).conditions["Withdrawn"],
    ).toBeUndefined();
  });

  it("does not hide content that is refused", () => {
    const { conditions } = statusWith({
      request: { version: "^1" },
      locked: LOCKED,
      findings: failed("NotVerified", "has no valid signature"),
    });
    expect(conditions["Ready"]).toMatchObject({ status: "False", reason: "NotVerified" });
    expect(conditions["Stalled"]).toMatchObject({ status: "True" });
  });
});
