import { readFileSync } from "node:fs";
import { createServer } from "node:net";
import { expect, onTestFinished, test } from "vitest";

import { claimShare, freePorts } from "../../scripts/control-plane/ports.mjs";

/** Where there is no such file, this says nothing of the system. */
function lowestGiven(): number {
  try {
    return Number.parseInt(readFileSync("/proc/sys/net/ipv4/ip_local_port_range", "utf8"), 10);
  } catch {
    return 32_768;
  }
}

test("ports are different, not in use, and not given to others before they are used", async () => {
  const [first = 0, ...more] = await freePorts(100);
  const server = createServer().listen(first, "127.0.0.1");
  onTestFinished(() => void server.close());
  expect(new Set(more).size).toBe(99);
  expect(await freePorts(100)).not.toContain(first);
  expect(Math.max(first, ...more)).toBeLessThan(Math.max(12_000, lowestGiven()));
});

test("processes whose ids would give them one share have different ones", async () => {
  const shares = [await claimShare(7), await claimShare(7)];
  expect(new Set(shares).size).toBe(shares.includes(undefined) ? 1 : 2);
});
