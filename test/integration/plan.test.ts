// Run with helm 3 as well.
import { chmodSync, existsSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";

import { parseYaml } from "../../src/base/index.ts";
import type { JsonObject } from "../../src/base/model/index.ts";
import { cluster, freshNamespace, helmUnderTest } from "../support/cluster.ts";
import { hookLab } from "../support/hook-files.ts";
import { startOperator } from "../support/operator.ts";

// docs/reference/commands.md, "plan": what a start would do, told where no operator runs.

test(
  "plan without an operator reports what a start would do, and changes nothing",
  { timeout: 240_000 },
  async () => {
    const { kubectl, apply } = cluster();
    const namespace = await freshNamespace("plan");
    const lab = hookLab("plan");
    const requested = join(lab.dir, "asked");
    for (const name of ["leaves", "purged", "rests", "stays", "used"]) {
      lab.file(`modules/${name}/Chart.yaml`, `apiVersion: v2\nname: ${name}\nversion: 1.0.0\n`);
      lab.file(
        `modules/${name}/templates/map.yaml`,
        `apiVersion: v1\nkind: ConfigMap\nmetadata: {name: ${name}}\n`,
      );
    }
    lab.file("modules/stays/addon.yaml", 'requires: {modules: {used: "*"}}\n');
    const configMap = (data: Record<string, string>) =>
      apply({ apiVersion: "v1", kind: "ConfigMap", metadata: { name: "addon-operator", namespace }, data });
    const on = (...names: readonly string[]) =>
      Object.fromEntries(names.map((name) => [`${name}Enabled`, "true"]));
    await configMap(on("leaves", "purged", "rests", "stays", "used"));
    const operator = await startOperator({ namespace, modulesDir: lab.modulesDir });
    await operator.waitReady();
    await operator.stop();
    const releases = () =>
      kubectl(["get", "secrets", "-n", namespace, "-l", "owner=helm", "-o", "name"]).then((text) =>
        text.trim(),
      );
    const before = await releases();

    rmSync(join(lab.modulesDir, "purged"), { recursive: true });
    lab.hook("modules/hooked/hooks/h.sh", { configVersion: "v1", onStartup: 1 }, `touch "${requested}-hook"`);
    lab.file(
      "modules/refuses/enabled",
      `#!/bin/sh\ntouch "${requested}"\necho password=hunter2 >&2\nexit 1\n`,
    );
    chmodSync(join(lab.modulesDir, "refuses", "enabled"), 0o755);
    const seen = join(lab.dir, "seen");
    // Its values break its own schema, so it requires action; for scripts after it, it is on all the same.
    for (const name of ["asks", "breaks"]) {
      lab.file(`modules/${name}/values.yaml`, `${name}: {size: 1}\n`);
      lab.file(
        `modules/${name}/openapi/config-values.yaml`,
        "type: object\nproperties: {size: {type: string}}\n",
      );
    }
    lab.file("modules/asks/enabled", '#!/bin/sh\necho false >"$MODULE_ENABLED_RESULT"\n');
    lab.file(
      "modules/looks/enabled",
      `#!/bin/sh\ncp "$VALUES_PATH" "${seen}"\necho true >"$MODULE_ENABLED_RESULT"\n`,
    );
    for (const name of ["asks", "looks"]) chmodSync(join(lab.modulesDir, name, "enabled"), 0o755);
    await configMap({
      ...on("purged", "rests", "stays", "hooked", "refuses", "asks", "breaks", "looks"),
      restsMaintenance: "NoResourceReconciliation",
    });
    const plan = async (wanted = 0): Promise<JsonObject> => {
      const { code, stdout } = await operator.cli([
        "plan",
        `--namespace=${namespace}`,
        `--modules-dir=${lab.modulesDir}`,
        `--helm-bin=${helmUnderTest()}`,
      ]);
      expect(code).toBe(wanted);
      return parseYaml(stdout, "plan").value as JsonObject;
    };
    const reported = await plan();
    expect(reported).toMatchObject({
      install: {},
      upgrade: {},
      delete: { leaves: "disabled by none" },
      purge: { purged: "there is no such module" },
      unchanged: { stays: "inputs are the same", used: "disabled, but stays requires it" },
      suspended: { rests: "helm does not run for it" },
      hooksOnly: { hooked: "it has no chart", looks: "it has no chart" },
      disabled: { asks: expect.stringContaining("disabled by its enabled script") },
      invalid: { breaks: expect.stringContaining("size") },
      retrying: { refuses: expect.stringMatching(/password=<redacted:[0-9a-f]{32}>/) },
      waves: [["hooked"], ["looks"], ["rests"]],
      waits: { stays: "used, which is disabled" },
      notes: [expect.stringContaining("patches of hooks are unknown")],
    });
    const values = JSON.parse(readFileSync(seen, "utf8")) as { global: { enabledModules: string[] } };
    expect(values.global.enabledModules).toEqual(["breaks", "hooked"]);
    expect([existsSync(requested), existsSync(`${requested}-hook`)]).toEqual([true, false]);
    expect(await releases()).toBe(before);
    // Stand-ins are of a key of its own, so they are others each time.
    expect((await plan())["retrying"]).not.toEqual(reported["retrying"]);

    // The operator that has ended left in the AddonModule how long its run took.
    await configMap(on("rests"));
    expect(await plan()).toMatchObject({ waves: [["rests"]], waveSeconds: [expect.any(Number)] });

    await configMap({ global: "- a list" });
    expect(await plan(1)).toEqual({
      refuses: [
        expect.stringContaining("global: must be a map"),
        expect.stringContaining("does not start with an invalid ConfigMap"),
      ],
    });
  },
);
