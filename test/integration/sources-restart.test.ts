// Runs at night: restarts.
import { existsSync, rmSync } from "node:fs";
import { dirname, join } from "node:path";
import { expect, test } from "vitest";

import { eventually } from "../support/cluster.ts";
import { push, untilInstalled, world } from "../support/source-world.ts";

// docs/guides/module-sources.md: the next operator, or another replica, goes on with what the lock names.

test("an end between lock and switch is completed by the next start", { timeout: 240_000 }, async () => {
  const it = await world("sources-kill");
  await push(it, "1.4.2");
  await push(it, "1.5.0");
  let operator = await it.start();
  await it.source({ web: { version: "1.5.0", enabled: true } });
  await untilInstalled(it, operator, "1.5.0");
  const locked = await it.lock();
  await it.source({ web: { version: "1.4.2", enabled: true } });
  await untilInstalled(it, operator, "1.4.2");
  await operator.kill9();
  // The lock names the next content, and the links do not yet.
  await it.source({ web: { version: "1.5.0", enabled: true } });
  const patch = JSON.stringify({ data: { web: JSON.stringify(locked) } });
  await it.kubectl(["patch", "cm/addon-operator-modules", "--type=merge", "-p", patch]);
  it.lab.registry.failures = { status: 503, left: Infinity };
  operator = await it.start();
  await untilInstalled(it, operator, "1.5.0");

  // On an empty disk, and with the registry still away, its user removes it: the release goes without its hooks.
  await operator.stop();
  rmSync(join(dirname(it.bye), "sources"), { recursive: true });
  operator = await it.start();
  await operator.until(() => operator.log().includes("is locked and not on disk"), "the content is missing");
  expect(await it.installed()).toBe("1.5.0");
  await it.kubectl(["delete", "modulesource", "platform"]);
  await eventually(
    async () => {
      expect(await it.kubectl(["get", "addonmodules", "-o", "name"])).toBe("");
      expect(await it.kubectl(["get", "configmap", "web", "-o", "name", "--ignore-not-found"])).toBe("");
    },
    "the release and the module are gone",
    { context: () => operator.log().slice(-4000) },
  );
  await eventually(async () => expect(await it.lock()).toEqual({}), "the lock forgets it");
  expect(operator.log()).toContain("A module was deleted without its delete hooks");
  expect(existsSync(it.bye)).toBe(false);
});

test(
  "a second replica has the content on its own disk, and takes over without the registry",
  { timeout: 180_000 },
  async () => {
    const it = await world("sources-ha");
    const digest = await push(it, "1.4.2");
    const first = await it.start("a");
    await first.waitReady();
    const second = await it.start("b");
    await it.source({ web: { version: "1.4.2", enabled: true } });
    await untilInstalled(it, first, "1.4.2");
    await second.until(() => it.unpacked("b") === 1, "the second replica has the content");

    it.lab.registry.failures = { status: 503, left: Infinity };
    const calls = it.lab.registry.calls.length;
    await first.kill9();
    await it.kubectl(["delete", "configmap", "web"]);
    await eventually(async () => expect(await it.installed()).toBe("1.4.2"), "the second replica heals it", {
      context: () => second.log().slice(-4000),
    });
    expect(await it.lock()).toMatchObject({ version: "1.4.2", digest });
    expect(it.lab.registry.calls.length).toBe(calls);
  },
);
