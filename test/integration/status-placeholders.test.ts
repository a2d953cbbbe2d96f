// Runs at night: documentation.
import { createHash } from "node:crypto";
import { rmSync } from "node:fs";
import { expect, onTestFinished, test } from "vitest";

import { digestJson } from "../../src/base/index.ts";
import { cluster, freshNamespace } from "../support/cluster.ts";
import { hookLab } from "../support/hook-files.ts";
import { startOperator } from "../support/operator.ts";

// docs/reference/status.md, "Values and secrets": the same stand-ins and digests after a restart, and no guess is confirmed by them.

interface Displayed {
  readonly metadata: { readonly generation: number; readonly resourceVersion: string };
  readonly spec: { readonly configDigest: string };
  readonly status: {
    readonly values: { readonly door: { readonly pin: string; readonly note: string } };
    readonly valuesDigest: string;
  };
}

test("stand-ins and digests stay over a restart and confirm no guess", async () => {
  const namespace = await freshNamespace("stand-ins");
  const lab = hookLab("stand-ins");
  onTestFinished(() => rmSync(lab.dir, { recursive: true, force: true }));
  const door = { pin: "4711-2026", note: "the pin is 4711-2026" };
  lab.file("modules/values.yaml", "doorEnabled: true\n");
  lab.file("modules/010-door/values.yaml", `door: ${JSON.stringify(door)}\n`);
  lab.file("modules/010-door/Chart.yaml", "apiVersion: v2\nname: door\nversion: 1.0.0\n");
  const map =
    "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: door}\ndata: {pin: {{ .Values.door.pin | quote }}}\n";
  lab.file("modules/010-door/templates/map.yaml", map);
  const { kubectl } = cluster();
  const run = async (): Promise<Displayed> => {
    const operator = await startOperator({
      namespace,
      modulesDir: lab.modulesDir,
      globalHooksDir: lab.globalHooksDir,
    });
    await kubectl(["wait", "--for=condition=Ready", "amod/door", "-n", namespace, "--timeout=120s"]);
    await operator.stop();
    expect(operator.log()).not.toContain("4711-2026");
    return JSON.parse(await kubectl(["get", "amod", "door", "-n", namespace, "-o", "json"])) as Displayed;
  };
  const first = await run();
  expect(first.status.values.door.pin).toMatch(/^<redacted:[0-9a-f]{32}>$/);
  expect(first.status.values.door.note).toBe(`the pin is ${first.status.values.door.pin}`);
  const guess = createHash("sha256").update(door.pin).digest("hex").slice(0, 8);
  expect(JSON.stringify(first)).not.toContain(guess);
  const guessed = [{ global: {}, door }, { door }, door].map((each) => digestJson(each));
  expect(guessed).not.toContain(first.status.valuesDigest);
  const secret = await kubectl([
    "get",
    "secret",
    "addon-operator-addon-operator-redaction",
    "-n",
    namespace,
    "-o",
    "json",
  ]);
  expect(Buffer.from((JSON.parse(secret) as { data: { key: string } }).data.key, "base64").length).toBe(32);
  const second = await run();
  expect(second.spec).toEqual(first.spec);
  expect(second.metadata.generation).toBe(first.metadata.generation);
  for (const key of ["values", "valuesDigest"] as const)
    expect(second.status[key]).toEqual(first.status[key]);
}, 240_000);
