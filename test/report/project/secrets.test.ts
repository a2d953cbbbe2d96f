import { expect, it } from "vitest";

import type { Json, JsonObject } from "../../../src/base/model/index.ts";
import { displayValues } from "../../../src/report/index.ts";
import { T0, finished, moduleView, viewOf, projectOperatorView, projectView } from "../views.ts";

const KEYS = ["password", "dbPasswd", "client_secret", "apiToken", "tls.key", "caCert", "credentials", "DSN"];
const secret = (i: number): string => `s3cr3t-${i}-zzz`;
const wrap: readonly ((i: number) => JsonObject)[] = [
  (i) => ({ [KEYS[i % KEYS.length] ?? ""]: secret(i) }),
  (i) => ({ deep: [{ list: [{ [KEYS[i % KEYS.length] ?? ""]: [secret(i)] }] }] }),
  (i) => ({ url: `postgres://admin:${secret(i)}@db:5432/x` }),
  (i) => ({ text: `-----BEGIN PRIVATE KEY-----\n${secret(i)}\n-----END PRIVATE KEY-----` }),
  (i) => ({ blob: secret(i) + "x".repeat(300) }),
];

it("none of 200 secret-like values reaches a status", () => {
  const values: JsonObject = {};
  for (let i = 0; i < 200; i++) values[`section${i}`] = wrap[i % wrap.length]?.(i) ?? {};
  const messages = [0, 1, 2].map(
    (i) => `failed: https://u:${secret(i)}@host\n${JSON.stringify(wrap[3]?.(i)["text"])}`,
  );
  const [a = "", b = "", c = ""] = messages;
  const view = moduleView("m", {
    lastRun: finished({ result: "Failed", message: a, cause: { kind: "missing", object: b } }),
    retry: { reason: "HookFailed", message: b, failures: 1, since: 0 },
    enabledReason: c,
    values: (): Json => values,
  });
  const displayed = displayValues(view.values(), "redacted");
  const all = viewOf([view]);
  const problem = { file: "ConfigMap x", message: a };
  const config = { ...all.config, condition: "invalid", problems: [problem] } as const;
  const text = JSON.stringify([
    projectView(view, { now: T0 }),
    displayed,
    projectOperatorView({ ...all, issues: [a] }),
    projectOperatorView({ ...all, config }),
  ]);
  expect(text.match(/s3cr3t-\d+/g)).toBeNull();
});

it("no digest that a guess could be held against reaches a resource", () => {
  const view = moduleView("m", {});
  const all = [projectView(view, { now: T0 }), projectOperatorView(viewOf([view]))];
  const text = JSON.stringify(all);
  expect(text.match(/v2-[0-9a-f]{40}/g)).toHaveLength(4);
  expect(text).not.toMatch(/v1-/);
});
