import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { expect, it, onTestFinished } from "vitest";

import { Helm } from "../../../src/helm/binary/helm.ts";
import { silentLogger, systemClock } from "../../../src/base/index.ts";
import { Children } from "../../../src/base/process/index.ts";

it("helm runs again after its temp directory was emptied, with a kubeconfig made again", async () => {
  const dir = mkdtempSync(join(tmpdir(), "helm-home-"));
  onTestFinished(() => rmSync(dir, { recursive: true, force: true }));
  const [bin, tmpDir, kubeconfig] = [join(dir, "helm"), join(dir, "tmp"), join(dir, "tmp", "kubeconfig")];
  writeFileSync(bin, `#!/bin/sh\ncat "$KUBECONFIG" >&2 && pwd >&2 && echo "Error: $(pwd)" >&2; exit 1\n`, {
    mode: 0o755,
  });
  const helm = new Helm({
    children: new Children(),
    bin,
    server: "here",
    namespace: "n",
    managedBy: "v1-home",
    timeoutMs: 60_000,
    historyMax: 1,
    validate: false,
    tmpDir,
    env: { PATH: process.env["PATH"] ?? "" },
    kubeconfig: { path: kubeconfig, refresh: () => Promise.resolve(writeFileSync(kubeconfig, "{}")) },
    logger: silentLogger,
    clock: systemClock,
  });
  for (let round = 1; round <= 2; round++) {
    const ended = helm.uninstall({ release: "web", signal: new AbortController().signal });
    await expect(ended).rejects.toThrow(`helm uninstall web: ${join(tmpDir, "helm-home")}`);
    rmSync(tmpDir, { recursive: true });
  }
});
