import { rmSync } from "node:fs";
import { expect, onTestFinished, test } from "vitest";

import { toYaml } from "../../src/base/index.ts";
import type { JsonObject } from "../../src/base/model/index.ts";
import { cluster, freshNamespace } from "../support/cluster.ts";
import { hookLab } from "../support/hook-files.ts";
import type { Lab } from "../support/hook-files.ts";
import { startOperator } from "../support/operator.ts";
import { watchStatuses } from "../support/statuses.ts";

// docs/reference/status.md, "Values and secrets": nothing that looks like a secret reaches a status, an Event, the log, a series or a queue.

const KEYS = ["password", "dbPasswd", "client_secret", "apiToken", "tls.key", "caCert", "credentials", "DSN"];
const secret = (i: number): string => `s3cr3t-${i}-zzz`;
const keyOf = (i: number): string => KEYS[i % KEYS.length] ?? "";
const range = (from: number, to: number): number[] => Array.from({ length: to - from }, (_, i) => from + i);
const pem = (i: number): string => `-----BEGIN PRIVATE KEY-----\n${secret(i)}\n-----END PRIVATE KEY-----`;

/** A values section with the secrets `from` to `to`, each in another way. */
function section(from: number, to: number): JsonObject {
  const ways: readonly ((i: number) => JsonObject)[] = [
    (i) => ({ [keyOf(i)]: secret(i) }),
    (i) => ({ deep: [{ list: [{ [keyOf(i)]: [secret(i)] }] }] }),
    (i) => ({ url: `postgres://admin:${secret(i)}@db:5432/x` }),
    (i) => ({ text: pem(i) }),
    (i) => ({ blob: `${secret(i)}${"x".repeat(300)}` }),
  ];
  return Object.fromEntries(range(from, to).map((i) => [`s${i}`, ways[i % ways.length]?.(i)]));
}

/** Shell that says the secrets `from` to `to` in ways that can be said without knowing them. */
function saying(from: number, to: number): string {
  const ways: readonly ((i: number) => string)[] = [
    (i) => `connecting with ${keyOf(i)}=${secret(i)}`,
    (i) => `{"level":"info","msg":"x","${keyOf(i)}":"${secret(i)}"}`,
    (i) => `curl -H 'Authorization: Bearer ${secret(i)}aaaa' https://u:${secret(i)}@host/`,
    (i) => pem(i),
    (i) => `tool --${keyOf(i)} ${secret(i)} failed: ${JSON.stringify(JSON.stringify({ token: secret(i) }))}`,
  ];
  return range(from, to)
    .map((i) => `cat <<'SAID' ${i % 2 === 0 ? ">&2" : ""}\n${ways[i % ways.length]?.(i)}\nSAID`)
    .join("\n");
}

const EVERY_VALUE = `jq -r '.. | strings' "$VALUES_PATH"`;

function writeModules(lab: Lab, namespace: string): void {
  const enabled = ["app", "patch", "json", "schema", "chart", "object"].map(
    (name) => `${name}Enabled: true\n`,
  );
  lab.file("modules/values.yaml", enabled.join(""));
  const on = (hook: string, body: string) =>
    lab.hook(
      `modules/${hook}.sh`,
      { configVersion: "v1", beforeHelm: 1 },
      `[ "$run" = 000000 ] || exit 0\n${body}`,
    );
  // Each fails in its first run only: a failing module delays those after it.
  on("010-app/hooks/says-values", EVERY_VALUE);
  on("010-app/hooks/says-secrets", saying(50, 100));
  on(
    "010-app/hooks/zz-fails",
    `${EVERY_VALUE} >&2\necho "cannot log in as ${keyOf(51)}=${secret(51)}" >&2; exit 1`,
  );
  const patch = range(100, 140).map((i) => ({ op: "add", path: `/patch/p${i}`, value: section(i, i + 1) }));
  on("020-patch/hooks/a-patches", `cat >"$VALUES_JSON_PATCH_PATH" <<'EOF'\n${JSON.stringify(patch)}\nEOF`);
  on("020-patch/hooks/b-says", `${EVERY_VALUE}; ${EVERY_VALUE} >&2; exit 1`);
  const broken = `{"op":"add","path":"/json/x","value":{"token":"${secret(140)}" ${secret(141)}}}`;
  on("030-json/hooks/breaks", `echo '${broken}' >"$VALUES_JSON_PATCH_PATH"`);
  const properties = "password: {type: string, pattern: '^[a-z]+$'}, n: {type: integer}";
  for (const which of ["config-values", "values"])
    lab.file(`modules/040-schema/openapi/${which}.yaml`, `type: object\nproperties: {${properties}}\n`);
  const wrong = range(142, 150).map((i) => ({
    op: "add",
    path: `/schema/${keyOf(i - 142)}`,
    value: secret(i),
  }));
  on("040-schema/hooks/breaks", `cat >"$VALUES_JSON_PATCH_PATH" <<'EOF'\n${JSON.stringify(wrong)}\nEOF`);
  lab.file("modules/050-chart/Chart.yaml", "apiVersion: v2\nname: chart\nversion: 1.0.0\n");
  lab.file(
    "modules/050-chart/values.yaml",
    `chart: ${JSON.stringify({ password: secret(150), token: secret(151) })}\n`,
  );
  lab.file(
    "modules/050-chart/templates/a.yaml",
    '{{ fail (printf "bad value %s and %s" .Values.chart.password .Values.chart.token) }}\n',
  );
  lab.file("modules/045-object/values.yaml", `object: ${JSON.stringify(section(152, 160))}\n`);
  const bad = (i: number) => ({
    operation: "Create",
    object: {
      apiVersion: "v1",
      kind: "Secret",
      metadata: { name: `bad-${i}`, namespace, labels: { token: `!${secret(i)}` } },
      stringData: { password: secret(i) },
    },
  });
  on(
    "045-object/hooks/creates",
    `cat >"$KUBERNETES_PATCH_PATH" <<'EOF'\n${range(152, 160)
      .map((i) => JSON.stringify(bad(i)))
      .join("\n")}\nEOF`,
  );
  lab.file(
    "modules/070-script/enabled",
    `#!/bin/sh\necho "no: ${keyOf(160)}=${secret(160)}" >"$MODULE_ENABLED_REASON"; echo false >"$MODULE_ENABLED_RESULT"\n`,
  );
  lab.file("modules/070-script/values.yaml", "scriptEnabled: true\n");
}

test("none of 200 secrets is shown anywhere", async () => {
  const namespace = await freshNamespace("secrets");
  const lab = hookLab("secrets");
  onTestFinished(() => rmSync(lab.dir, { recursive: true, force: true }));
  writeModules(lab, namespace);
  const { apply, kubectl } = cluster();
  const metadata = { name: "addon-operator", namespace };
  const data: Record<string, string> = { app: toYaml(section(0, 50)) };
  await apply({ apiVersion: "v1", kind: "ConfigMap", metadata, data });
  const statuses = await watchStatuses(namespace);
  const operator = await startOperator({
    namespace,
    modulesDir: lab.modulesDir,
    globalHooksDir: lab.globalHooksDir,
    env: { LOG_PROXY_HOOK_JSON: "true", LOG_LEVEL: "debug" },
  });
  const failing = ["wait", "--for=jsonpath={.status.state}=Retrying", "amod/chart", "-n", namespace];
  await kubectl([...failing, "--timeout=120s"]);
  const displayed = await Promise.all(
    ["/metrics", "/metrics/hooks", "/queue", "/queue?output=json", "/status/converge"].map(operator.http),
  );
  const reported = await Promise.all(
    [["queue", "list"], ["module", "why", "chart"], ["module", "why", "app"], ["plan"]].map((args) =>
      operator.cli(args),
    ),
  );
  const stalled = [
    "wait",
    "--for=condition=Stalled",
    "aop/addon-operator",
    "-n",
    namespace,
    "--timeout=120s",
  ];
  const ok = ["wait", "--for=jsonpath={.status.observedConfig.condition}=ok", ...stalled.slice(2)];
  const invalid = [
    `password: ${secret(161)}\n  ${keyOf(1)}: "${secret(162)}\n\t- ${secret(163)}`,
    `- {token: ${secret(164)}, token: ${secret(165)}, `,
    `"${secret(166)}"`,
    `*${secret(167)}`,
    `${secret(168)}: {a: !b!${secret(168)} 1}`,
  ];
  for (const app of invalid) {
    await apply({ apiVersion: "v1", kind: "ConfigMap", metadata, data: { ...data, app } });
    await kubectl(stalled);
    await apply({ apiVersion: "v1", kind: "ConfigMap", metadata, data });
    await kubectl(ok);
  }
  const wrong = Object.fromEntries(range(169, 200).map((i) => [`p${i}`, { [keyOf(i)]: secret(i) }]));
  const schema = toYaml({ ...wrong, password: 5, n: secret(169) });
  await apply({
    apiVersion: "v1",
    kind: "ConfigMap",
    metadata,
    data: { ...data, schema, schemaEnabled: "true" },
  });
  await kubectl(stalled);
  await operator.stop();
  await statuses.end();
  const events = await kubectl(["get", "events", "-n", namespace, "-o", "json"]);
  const places = { log: operator.log(), statuses: statuses.seen, events, http: displayed, cli: reported };
  const leaks = Object.entries(places).map(([place, content]) => {
    const text = typeof content === "string" ? content : JSON.stringify(content);
    return [place, [...new Set(text.match(/.{0,60}s3cr3t-\d+.{0,20}/g))]];
  });
  expect(Object.fromEntries(leaks)).toEqual({ log: [], statuses: [], events: [], http: [], cli: [] });
  // That it was all said: by each hook, by helm, by the API server.
  for (const words of [
    /says-secrets/,
    /cannot log in as/,
    /b-says/,
    /breaks\.sh.*(JSON|pattern)/,
    /bad value/,
    /bad-\d+/,
  ])
    expect(operator.log()).toMatch(words);
  expect(operator.log().match(/<redacted:/g)?.length).toBeGreaterThan(200);
  expect(events).toMatch(/RunFailed/);
  expect(JSON.stringify(statuses.seen)).toMatch(/ConfigMapInvalid/);
}, 240_000);

/** An operator whose modules do not wait for those that fail, and all statuses that it writes. */
async function startWithOwnQueues(namespace: string, { modulesDir }: Lab) {
  const statuses = await watchStatuses(namespace);
  const args = ["--module-queues=own"];
  const operator = await startOperator({ namespace, modulesDir, args, env: { LOG_LEVEL: "debug" } });
  return { statuses, operator };
}

// Secrets that no values show: of the cluster, made by templates, quoted by the API server and by jq.
test("texts of Secrets in errors of helm, the API server and jq are shown nowhere", async () => {
  const namespace = await freshNamespace("quoted");
  const lab = hookLab("quoted");
  onTestFinished(() => rmSync(lab.dir, { recursive: true, force: true }));
  const chart = (name: string, template: string): void => {
    lab.file(`modules/${name}/Chart.yaml`, `apiVersion: v2\nname: ${name}\nversion: 1.0.0\n`);
    lab.file(`modules/${name}/templates/a.yaml`, template);
  };
  const live = '{{ $live := lookup "v1" "Secret" .Release.Namespace "live" }}';
  chart("looked", `${live}{{ fail (printf "bad pin %s" (b64dec $live.data.pin)) }}`);
  chart("made", '{{ required (printf "no user for s3cr3t-%s" (randNumeric 12)) .Values.made.user }}');
  const secret = "apiVersion: v1\nkind: Secret\nmetadata: {name: typed}\nstringData: {pin: {of: ";
  chart("typed", `${live}${secret}{{ b64dec $live.data.pin | quote }}}}`);
  lab.file(
    "modules/values.yaml",
    "lookedEnabled: true\nmadeEnabled: true\ntypedEnabled: true\njqEnabled: true\n",
  );
  const watch = { kind: "Secret", namespace: { nameSelector: { matchNames: [namespace] } } };
  const jqFilter = "error(.data.pin | @base64d)";
  const binding = { name: "live", ...watch, nameSelector: { matchNames: ["live"] }, jqFilter };
  lab.hook("modules/jq/hooks/watches.sh", { configVersion: "v1", kubernetes: [binding] }, "");
  const { apply, kubectl } = cluster();
  const metadata = { name: "live", namespace };
  await apply({ apiVersion: "v1", kind: "Secret", metadata, stringData: { pin: "s3cr3t-4711" } });
  const { statuses, operator } = await startWithOwnQueues(namespace, lab);
  const modules = ["looked", "made", "typed", "jq"];
  for (const each of modules) {
    const wait = ["wait", `amod/${each}`, "-n", namespace, "--timeout=120s"];
    await kubectl([...wait, "--for=jsonpath={.status.state}=Retrying"]);
  }
  const requested = await Promise.all(modules.map((name) => operator.cli(["module", "why", name])));
  const places = {
    // All of them: at any one moment a module may be tried again.
    statuses: JSON.stringify(statuses.seen),
    events: await kubectl(["get", "events", "-n", namespace, "-o", "json"]),
    http: (await operator.http("/queue")).body,
    bundle: JSON.stringify([requested, await operator.cli(["raw", "/runs.json"])]),
    log: operator.log(),
  };
  await operator.stop();
  await statuses.end();
  const said = [
    /bad pin \(hidden\)/,
    /no user for \(hidden\)/,
    /expected string, got \(hidden\)/,
    /may quote the Secret/,
  ];
  for (const words of said) expect(places.statuses).toMatch(words);
  for (const [place, text] of Object.entries(places))
    expect([place, text.match(/.{0,60}s3cr3t-.{0,20}/g)]).toEqual([place, null]);
}, 240_000);

test("no part of a secret is shown where a message is cut", async () => {
  const namespace = await freshNamespace("cut");
  const lab = hookLab("cut");
  onTestFinished(() => rmSync(lab.dir, { recursive: true, force: true }));
  // The limit of each message is within one of these.
  const message = Array.from({ length: 200 }, () => "s3cr3t-LEAK-1234").join(",");
  lab.file(
    "modules/values.yaml",
    "webEnabled: true\nrenderEnabled: true\nanswerEnabled: true\nweb: {password: s3cr3t-LEAK-1234}\n",
  );
  lab.hook(
    "modules/web/hooks/fails.sh",
    { configVersion: "v1", beforeHelm: 1 },
    `[ "$run" = 000000 ] || exit 0\necho "${message}" >&2; exit 3`,
  );
  lab.file("modules/render/Chart.yaml", "apiVersion: v2\nname: render\nversion: 1.0.0\n");
  lab.file("modules/render/templates/a.yaml", `{{ fail "${message}" }}\n`);
  const answer = `if grep -q wrong "$VALUES_PATH"; then echo "${message}"; else echo true; fi`;
  lab.file("modules/answer/enabled", `#!/bin/sh\n${answer}\n`);
  const { apply, kubectl } = cluster();
  const { statuses, operator } = await startWithOwnQueues(namespace, lab);
  const log = async (words: RegExp): Promise<void> => {
    await expect.poll(() => operator.log(), { timeout: 30_000 }).toMatch(words);
  };
  await log(/exit code 3: /);
  await log(/execution error at /);
  const metadata = { name: "addon-operator", namespace };
  await apply({ apiVersion: "v1", kind: "ConfigMap", metadata, data: { global: "state: wrong\n" } });
  await log(/it answered/);
  await expect.poll(() => JSON.stringify(statuses.seen), { timeout: 30_000 }).toMatch(/it answered/);
  const places = {
    statuses: JSON.stringify(statuses.seen),
    events: await kubectl(["get", "events", "-n", namespace, "-o", "json"]),
    http: (await operator.http("/queue")).body,
    cli: JSON.stringify(
      await Promise.all(["render", "web"].map((name) => operator.cli(["module", "why", name]))),
    ),
    log: operator.log(),
  };
  await operator.stop();
  await statuses.end();
  for (const [place, text] of Object.entries(places))
    expect([place, text.match(/.{0,60}(?:s3cr|LEAK|(?<![0-9a-f])1234).{0,20}/g)]).toEqual([place, null]);
  for (const words of [
    /exit code 3: .*redacted:\w+>…/,
    /execution error .*redacted:\w+> … </,
    /it answered .*redacted:\w+>…/,
  ])
    expect(places.log + places.statuses).toMatch(words);
}, 240_000);
