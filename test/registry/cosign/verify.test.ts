import { expect, it, vi } from "vitest";

import { systemClock } from "../../../src/lib/index.ts";
import { putBundle, REPOSITORY } from "../artifact/forge.ts";
import { keyPair, registryLab } from "../artifact/lab.ts";

it("a search for signatures that takes too long is given up, and is no proof that there is none", async () => {
  const lab = await registryLab({ hasReferrers: true });
  const digest = await lab.push("1.4.2");
  lab.registry.manifests.delete(`${REPOSITORY}@${digest.replace(":", "-")}.sig`);
  expect(await lab.find()).toBeDefined();
  for (const key of lab.registry.manifests.keys())
    if (key !== `${REPOSITORY}@${digest}` && key !== `${REPOSITORY}@1.4.2`)
      lab.registry.manifests.delete(key);
  for (let index = 0; index < 9; index += 1) putBundle(lab.registry, { key: keyPair().privatePem, digest });
  let now = 0;
  using clock = vi.spyOn(systemClock, "monotonic").mockImplementation(() => (now += 30_000));
  const before = lab.registry.calls.length;
  await expect(lab.find()).rejects.toThrow(/cannot be verified now: .*the search takes too long/);
  expect(clock).toHaveBeenCalled();
  expect(lab.registry.calls.length - before).toBeLessThan(10);
});
