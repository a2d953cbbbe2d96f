import { spawn } from "node:child_process";
import { once } from "node:events";
import { expect, test } from "vitest";

import {
  formatIdentity,
  hasHolderEnded,
  readOwnIdentity,
  parseIdentity,
  type LeaderIdentity,
} from "../../../src/kube/leader/identity.ts";

const own = readOwnIdentity("pod-a");
const known = own.bootId !== "" && own.pidNamespace !== "" && own.start !== "";

test("goes there and back as text, and knows no foreign form", () => {
  expect(own).toMatchObject({ name: "pod-a", pid: String(process.pid) });
  expect(parseIdentity(formatIdentity(own))).toEqual(own);
  expect(parseIdentity("addon-operator-7d4f_5c9e")).toBeUndefined();
});

async function freePid(): Promise<string> {
  const child = spawn("true");
  await once(child, "close");
  return String(child.pid);
}

test.runIf(known).each<[string, () => Promise<Partial<LeaderIdentity>> | Partial<LeaderIdentity>, boolean]>([
  ["a living process", () => ({}), false],
  ["a free pid", async () => ({ pid: await freePid() }), true],
  ["a pid that another process has now", () => ({ start: "1" }), true],
  ["another boot", async () => ({ pid: await freePid(), bootId: "other" }), false],
  ["another PID namespace", async () => ({ pid: await freePid(), pidNamespace: "1" }), false],
  ["no start time", async () => ({ pid: await freePid(), start: "" }), false],
  ["no pid", () => ({ pid: "0" }), false],
])("gone or not: %s (needs /proc)", async (_, change, want) => {
  expect(hasHolderEnded(formatIdentity({ ...own, name: "pod-b", ...(await change()) }), own)).toBe(want);
});

test("a holder of another make is never provably gone", () => {
  expect(hasHolderEnded("somebody", own)).toBe(false);
});
