import { existsSync, readFileSync } from "node:fs";
import { expect, test } from "vitest";

import type { IModuleSource } from "../../src/report/index.ts";
import { keyPair } from "../sources/registry/artifact/lab.ts";
import { eventually } from "../support/cluster.ts";
import { push, untilInstalled, world } from "../support/source-world.ts";

// docs/guides/module-sources.md: what a key signed is fetched, locked, staged and run; nothing that a registry does removes it.

const conditionOf = (status: NonNullable<IModuleSource["status"]>, type: string) =>
  status.conditions?.find((each) => each.type === type);

test(
  "fetched, switched, refused, kept without a registry, removed by its user",
  { timeout: 180_000 },
  async () => {
    const it = await world("sources");
    const first = await push(it, "1.4.2");
    let operator = await it.start();
    await operator.waitReady();
    await it.source({ web: { version: "1.4.2", order: 10, enabled: true } });
    await untilInstalled(it, operator, "1.4.2");
    await eventually(
      async () => expect(conditionOf(await it.status(), "Ready")?.status).toBe("True"),
      "Ready",
    );
    expect(await it.status()).toMatchObject({
      summary: "1/1",
      modules: [{ name: "web", version: "1.4.2", digest: first, verifiedBy: "ci.pub" }],
    });
    await eventually(async () => {
      const text = await it.kubectl(["get", "addonmodule", "web", "-o", "jsonpath={.status.source.digest}"]);
      expect(text).toBe(first);
    }, "the source in the status of the module");

    const second = await push(it, "1.5.0");
    await it.source({ web: { digest: second, order: 10, enabled: true } });
    await untilInstalled(it, operator, "1.5.0");
    expect(await it.lock()).toMatchObject({ version: "1.5.0", digest: second, previous: { digest: first } });

    // Signed by someone else.
    await push(it, "1.6.0", keyPair());
    await it.source({ web: { version: "1.6.0", order: 10, enabled: true } });
    await eventually(
      async () => expect(conditionOf(await it.status(), "Stalled")).toMatchObject({ reason: "NotVerified" }),
      "it is refused",
    );
    expect(await it.lock()).toMatchObject({ version: "1.5.0" });
    expect(await it.installed()).toBe("1.5.0");

    // Registry away, and a restart: the same content, without a request.
    await it.source({ web: { version: "1.5.0", order: 10, enabled: true } });
    await eventually(
      async () => expect(conditionOf(await it.status(), "Ready")?.status).toBe("True"),
      "Ready",
    );
    await operator.stop();
    it.lab.registry.failures = { status: 503, left: Infinity };
    const calls = it.lab.registry.calls.length;
    operator = await it.start();
    await operator.waitReady();
    expect(await it.installed()).toBe("1.5.0");
    expect(it.lab.registry.calls.length).toBe(calls);
    expect(existsSync(it.bye)).toBe(false);

    // Deleted by its user: off, with its delete hook, and then forgotten.
    await it.kubectl(["delete", "modulesource", "platform"]);
    // The shell creates the file before it writes the line.
    await eventually(() => expect(readFileSync(it.bye, "utf8")).toBe("1.5.0\n"), "the delete hook ran", {
      context: () => operator.log().slice(-4000),
    });
    await eventually(async () => expect(await it.lock()).toEqual({}), "the lock forgets it");
    await eventually(
      async () => expect(await it.kubectl(["get", "addonmodules", "-o", "name"])).toBe(""),
      "no module",
    );
  },
);
