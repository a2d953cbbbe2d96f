import { describe, expect, it } from "vitest";

import type { Reconciler } from "../../../src/helm/types.ts";
import { RELEASE_LABELS } from "../../../src/helm/index.ts";
import { DeferredLabels } from "../../../src/helm/release/deferred-labels.ts";
import type { ReleaseMeta } from "../../../src/helm/release/revisions.ts";
import { silentLogger } from "../../../src/base/index.ts";
import { ManualClock } from "../../support/clock.ts";

const KNOWN = { label: "assumed" };

function lab() {
  const clock = new ManualClock();
  const written: string[] = [];
  const made: unknown[] = [];
  const store = {
    get: (name: string) =>
      name === "gone" ? undefined : { name, ...(name === "known" && { deferredLabels: KNOWN }) },
    readSummary: async () => ({ checksum: "sum" }),
    setLabels: async ({ name }: ReleaseMeta, its: unknown) => {
      written.push(name);
      made.push(its);
      if (name === "refused") throw new Error("refused");
    },
  };
  const tools = { clock, store, logger: silentLogger } as unknown as Reconciler;
  return { clock, written, made, labels: new DeferredLabels(tools) };
}

describe("DeferredLabels", () => {
  it("writes each once, a second after the last release was worked on", async () => {
    const { clock, written, labels } = lab();
    labels.schedule("a");
    await clock.advance(900);
    labels.schedule("b");
    labels.schedule("a");
    await clock.advance(900);
    labels.postpone();
    await clock.advance(900);
    expect(written).toEqual([]);
    await clock.advance(100);
    expect(written).toEqual(["a", "b"]);
    await clock.advance(10_000);
    expect(written).toEqual(["a", "b"]);
  });

  it("writes at once when asked to, and nothing once it is closed", async () => {
    const { clock, written, labels } = lab();
    labels.schedule("a");
    await labels.flush();
    expect(written).toEqual(["a"]);
    labels.schedule("b");
    labels.close();
    await clock.advance(10_000);
    expect(written).toEqual(["a"]);
  });

  it("writes what was assumed, else the checksum of the manifest, and goes on where that fails", async () => {
    const { written, made, labels } = lab();
    for (const release of ["gone", "refused", "known", "new"]) labels.schedule(release);
    await labels.flush();
    expect(written).toEqual(["refused", "known", "new"]);
    expect(made.slice(1)).toEqual([KNOWN, { [RELEASE_LABELS.manifest]: "sum" }]);
  });
});
