import { describe, expect, it } from "vitest";

import { HelmError, HookObjectError } from "../../src/helm/binary/helm-errors.ts";
import { withHookWatch } from "../../src/helm/hook-watch.ts";
import type { HookRecord } from "../../src/helm/release/record.ts";
import type { HelmHook, Reconciler } from "../../src/helm/types.ts";
import { ApiError, CONFIG_MAPS, type ApiRequest } from "../../src/kube/index.ts";
import { ManualClock } from "../support/clock.ts";

const MINUTE = 60_000;

const failure = new HelmError("upgrade web", {
  stdout: "",
  outcome: "failed",
  message: "UPGRADE FAILED: timed out",
  stderr: "",
} as HelmError["result"]);

class Lab {
  readonly clock = new ManualClock();
  readonly from = this.clock.now();
  readonly abort = new AbortController();
  status = "pending-upgrade";
  hooks: HookRecord[] = [];
  broken = false;
  isMissing = false;
  reads = 0;
  refreshes = 0;
  /** What was reported, with the second of it. */
  readonly reported: [number, HelmHook | undefined][] = [];
  readonly #end = Promise.withResolvers<void>();
  readonly run: Promise<void>;

  constructor(circumstances = { mayHaveHooks: false, mayEnd: true }) {
    const tools = {
      store: {
        get: () => ({ status: this.status }),
        readRecord: () => {
          this.reads++;
          return this.broken
            ? Promise.reject(new Error("no record"))
            : Promise.resolve({ hooks: this.hooks });
        },
        refresh: () => Promise.resolve(void this.refreshes++),
      },
      clock: this.clock,
      namespace: "default",
      discovery: { resolve: () => Promise.resolve({ ...CONFIG_MAPS, verbs: ["get"] }) },
      client: {
        json: ({ path }: ApiRequest) =>
          this.isMissing
            ? Promise.reject(new ApiError({ status: 404, reason: "NotFound", message: "no" }))
            : Promise.resolve({ metadata: { name: path.split("/").at(-1) } }),
      },
    };
    this.run = withHookWatch(
      tools as unknown as Reconciler,
      {
        release: "web",
        signal: this.abort.signal,
        ...circumstances,
        onWait: (hook) => this.reported.push([(this.clock.now() - this.from) / 1000, hook]),
      },
      (signal) => {
        signal.addEventListener("abort", () => this.#end.reject(failure));
        return this.#end.promise;
      },
    );
  }

  end(error?: unknown): Promise<string> {
    if (error === undefined) this.#end.resolve();
    else this.#end.reject(error);
    return this.run.then(
      () => "ok",
      (reason: unknown) => (reason as Error).message,
    );
  }

  hook(name: string, change: Partial<HookRecord> = {}): HookRecord {
    const startedAt = this.from + 2000;
    const events = ["pre-install", "pre-upgrade"];
    const manifest = `apiVersion: batch/v1\nkind: Job\nmetadata: {name: ${name}}\n`;
    const record = { manifest, object: `Job/${name}`, events, deletePolicies: [] };
    return { ...record, phase: "Running", startedAt, ...change };
  }
}

describe("a long run of helm", () => {
  it("a short one costs no request, also when it fails, and leaves no timer", async () => {
    const [good, bad] = [new Lab(), new Lab()];
    for (const lab of [good, bad]) {
      lab.hooks = [lab.hook("migrate")];
      await lab.clock.advance(9999);
    }
    expect(await good.end()).toBe("ok");
    expect(await bad.end(failure)).toBe(failure.message);
    // After a failure, the release is read again.
    expect([good, bad].map(({ reads, refreshes, clock }) => [reads, refreshes, clock.timers])).toEqual([
      [0, 0, 0],
      [0, 1, 0],
    ]);
  });

  it("names the hook that runs, when it changes and when it is over", async () => {
    const lab = new Lab();
    const done = lab.hook("first", { phase: "Succeeded", startedAt: lab.from + 1000 });
    lab.hooks = [done, lab.hook("migrate"), lab.hook("later", { phase: undefined, startedAt: undefined })];
    await lab.clock.advance(35_000);
    lab.hooks = [done, lab.hook("migrate", { phase: "Succeeded" })];
    await lab.clock.advance(MINUTE);
    expect(lab.reported).toEqual([
      [10, { name: "Job/migrate (pre-upgrade)", since: lab.from + 2000 }],
      [70, undefined],
    ]);
    expect(await lab.end()).toBe("ok");
  });

  it("names a hook whose object was deleted while helm waits for it, but not after its failure", async () => {
    const lab = new Lab();
    lab.isMissing = true;
    lab.hooks = [lab.hook("migrate")];
    await lab.clock.advance(10_000);
    expect(lab.reported.map(([, hook]) => hook?.name)).toEqual([
      "Job/migrate (pre-upgrade; the object does not exist)",
    ]);
    lab.hooks = [lab.hook("migrate", { phase: "Failed" })];
    expect(await lab.end(failure)).toContain("its hook Job/migrate (pre-upgrade) did not succeed");
  });

  it("with hooks is looked at after 3 s, and ended for an object that has been missing for five minutes", async () => {
    const lab = new Lab({ mayHaveHooks: true, mayEnd: true });
    lab.isMissing = true;
    lab.hooks = [lab.hook("migrate")];
    await lab.clock.advance(4 * MINUTE);
    expect(lab.reported).toEqual([
      [3, { name: "Job/migrate (pre-upgrade; the object does not exist)", since: lab.from + 2000 }],
    ]);
    const ended = lab.run.catch((error: unknown) => error);
    await lab.clock.advance(2 * MINUTE);
    expect(await ended).toBeInstanceOf(HookObjectError);
    expect(String(await ended)).toContain("deleted before helm saw how it ended; keep it");
    expect(lab.clock.timers).toBe(0);
  });

  it("goes on while the object of a hook comes and goes, or helm waits for Pods, too", async () => {
    const flapping = new Lab({ mayHaveHooks: true, mayEnd: true });
    const waiting = new Lab({ mayHaveHooks: true, mayEnd: false });
    waiting.isMissing = true;
    for (const lab of [flapping, waiting]) lab.hooks = [lab.hook("migrate")];
    for (let minute = 0; minute < 20; minute += 1) {
      flapping.isMissing = minute % 4 !== 0;
      await flapping.clock.advance(MINUTE);
      await waiting.clock.advance(MINUTE);
    }
    expect([await flapping.end(), await waiting.end()]).toEqual(["ok", "ok"]);
  });

  it("that waits for Pods names no hook that helm itself deletes when it has succeeded", async () => {
    const lab = new Lab({ mayHaveHooks: true, mayEnd: false });
    lab.isMissing = true;
    lab.hooks = [lab.hook("migrate", { deletePolicies: ["hook-succeeded"] })];
    await lab.clock.advance(20 * MINUTE);
    expect([lab.reported, await lab.end()]).toEqual([[], "ok"]);
  });

  it("with a hook that is there goes on, however long it takes", async () => {
    const lab = new Lab({ mayHaveHooks: true, mayEnd: true });
    lab.hooks = [lab.hook("migrate")];
    await lab.clock.advance(20 * MINUTE);
    expect(await lab.end()).toBe("ok");
  });

  it("is looked at after 10, 30 and 70 s, then once a minute", async () => {
    const lab = new Lab();
    const at: number[] = [];
    for (let second = 1; second <= 250; second++) {
      const before = lab.reads;
      await lab.clock.advance(1000);
      if (lab.reads > before) at.push(second);
    }
    expect(at).toEqual([10, 30, 70, 130, 190, 250]);
    await lab.end();
  });

  it.each([
    ["pending-install", "Job/a (pre-install)"],
    ["pending-upgrade", "Job/a (pre-upgrade, post-upgrade)"],
    ["uninstalling", "Job/a (post-delete)"],
  ])("%s: of the hook's events those of what helm does", async (status, name) => {
    const lab = new Lab();
    lab.status = status;
    const events = ["pre-install", "pre-upgrade", "post-upgrade", "post-delete"];
    lab.hooks = [lab.hook("a", { events })];
    await lab.clock.advance(10_000);
    expect(lab.reported.map(([, hook]) => hook?.name)).toEqual([name]);
    await lab.end();
  });

  it("that is at nothing of ours, or whose record cannot be read, names none and goes on", async () => {
    const lab = new Lab();
    lab.hooks = [lab.hook("old", { startedAt: lab.from - 1 })];
    lab.status = "deployed";
    await lab.clock.advance(10_000);
    expect(lab.reads).toBe(0);
    lab.status = "pending-upgrade";
    await lab.clock.advance(20_000);
    lab.broken = true;
    await lab.clock.advance(40_000);
    expect([lab.reads, lab.reported]).toEqual([2, []]);
    expect(await lab.end(failure)).toBe(failure.message);
  });

  it.each(["Running", "Failed"])("that fails in a hook says in which: %s", async (phase) => {
    const lab = new Lab();
    lab.hooks = [lab.hook("migrate", { phase: "Running" })];
    await lab.clock.advance(10_000);
    lab.status = "failed";
    lab.hooks = [lab.hook("migrate", { phase })];
    expect(await lab.end(failure)).toBe(
      "helm upgrade web: UPGRADE FAILED: timed out; its hook Job/migrate (pre-upgrade) did not succeed",
    );
  });

  it("that fails of something else, or is ended from outside, blames no hook", async () => {
    const [other, foreign, ended] = [new Lab(), new Lab(), new Lab()];
    for (const lab of [other, foreign, ended]) {
      lab.hooks = [lab.hook("migrate")];
      await lab.clock.advance(10_000);
    }
    other.hooks = [other.hook("migrate", { phase: "Succeeded" })];
    ended.abort.abort();
    expect(await other.end(failure)).toBe(failure.message);
    expect(await foreign.end(new Error("no server"))).toBe("no server");
    expect(await ended.end(failure)).toBe(failure.message);
  });
});
