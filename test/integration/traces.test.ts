// Runs at night: moves and limits that few changes touch.
import { appendFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { execa } from "execa";
import { expect, onTestFinished, test } from "vitest";

import { querySocket } from "../../src/main/commands/operator/socket.ts";
import type { RunView } from "../../src/base/trace/index.ts";
import { cluster, eventually, freshNamespace } from "../support/cluster.ts";
import { callOf } from "../support/command-line.ts";
import { fileTree } from "../support/hook-files.ts";
import { startOperator } from "../support/operator.ts";

const HOOK = `#!/bin/sh
if [ "$1" = --config ]; then
  echo '{"configVersion": "v1", "beforeHelm": 1}'
  exit 0
fi
echo "the hook speaks"
[ -z "$TRACEPARENT" ] || echo "within $TRACEPARENT"
echo '{"operation": "CreateOrUpdate", "object": {"apiVersion": "v1", "kind": "Secret", "stringData": {"key": "value"}, "metadata": {"name": "by-hook", "namespace": "'"$NAMESPACE"'"}}}' >"$KUBERNETES_PATCH_PATH"
`;

const FILES: Readonly<Record<string, string>> = {
  "modules/010-web/Chart.yaml": "apiVersion: v2\nname: web\nversion: 1.0.0\n",
  "modules/010-web/templates/map.yaml":
    'apiVersion: v1\nkind: ConfigMap\nmetadata: {name: web}\ndata: {size: "{{ .Values.web.size }}"}\n',
  "modules/010-web/values.yaml": "web: {size: 1}\nwebEnabled: true\n",
  "modules/010-web/hooks/speak": HOOK,
};

/** Names below names, each once. */
function names(run: RunView, parentId = run.id): unknown[] {
  const own = run.spans.filter((each) => each.parentId === parentId);
  const texts = own.map(({ name, spanId }) => JSON.stringify([name, ...names(run, spanId)]));
  return [...new Set(texts)].map((text): unknown => JSON.parse(text));
}

async function edit(namespace: string): Promise<void> {
  const patch = ["--type=merge", "-p", JSON.stringify({ data: { web: "size: 2" } })];
  await cluster().kubectl(["-n", namespace, "patch", "configmap", "addon-operator", ...patch]);
}

test(
  "an edit is one trace, from the edit over hook, helm and requests to the status",
  { timeout: 240_000 },
  async () => {
    const root = fileTree("traces", FILES);
    const namespace = await freshNamespace("traces");
    const places = { namespace, modulesDir: join(root, "modules"), globalHooksDir: join(root, "hooks") };
    const operator = await startOperator({ ...places, env: { NAMESPACE: namespace, LOG_TYPE: "json" } });
    await operator.waitReady();
    const requested = async (query: string): Promise<readonly RunView[]> => {
      const { body } = await querySocket(operator.socket, callOf(["raw", `/runs.json?${query}`]));
      return (JSON.parse(body) as { runs: readonly RunView[] }).runs;
    };
    await edit(namespace);

    const run = await eventually(
      async () => {
        const runs = await requested("module=web&lines=true");
        const found = runs.find(
          ({ from, isOver, spans }) =>
            from.name === "edit" && isOver && spans.some(({ kind }) => kind === "status"),
        );
        return found ?? false;
      },
      "the run of the edit with its status",
      { context: operator.log },
    );
    const contains = (...parts: unknown[]): unknown => expect.arrayContaining(parts);
    const status = "/apis/addon-operator.io/v1alpha1/namespaces/{namespace}/addonmodules/{name}/status";
    expect(names(run)).toEqual(
      contains(
        ["wait in queue"],
        contains("web:hooks/speak", ["POST /api/v1/namespaces/{namespace}/secrets"]),
        contains("reconcile", ["helm upgrade"]),
        contains("status of AddonModule web", [`PATCH ${status}`]),
      ),
    );
    expect(run.task).toMatchObject({
      name: "run-module web",
      attributes: { kind: "run-module", module: "web", queue: "main", attempt: 1, outcome: "done" },
    });
    expect(run.lines?.map(({ message }) => message)).toEqual(["the hook speaks", "Module run succeeded"]);
    const ids = { task: run.id, trace: run.task.traceId };
    const logged = operator.lines
      .filter((line) => line.includes(run.id))
      .map((line): unknown => JSON.parse(line));
    expect(logged).toEqual([
      expect.objectContaining({ msg: "the hook speaks", hook: "hooks/speak", ...ids }),
      expect.objectContaining({ msg: "Module run succeeded", ...ids }),
    ]);
  },
);

/** A collector that writes what it gets to a file, line by line, as the `file` exporter of OpenTelemetry's does. */
async function collector(): Promise<{ endpoint: string; file: string }> {
  const file = join(mkdtempSync(join(tmpdir(), "collector-")), "traces.json");
  onTestFinished(() => rmSync(dirname(file), { recursive: true, force: true }));
  writeFileSync(file, "");
  const server = createServer((request, response) => {
    let body = "";
    request.setEncoding("utf8").on("data", (text: string) => void (body += text));
    request.on("end", () => {
      appendFileSync(file, `${body}\n`);
      response.end("{}");
    });
  });
  await new Promise<void>((resolve) => void server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => void server.close());
  return { endpoint: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, file };
}

const page = readFileSync(join(import.meta.dirname, "../../docs/reference/metrics.md"), "utf8");
/** The program for jq that prints a tree, and the tree. */
const [, program = "", drawn = ""] =
  /jq -rs '\n([^']*)' traces\.json\n```\n\n[^`\n]*\n\n```\n([^`]*)```/.exec(page) ?? [];

test("a collector gets the trace of an edit, which is printed as a tree", { timeout: 240_000 }, async () => {
  const root = fileTree("traces", FILES);
  const namespace = await freshNamespace("otlp");
  const { endpoint, file } = await collector();
  const places = { namespace, modulesDir: join(root, "modules"), globalHooksDir: join(root, "hooks") };
  const env = { NAMESPACE: namespace, OTEL_EXPORTER_OTLP_ENDPOINT: endpoint };
  const operator = await startOperator({ ...places, env });
  await operator.waitReady();
  const metrics = async (): Promise<string> => {
    const headers = { accept: "application/openmetrics-text;version=1.0.0,text/plain;q=0.5" };
    return (await fetch(`${operator.url}/metrics`, { headers })).text();
  };
  expect(await metrics()).not.toContain("trace_id");
  await edit(namespace);
  const displayed = await eventually(
    async () => {
      const { stdout } = await execa("jq", ["-rs", program, file]);
      return stdout.includes("status of AddonModule web") && stdout;
    },
    "the trace of the edit",
    { context: operator.log },
  );
  const plain = (text: string): string[] =>
    text
      .trimEnd()
      .split("\n")
      .map((line) => line.replace(/ \d+ ms$/, ""));
  // How many requests and statuses there are is a matter of timing.
  expect(plain(displayed)).toEqual(expect.arrayContaining(plain(drawn)));
  expect(plain(drawn)[0]).toBe("edit");
  const trace = /"traceId":"(\w+)","spanId":"\w+","name":"edit"/.exec(readFileSync(file, "utf8"))?.[1];
  expect(operator.log()).toMatch(new RegExp(`within 00-${trace}-[0-9a-f]{16}-01`));
  const exemplars = (await metrics()).split("\n").filter((line) => line.includes(`# {trace_id="${trace}"}`));
  const series = exemplars.map((line) => line.slice(0, line.indexOf("_bucket{")));
  const expected = [
    "module_run",
    "module_hook_run",
    "module_helm",
    "helm_operation",
    "kubernetes_client_request_latency",
  ];
  expect(series).toEqual(expect.arrayContaining(expected.map((name) => `addon_operator_${name}_seconds`)));
});

test(
  "a collector that is not there holds nothing up; what it does not get is counted",
  { timeout: 240_000 },
  async () => {
    const root = fileTree("traces", FILES);
    const namespace = await freshNamespace("otlp");
    const places = { namespace, modulesDir: join(root, "modules"), globalHooksDir: join(root, "hooks") };
    const env = { NAMESPACE: namespace, OTEL_EXPORTER_OTLP_ENDPOINT: "http://127.0.0.1:9" };
    const operator = await startOperator({ ...places, env });
    await operator.waitReady();
    await edit(namespace);
    await eventually(
      async () => {
        const text = await (await fetch(`${operator.url}/metrics`)).text();
        expect(text).toMatch(/^addon_operator_trace_spans_dropped_total\{reason="failed"\} [1-9]/m);
        expect(text).toMatch(/^addon_operator_trace_spans_dropped_total\{reason="full"\} 0/m);
      },
      "spans are dropped",
      { context: operator.log },
    );
    expect(operator.lines.filter((line) => line.includes("The collector takes no spans"))).toHaveLength(1);
  },
);

/** Fails with the value that it was given, and reports it in every way. */
const TELLTALE = `#!/bin/sh
if [ "$1" = --config ]; then
  echo '{"configVersion": "v1", "beforeHelm": 1}'
  exit 0
fi
key=$(jq -r .web.apiKey "$VALUES_PATH")
echo "it is $key"
echo "{\\"name\\": \\"with $key\\", \\"start\\": 1, \\"end\\": 2, \\"attributes\\": {\\"of\\": \\"$key\\"}}" >"$SPANS_PATH"
echo "refused: $key" >&2
exit 3
`;

test("no secret of a span leaves the operator", { timeout: 240_000 }, async () => {
  const secret = "q8Zr2LmXv41TnBd7";
  const values = `web: {size: 1, apiKey: ${secret}}\nwebEnabled: true\n`;
  const hook = { "modules/010-web/hooks/speak": TELLTALE, "modules/010-web/values.yaml": values };
  const root = fileTree("traces", { ...FILES, ...hook });
  const namespace = await freshNamespace("secrets");
  const { endpoint, file } = await collector();
  const places = { namespace, modulesDir: join(root, "modules"), globalHooksDir: join(root, "hooks") };
  const operator = await startOperator({ ...places, args: ["--ui", `--otlp-endpoint=${endpoint}`] });
  const socket = async (path: string): Promise<string> => (await operator.debug(path)).body;
  const displayed = await eventually(
    async () => {
      const logs = await operator.cli(["logs", "web"]);
      const page = await operator.http("/ui/runs");
      const paths = ["/runs.json?lines=true", "/bundle.json"];
      const texts = [
        readFileSync(file, "utf8"),
        logs.stdout,
        page.body,
        ...(await Promise.all(paths.map(socket))),
      ];
      return texts.every((text) => text.includes("exit code 3")) && texts;
    },
    "the failed run, wherever it is shown",
    { context: operator.log },
  );
  for (const text of [...displayed, operator.log()]) expect(text.includes(secret)).toBe(false);
  expect(displayed.filter((text) => text.includes("with <redacted:"))).toHaveLength(4);
});
