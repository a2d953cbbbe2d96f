import { mkdirSync, mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";

import { connect } from "../../src/kube/index.ts";
import { silentLogger } from "../../src/base/index.ts";
import { cluster, eventually, freshNamespace } from "../support/cluster.ts";
import { startOperator } from "../support/operator.ts";

// docs/reference/status.md, "What a script may rely on". `npm run test:long` makes it 200 edits.
const EDITS = process.env["LONG"] === "1" ? 200 : 5;

interface Mirrored {
  readonly spec: { readonly configDigest: string };
  readonly status: { readonly lastHandledReconcileAt?: string; readonly state: string };
}

function writeModule(): string {
  const root = mkdtempSync(join(tmpdir(), "handshake-"));
  const dir = join(root, "010-one");
  mkdirSync(join(dir, "templates"), { recursive: true });
  writeFileSync(join(dir, "Chart.yaml"), "apiVersion: v2\nname: one\nversion: 1.0.0\n");
  writeFileSync(join(dir, "values.yaml"), "one:\n  text: first\noneEnabled: true\n");
  const template =
    "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: made}\ndata: {text: {{ .Values.one.text | quote }}}\n";
  writeFileSync(join(dir, "templates", "cm.yaml"), template);
  return root;
}

test(`a wait on the token never returns before the edit was worked on (${EDITS} edits)`, async () => {
  const namespace = await freshNamespace("handshake");
  const operator = await startOperator({ namespace, modulesDir: writeModule() });
  await operator.waitReady();
  const client = connect({ kubeConfig: cluster().kubeconfig, userAgent: "test", logger: silentLogger });
  const merge = (path: string, body: unknown): Promise<unknown> =>
    client.json({ method: "PATCH", path, body, contentType: "application/merge-patch+json" });
  const maps = `/api/v1/namespaces/${namespace}/configmaps`;
  const mirror = `/apis/addon-operator.io/v1alpha1/namespaces/${namespace}/addonmodules/one`;
  await eventually(() => client.json<Mirrored>({ path: mirror }), "the AddonModule");
  for (let edit = 1; edit <= EDITS; edit++) {
    await merge(`${maps}/addon-operator`, { data: { one: `text: edit-${edit}\n` } });
    const token = `token-${edit}`;
    await merge(mirror, { metadata: { annotations: { "reconcile.addon-operator.io/requestedAt": token } } });
    await eventually(
      async () => {
        const { status } = await client.json<Mirrored>({ path: mirror });
        expect(status.lastHandledReconcileAt).toBe(token);
      },
      `the echo of ${token}`,
      { intervalMs: 10 },
    );
    const made = await client.json<{ data: { text: string } }>({ path: `${maps}/made` });
    expect(made.data.text).toBe(`edit-${edit}`);
  }
  await client.close();
}, 240_000);

test("a token from before a restart comes back when the module has run", { timeout: 240_000 }, async () => {
  const namespace = await freshNamespace("handshake");
  const modulesDir = writeModule();
  const { kubectl } = cluster();
  const annotate = (token: string) =>
    kubectl([
      "annotate",
      "--overwrite",
      "addonmodule/one",
      "-n",
      namespace,
      `reconcile.addon-operator.io/requestedAt=${token}`,
    ]);
  const comesBack = (token: string) =>
    kubectl([
      "wait",
      "addonmodule/one",
      "-n",
      namespace,
      "--timeout=120s",
      `--for=jsonpath={.status.lastHandledReconcileAt}=${token}`,
    ]);
  const first = await startOperator({ namespace, modulesDir });
  await first.waitReady();
  await kubectl(["wait", "addonmodule/one", "-n", namespace, "--for=create", "--timeout=120s"]);
  await annotate("before");
  await comesBack("before");
  await first.stop();
  await annotate("meanwhile");
  const second = await startOperator({ namespace, modulesDir });
  await comesBack("meanwhile");
  await second.waitReady();
});
