import { describe, expect, it, vi } from "vitest";

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
  const setLabels = vi.fn(async ({ name }: Pick<ReleaseMeta, "name">, its: unknown) => {
    written.push(name);
    made.push(its);
    if (name === "refused") throw new Error("refused");
  });
  const store = {
    get: (name: string) =>
      name === "gone" ? undefined : { name, ...(name === "known" && { deferredLabels: KNOWN }) },
    readSummary: async () => ({ checksum: "sum" }),
    setLabels,
  };
  const tools = { clock, store, logger: silentLogger } as unknown as Reconciler;
  return { clock, written, made, setLabels, labels: new DeferredLabels(tools) };
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

  it("writes several at once, and no more once it is closed", async () => {
    const { written, labels, setLabels } = lab();
    const answers: (() => void)[] = [];
    setLabels.mockImplementation(({ name }) => {
      written.push(name);
      return new Promise((resolve) => answers.push(resolve));
    });
    for (const release of ["a", "b", "c", "d", "e", "f"]) labels.schedule(release);
    const flushed = labels.flush();
    await vi.waitUntil(() => answers.length === 4);
    labels.close();
    for (const answer of answers) answer();
    await flushed;
    expect(written).toEqual(["a", "b", "c", "d"]);
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
    const sum = { [RELEASE_LABELS.manifest]: "sum" };
    const labelled = Object.fromEntries(written.map((name, index) => [name, made[index]]));
    expect(labelled).toEqual({ refused: sum, known: KNOWN, new: sum });
  });
});
