import { describe, expect, it } from "vitest";

import { LateLabels } from "../../src/helm/release/late-labels.ts";
import { ManualClock } from "../support/clock.ts";

function lab() {
  const clock = new ManualClock();
  const written: string[] = [];
  const labels = new LateLabels(clock, async (release) => void written.push(release));
  return { clock, written, labels };
}

describe("LateLabels", () => {
  it("writes each once, a second after the last release was worked on", async () => {
    const { clock, written, labels } = lab();
    labels.owe("a");
    await clock.advance(900);
    labels.owe("b");
    labels.owe("a");
    await clock.advance(900);
    labels.touch();
    await clock.advance(900);
    expect(written).toEqual([]);
    await clock.advance(100);
    expect(written).toEqual(["a", "b"]);
    await clock.advance(10_000);
    expect(written).toEqual(["a", "b"]);
  });

  it("writes at once when asked to, and nothing once it is closed", async () => {
    const { clock, written, labels } = lab();
    labels.owe("a");
    await labels.flush();
    expect(written).toEqual(["a"]);
    labels.owe("b");
    labels.close();
    await clock.advance(10_000);
    expect(written).toEqual(["a"]);
  });
});
