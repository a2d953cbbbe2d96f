// Runs at night: documentation.
import { spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { startCluster } from "../../scripts/control-plane.mjs";
import type { ControlPlane } from "../../scripts/control-plane.mjs";
import { linesOf, sameEachTime, tourIn } from "../../scripts/picture/render.mjs";
import { root, versions } from "../../scripts/setup/versions.mjs";

/** One as a user has it: with a controller manager, and nobody else's work in it. */
let plane: ControlPlane;
beforeAll(async () => {
  plane = await startCluster();
});
afterAll(() => plane.stop());

function demo(...args: string[]) {
  // The bundle is in use by other tests.
  const command = [join(root, "scripts", "demo", "run.mjs"), "--once", "--from-source", ...args];
  const child = spawn(process.execPath, command, { cwd: root, stdio: ["ignore", "pipe", "pipe"] });
  let reported = "";
  const heard: (() => void)[] = [];
  for (const stream of [child.stdout, child.stderr])
    stream.on("data", (text) => {
      reported += text;
      heard.forEach((each) => each());
    });
  const ended = new Promise<{ code: number | null; reported: string }>((done) =>
    child.once("close", (code) => done({ code, reported })),
  );
  const says = (text: string) =>
    new Promise<void>((done) => heard.push(() => reported.includes(text) && done()));
  return { child, ended, says };
}

const kinds = "namespaces,customresourcedefinitions,priorityclasses,clusterroles,clusterrolebindings";
const everything = (): Promise<string> => plane.kubectl(["get", kinds, "-o", "name"]);
const onIt = (...more: string[]): ReturnType<typeof demo> => demo("--kubeconfig", plane.kubeconfig, ...more);

describe("the demo on a cluster that is there already", () => {
  test(
    "comes true as the picture of README.md shows it, and leaves nothing behind",
    { timeout: 180_000 },
    async () => {
      const before = await everything();
      const { code, reported } = await onIt("--yes").ended;
      expect(reported).toContain("All steps succeeded, and no process remains.");
      expect(code).toBe(0);
      expect(await everything()).toBe(before);
      // Another version of Kubernetes prints other columns.
      if (!(await plane.kubectl(["get", "--raw", "/version"])).includes(`"v${versions.kubernetes}"`)) return;
      const picture = linesOf(readFileSync(join(root, ".github", "demo.svg"), "utf8"));
      const tour = sameEachTime(tourIn(reported.split("\n")));
      expect(tour, ".github/demo.svg shows it: node scripts/run.mjs picture.mjs").toEqual(
        sameEachTime(tourIn(picture)),
      );
    },
  );

  test("shows what modules require of each other", { timeout: 180_000 }, async () => {
    const before = await everything();
    const { code, reported } = await onIt("--yes", "--requirements").ended;
    expect(reported).toContain("All steps succeeded, and no process remains.");
    expect(reported).toMatch(/^trust-bundle: .*; requires internal-ca \(is not Ready\)$/m);
    expect(code).toBe(0);
    expect(await everything()).toBe(before);
  });

  test("shows modules of two teams", { timeout: 180_000 }, async () => {
    const before = await everything();
    const { code, reported } = await onIt("--yes", "--tenants").ended;
    expect(reported).toContain("All steps succeeded, and no process remains.");
    expect(reported).toMatch(/missing rule: grant ServiceAccount team-orders\/deployer/);
    expect(code).toBe(0);
    expect(await everything()).toBe(before);
  });

  test("shows a signed module from a registry", { timeout: 180_000 }, async () => {
    const before = await everything();
    const { code, reported } = await onIt("--yes", "--sources").ended;
    expect(reported).toContain("All steps succeeded, and no process remains.");
    expect(reported).toMatch(/update: .*no valid signature/);
    expect(code).toBe(0);
    expect(await everything()).toBe(before);
  });

  test("writes nothing when there is nobody to be asked", async () => {
    const before = await everything();
    const { code, reported } = await onIt().ended;
    expect(code).toBe(1);
    expect(reported).toContain("cannot ask without a terminal. To allow it, use --yes");
    expect(await everything()).toBe(before);
  });

  test("cleans up when it is ended halfway", { timeout: 180_000 }, async () => {
    const before = await everything();
    const { child, ended, says } = onIt("--yes");
    await says("PriorityClass batch-low existed");
    child.kill("SIGTERM");
    const { code, reported } = await ended;
    expect(code).toBe(130);
    // What fails because of it is no news.
    expect(reported).not.toContain("FAILED");
    expect(await everything()).toBe(before);
  });

  test("removes what one left that was killed", { timeout: 180_000 }, async () => {
    const before = await everything();
    const first = onIt("--yes");
    await first.says("Wait until the operator is ready");
    first.child.kill("SIGKILL");
    await first.ended;
    expect(await everything()).not.toBe(before);
    const second = onIt("--yes");
    await second.says("Create the namespace");
    second.child.kill("SIGTERM");
    await second.ended;
    expect(await everything()).toBe(before);
  });

  // The last one: the namespace goes with the control plane.
  test("touches no namespace that is somebody else's", async () => {
    await plane.kubectl(["create", "namespace", "shop"]);
    const { code, reported } = await onIt("--yes").ended;
    expect(code).toBe(1);
    expect(reported).toContain(
      "namespace shop exists and does not belong to the demo. The demo changed nothing",
    );
  });
});
