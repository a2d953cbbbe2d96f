// Runs at night: hostile input.
import { chmodSync, existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";

import { cluster, eventually, freshNamespace } from "../support/cluster.ts";
import { hookLab } from "../support/hook-files.ts";
import { HOSTILE } from "../support/hostile-requests.ts";
import { startOperator } from "../support/operator.ts";
import { exchange, statusOf } from "../support/raw-http.ts";

/** Lets a test throw where nothing catches it. */
const THROW = `data:text/javascript,${encodeURIComponent(
  'process.on("SIGUSR2", () => setImmediate(() => { throw new Error("thrown by a test"); }));',
)}`;

const HOOK = `#!/bin/sh
if [ "$1" = --config ]; then
  echo '{"configVersion": "v1", "schedule": [{"crontab": "* * * * * *", "queue": "long"}]}'
  exit 0
fi
echo $$ >"$(dirname "$0")/../../../pid"
exec sleep 600
`;

function isAlive(pid: number): boolean {
  return existsSync(`/proc/${pid}`) && !/ Z /.test(readFileSync(`/proc/${pid}/stat`, "utf8"));
}

test(
  "hostile requests do not end the operator; an uncaught error does, in order",
  { timeout: 240_000 },
  async () => {
    const lab = hookLab("hostile");
    lab.file("modules/one/Chart.yaml", "apiVersion: v2\nname: one\nversion: 1.0.0\n");
    lab.file("modules/one/values.yaml", "oneEnabled: true\n");
    lab.file("modules/one/hooks/long", HOOK);
    chmodSync(join(lab.modulesDir, "one", "hooks", "long"), 0o755);
    const namespace = await freshNamespace("hostile");
    const operator = await startOperator({
      namespace,
      modulesDir: lab.modulesDir,
      args: ["--shutdown-timeout=1s"],
      env: { NODE_OPTIONS: `--import=${THROW}` },
    });
    await operator.waitReady();

    const port = Number(new URL(operator.url).port);
    for (const address of [{ port }, { path: operator.socket }]) {
      for (const [name, bytes, statuses] of HOSTILE) {
        const status = statusOf(await exchange(address, Buffer.from(bytes, "latin1"), true));
        expect([name, statuses.includes(status)]).toEqual([name, true]);
      }
    }
    expect((await operator.http("/readyz")).status).toBe(200);
    expect((await operator.http("/metrics")).body).toContain(
      'addon_operator_internal_errors_total{place="http"} 0',
    );

    const file = join(lab.modulesDir, "..", "pid");
    const pid = (): number => Number(readFileSync(file, "utf8"));
    await eventually(() => expect(pid()).toBeGreaterThan(0), "the hook runs", { context: operator.log });
    const hook = pid();
    expect(isAlive(hook)).toBe(true);
    process.kill(operator.pid ?? 0, "SIGUSR2");
    expect((await operator.exit).code).toBe(1);
    expect(operator.log()).toMatch(/ERROR An internal error.* place=uncaught error="thrown by a test"/);
    expect(isAlive(hook)).toBe(false);
    const lease = ["get", "lease", "addon-operator-addon-operator", "-n", namespace];
    const { spec } = await cluster().json<{ spec: { holderIdentity?: string } }>(lease);
    expect(spec.holderIdentity ?? "").toBe("");
  },
);
