// Run with helm 3 as well.
// Runs at night: compatibility.
import { chmod, stat } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, test } from "vitest";

import { ChartReader, computeInputsDigest } from "../../src/helm/chart/chart.ts";
import { RELEASE_LABELS } from "../../src/helm/index.ts";
import { systemClock } from "../../src/base/index.ts";
import { cluster, eventually } from "../support/cluster.ts";
import { HELMS, isUnderTest } from "../support/helms.ts";
import {
  CONFIG_MAP,
  data,
  helmRuns,
  kubectl,
  lab,
  listen,
  put,
  putChart,
  reconcile,
  releases,
  restart,
  runHelm,
  useLab,
} from "../support/releases-lab.ts";

// Releases that a person, another operator, another version of the operator, or another helm has made.

describe.each(HELMS)("releases of others with %s", (which) => {
  const once = isUnderTest(which);
  const bin = cluster().bin[which];
  useLab(bin);

  test("the digest of version 0.2, with the helm binary instead of its version, counts as equal inputs", async () => {
    await putChart(CONFIG_MAP.replace(".Values.global.used", "randAlphaNum 9"));
    const recorded = (): Promise<string> =>
      kubectl(
        "get",
        "secret",
        "sh.helm.release.v1.m.v1",
        "-o",
        "jsonpath={.metadata.labels.addon-operator\\.io/inputs}",
      );
    await reconcile({ m: { a: 1 } });
    const digest = await recorded();
    const { size, mtimeMs } = await stat(bin);
    const chartDir = join(lab.root, "m");
    const formerDigest = await computeInputsDigest({
      module: { name: "m", valuesKey: "m" },
      namespace: lab.namespace,
      chart: await new ChartReader(systemClock).read({ name: "m", chartDir, chart: "own" }),
      values: { global: {}, m: { a: 1 } },
      helm: `${bin}:${size}:${mtimeMs}`,
      capabilities: () => Promise.resolve(""),
    });
    const label = `${RELEASE_LABELS.inputs}=${formerDigest}`;
    await kubectl("label", "--overwrite", "secret", "sh.helm.release.v1.m.v1", label);
    await restart();
    const before = helmRuns;
    expect(await reconcile({ m: { a: 1 } })).toMatchObject({ action: "unchanged", release: { revision: 1 } });
    expect(await recorded()).toBe(digest);
    expect(helmRuns).toBe(before);
    // It is the digest of these inputs only.
    await kubectl("label", "--overwrite", "secret", "sh.helm.release.v1.m.v1", label);
    await restart();
    expect(await reconcile({ m: { a: 2 } })).toMatchObject({ action: "upgraded", release: { revision: 2 } });
  });

  test.runIf(once)("a release without our labels is only labelled when it is the same", async () => {
    await putChart();
    await put("values.json", JSON.stringify({ global: {}, m: { a: 1 } }));
    await runHelm(["install", "m", join(lab.root, "m"), "-f", join(lab.root, "values.json")]);
    await eventually(() => releases.observed.get("m")?.status === "deployed", "the watch tells");
    expect(releases.observed.ownership("m")).toBe("foreign");
    expect(await reconcile({ m: { a: 1 } })).toMatchObject({ action: "labelled", release: { revision: 1 } });
    expect(releases.observed.ownership("m")).toBe("ours");
    expect(await reconcile({ m: { a: 1 } })).toMatchObject({ action: "unchanged" });
  });

  test.runIf(once)(
    "a release made by hand is reported when it is taken over, unless --adopt forbids it",
    async () => {
      await putChart();
      await put("values.json", JSON.stringify({ global: {}, m: { a: 1 } }));
      await runHelm(["install", "m", join(lab.root, "m"), "-f", join(lab.root, "values.json")]);
      const { adopted, report } = listen();
      for (const adopt of ["none", "go"] as const) {
        await restart({ adopt, report });
        await expect(reconcile({ m: { a: 2 } })).rejects.toThrow(`a user of helm (--adopt=${adopt})`);
      }
      expect(releases.observed.get("m")?.revision).toBe(1);
      expect(adopted).toEqual([]);
      await restart({ report });
      await reconcile({ m: { a: 2 } });
      await reconcile({ m: { a: 3 } });
      expect(releases.observed.get("m")?.revision).toBe(3);
      expect(adopted).toEqual(["m"]);
    },
  );

  test.runIf(once)(
    "a release of the Go operator is taken over without a word, unless --adopt=none",
    async () => {
      await putChart();
      await put(
        "values.json",
        JSON.stringify({ global: {}, m: { a: 1 }, _addonOperatorModuleChecksum: "x" }),
      );
      await runHelm(["install", "m", join(lab.root, "m"), "-f", join(lab.root, "values.json")]);
      const { adopted, report } = listen();
      await restart({ adopt: "none", report });
      await expect(reconcile({ m: { a: 2 } })).rejects.toThrow("the Go operator (--adopt=none)");
      expect(releases.observed.ownership("m")).toBe("foreign");
      await restart({ adopt: "go", report });
      expect(releases.observed.ownership("m")).toBe("ours");
      expect(await reconcile({ m: { a: 2 } })).toMatchObject({ action: "upgraded" });
      expect(adopted).toEqual([]);
    },
  );

  test.runIf(once)("the heritage label of the Go operator does not count", async () => {
    await putChart(CONFIG_MAP.replace("metadata: {", "metadata: {labels: {heritage: addon-operator}, "));
    await put("values.json", JSON.stringify({ global: {}, m: { a: 1 } }));
    const labels = ["--labels", "moduleChecksum=abc"];
    await runHelm([
      "upgrade",
      "--install",
      "m",
      join(lab.root, "m"),
      "-f",
      join(lab.root, "values.json"),
      ...labels,
    ]);
    await eventually(() => releases.observed.ownership("m") === "ours", "the watch tells");
    await putChart();
    expect(await reconcile({ m: { a: 1 } })).toMatchObject({ action: "labelled", release: { revision: 1 } });
    // What the Go operator compares with stays on what it made, and only there.
    const marked = () => kubectl("get", "secrets", "-l", "owner=helm,moduleChecksum", "-o", "name");
    expect(await reconcile({ m: { a: 2 } })).toMatchObject({ action: "upgraded", release: { revision: 2 } });
    expect((await marked()).trim()).toBe("secret/sh.helm.release.v1.m.v1");
  });

  test.runIf(once)(
    "another version of helm counts as changed input, the same one at another path does not",
    async () => {
      await putChart(CONFIG_MAP.replace("\ndata: {", `\ndata: {password: "{{ randAlphaNum 20 }}", `));
      await reconcile({ m: { a: 1 } });
      const putHelm = async (line: string): Promise<void> => {
        await put("bin/helm", `#!/bin/sh\n${line}\nexec ${bin} "$@"\n`);
        await chmod(join(lab.root, "bin/helm"), 0o755);
        await restart({ bin: join(lab.root, "bin/helm") });
      };
      await putHelm("");
      expect(await reconcile({ m: { a: 1 } })).toMatchObject({ action: "unchanged" });
      const version = which === "helm" ? "v4.99.0" : "v3.99.0";
      await putHelm(`[ "$1" != version ] || { echo ${version}; exit; }`);
      expect(await reconcile({ m: { a: 1 } })).toMatchObject({ action: "upgraded" });
    },
  );

  test.runIf(once)("a changed scheme of the labels re-labels, it does not upgrade", async () => {
    await putChart();
    await reconcile({ m: { a: 1 } });
    const meta = releases.store.get("m");
    if (meta === undefined) throw new Error("no release");
    const old = {
      [RELEASE_LABELS.managedBy]: "v0-a",
      [RELEASE_LABELS.inputs]: "v0-b",
      [RELEASE_LABELS.manifest]: "v0-c",
    };
    await releases.store.setLabels(meta, old);
    await restart();
    expect(releases.observed.ownership("m")).toBe("ours");
    expect(await reconcile({ m: { a: 1 } })).toMatchObject({ action: "labelled", release: { revision: 1 } });
    expect(await reconcile({ m: { a: 1 } })).toMatchObject({ action: "unchanged" });
  });

  test("a release that helm 3 made goes on with this helm", async () => {
    await putChart();
    await restart({ bin: cluster().bin.helm3 });
    await reconcile({ m: { a: 1 } });
    await restart();
    await putChart(CONFIG_MAP.replace(`, g: "{{ .Values.global.used }}"`, ""));
    expect(await reconcile({ m: { a: 2 } })).toMatchObject({ action: "upgraded" });
    expect(await data()).toBe(`{"a":"2"}`);
  });
});
