import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";

import { cluster, eventually, freshNamespace } from "../support/cluster.ts";
import { hookLab, type Lab } from "../support/hook-files.ts";
import { startOperator } from "../support/operator.ts";

// docs/guides/running.md, "Stopping".

const { kubectl } = cluster();

/** The process whose id a hook wrote into a file; 0 before that. */
function pidIn(lab: Lab, file: string): number {
  const path = join(lab.dir, file);
  return existsSync(path) ? Number(readFileSync(path, "utf8")) : 0;
}

/** A process that ended counts as such, also where nobody has collected it yet. */
function lives(pid: number): boolean {
  const stat = existsSync(`/proc/${pid}/stat`) ? readFileSync(`/proc/${pid}/stat`, "utf8") : "";
  return stat !== "" && !stat.slice(stat.lastIndexOf(")")).startsWith(") Z");
}

test("SIGTERM while hooks are asked for their configuration ends start-up, with exit code 0", async () => {
  const namespace = await freshNamespace("stopping");
  const lab = hookLab("stopping");
  lab.file("global-hooks/slow.sh", `#!/bin/sh\necho $$ >'${lab.dir}/asked'\nexec sleep 300\n`);
  const { globalHooksDir, modulesDir } = lab;
  const operator = await startOperator({ namespace, modulesDir, globalHooksDir });
  await eventually(() => expect(pidIn(lab, "asked")).toBeGreaterThan(0), "the hook is asked");
  expect(await operator.stop()).toMatchObject({ code: 0, signal: null });
  expect(lives(pidIn(lab, "asked"))).toBe(false);
});

test("an orderly stop ends what hooks left in the background", async () => {
  const namespace = await freshNamespace("stopping");
  const lab = hookLab("stopping");
  lab.file(
    "global-hooks/background.sh",
    `#!/bin/sh
if [ "$1" = --config ]; then echo '{"configVersion": "v1", "onStartup": 1}'; exit; fi
setsid sleep 300 >/dev/null 2>&1 </dev/null &
echo $! >'${lab.dir}/background'
`,
  );
  const { globalHooksDir, modulesDir } = lab;
  const operator = await startOperator({ namespace, modulesDir, globalHooksDir });
  await operator.waitReady();
  expect(lives(pidIn(lab, "background"))).toBe(true);
  expect(await operator.stop()).toMatchObject({ code: 0, signal: null });
  expect(lives(pidIn(lab, "background"))).toBe(false);
});

test("a hook that does not answer --config in a converge delays the stop no longer than other hooks", async () => {
  const namespace = await freshNamespace("stopping");
  const lab = hookLab("stopping");
  lab.file("modules/010-web/hooks/slow.sh", `#!/bin/sh\necho $$ >'${lab.dir}/asked'\nexec sleep 300\n`);
  const { globalHooksDir, modulesDir } = lab;
  const env = { SHUTDOWN_TIMEOUT: "1s" };
  const operator = await startOperator({ namespace, modulesDir, globalHooksDir, env });
  await operator.waitReady();
  const patch = JSON.stringify({ data: { webEnabled: "true" } });
  await kubectl(["patch", "configmap", "addon-operator", "-n", namespace, "--type=merge", "-p", patch]);
  await eventually(() => expect(pidIn(lab, "asked")).toBeGreaterThan(0), "the hook is asked");
  const startedAt = performance.now();
  expect(await operator.stop()).toMatchObject({ code: 0, signal: null });
  // By itself, the question ends after a minute.
  expect(performance.now() - startedAt).toBeLessThan(30_000);
  expect(lives(pidIn(lab, "asked"))).toBe(false);
});
