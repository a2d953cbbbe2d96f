import { rmSync, writeFileSync } from "node:fs";
import type { ServerResponse } from "node:http";
import { describe, expect, test } from "vitest";

import type { ApiRequest, RequestReport } from "../../../src/kube/index.ts";
import { ApiError, connect } from "../../../src/kube/index.ts";
import { silentLogger } from "../../../src/base/index.ts";
import type { FakeApi } from "../../support/fake-api.ts";
import { status } from "../../support/fake-api.ts";
import { until } from "../../support/until.ts";
import { fake } from "../fixture.ts";

const PATH = "/api/v1/namespaces/ops/configmaps/a";
const OVERLOAD = status(429, "TooManyRequests", { headers: { "retry-after": "2" } });
const DOWN = status(503, "ServiceUnavailable", { headers: { "retry-after": "2" } });
const FINE = { json: { fine: true } };

test("sends JSON and says who it is", async () => {
  const { api, client } = await fake({ userAgent: "addon-operator/1" });
  api.on(`POST ${PATH}`, FINE);
  await client.json({
    method: "POST",
    path: PATH,
    query: { dryRun: "All", skipped: undefined },
    body: { a: 1 },
  });
  expect(api.requests[0]).toMatchObject({ query: { dryRun: "All" }, body: '{"a":1}' });
  expect(api.requests[0]?.headers).toMatchObject({
    accept: "application/json",
    "accept-encoding": "identity",
    "content-type": "application/json",
    "user-agent": "addon-operator/1",
  });
});

test("an error answer becomes an ApiError with the server's reason and sentence", async () => {
  const { api, client } = await fake();
  api.on(`GET ${PATH}`, status(403, "Forbidden", { message: "no rights", details: { name: "a" } }));
  await expect(client.json({ path: PATH })).rejects.toMatchObject({
    name: "ApiError",
    status: 403,
    reason: "Forbidden",
    message: "no rights",
    details: { name: "a" },
  });
});

test("an answer that is no Status is not quoted", async () => {
  const { api, client } = await fake();
  api.on(`GET ${PATH}`, { status: 502, json: { password: "hunter2" } });
  const error: unknown = await client.json({ path: PATH }).catch((failure: unknown) => failure);
  expect(error).toMatchObject({ status: 502, message: `GET ${api.url}${PATH}: the server answered 502` });
});

test.each([200, 500])("an endless answer with status %i is read to its limit, once", async (code) => {
  const { api, client } = await fake();
  const chunk = Buffer.alloc(4 * 1024 * 1024, " ");
  const take = (response: ServerResponse): void => {
    response.writeHead(code, { "content-type": "application/json" });
    const write = (): void => void (response.destroyed || response.write(chunk, write));
    write();
  };
  api.on(`GET ${PATH}`, { take });
  const failures: Record<number, string> = {
    200: `OversizeError: GET ${api.url}${PATH}: the answer is larger than 128 MiB`,
    500: `ApiError: GET ${api.url}${PATH}: the server answered 500`,
  };
  expect(await client.json({ path: PATH }).catch(String)).toBe(failures[code]);
  expect(api.requests).toHaveLength(1);
});

test("an answer that is no JSON names the request, and is not quoted", async () => {
  const { api, client } = await fake();
  api.on(`GET ${PATH}`, { take: (response) => void response.end("<html>hunter2</html>") });
  const failure = `ForeignAnswerError: GET ${api.url}${PATH}: the server answered with text instead of JSON; a proxy may be in between`;
  expect(await client.json({ path: PATH }).catch(String)).toBe(failure);
});

test("what the server quotes of a Secret is left out of the message", async () => {
  const { api, client } = await fake();
  const path = "/api/v1/namespaces/ops/secrets/tls";
  const message = 'Secret "tls" is invalid: data[x]: Invalid value: "hunter2": must be short';
  api.on(`PUT ${path}`, status(422, "Invalid", { message, details: { causes: [{ message: "hunter2" }] } }));
  const error: unknown = await client
    .json({ method: "PUT", path, body: {} })
    .catch((failure: unknown) => failure);
  expect(error).toMatchObject({ reason: "Invalid", details: undefined });
  expect((error as Error).message).toContain('Secret "tls" is invalid');
  expect((error as Error).message).not.toContain("hunter2");
});

describe("overload answers with Retry-After", () => {
  test.each<[string, Partial<ApiRequest>, typeof OVERLOAD]>([
    ["429 on a read", {}, OVERLOAD],
    ["429 on a create: the server has not begun", { method: "POST", body: {} }, OVERLOAD],
    ["503 on a read", {}, DOWN],
    ["503 on a replace", { method: "PUT", body: {} }, DOWN],
  ])("%s: tried again after that time", async (_, request, answer) => {
    const { api, client, clock } = await fake();
    const route = `${request.method ?? "GET"} ${PATH}`;
    api.on(route, answer, FINE);
    const call = client.json({ path: PATH, ...request });
    await until(() => clock.nextTimerAt === clock.now() + 2000);
    expect(api.count(route)).toBe(1);
    await clock.advance(2000);
    await expect(call).resolves.toEqual({ fine: true });
  });

  test.each<[string, Partial<ApiRequest>, ReturnType<typeof status>]>([
    ["503 on a create", { method: "POST", body: {} }, DOWN],
    ["503 on a JSON patch", { method: "PATCH", body: [], contentType: "application/json-patch+json" }, DOWN],
    ["500 without Retry-After", {}, status(500, "InternalError")],
    ["429 without Retry-After", {}, status(429, "TooManyRequests")],
  ])("%s: not tried again", async (_, request, answer) => {
    const { api, client } = await fake();
    api.on(`${request.method ?? "GET"} ${PATH}`, answer, FINE);
    await expect(client.json({ path: PATH, ...request })).rejects.toBeInstanceOf(ApiError);
    expect(api.requests).toHaveLength(1);
  });

  test("429 on an eviction is the disruption budget's answer", async () => {
    const { api, client } = await fake();
    const path = "/api/v1/namespaces/ops/pods/p/eviction";
    api.on(`POST ${path}`, OVERLOAD, FINE);
    await expect(client.json({ method: "POST", path, body: {} })).rejects.toMatchObject({ status: 429 });
  });

  test("again and again: gives up after six tries and says how long to wait", async () => {
    const { api, client, clock } = await fake();
    api.on(`GET ${PATH}`, OVERLOAD);
    const call = client.json({ path: PATH }).catch((error: unknown) => error);
    for (let tries = 1; tries < 6; tries++) {
      await until(() => api.requests.length === tries && clock.nextTimerAt === clock.now() + 2000);
      await clock.advance(2000);
    }
    expect(await call).toMatchObject({ status: 429, retryAfterMs: 2000 });
    expect(api.requests).toHaveLength(6);
  });
});

describe("the answer that an object does not exist", () => {
  const ABSENT = status(404, "NotFound");

  test.each<[string, Partial<ApiRequest>]>([
    ["read", {}],
    ["create", { method: "POST", body: {} }],
    ["replace", { method: "PUT", body: {} }],
    ["patch", { method: "PATCH", body: {}, contentType: "application/merge-patch+json" }],
    ["delete", { method: "DELETE" }],
  ])("a %s is sent once more, and only the second such answer counts", async (_, request) => {
    const { api, client } = await fake();
    const route = `${request.method ?? "GET"} ${PATH}`;
    api.on(route, ABSENT, FINE, ABSENT, ABSENT, FINE);
    await expect(client.json({ path: PATH, ...request })).resolves.toEqual({ fine: true });
    await expect(client.json({ path: PATH, ...request })).rejects.toMatchObject({ reason: "NotFound" });
    expect(api.count(route)).toBe(4);
  });

  test("the 404 of another program is no such answer", async () => {
    const { api, client } = await fake();
    api.on(`DELETE ${PATH}`, { status: 404, json: { login: true } }, FINE);
    await expect(client.json({ method: "DELETE", path: PATH })).rejects.toMatchObject({ status: 404 });
    expect(api.requests).toHaveLength(1);
  });
});

describe("cut connections", () => {
  test("a read is tried once more", async () => {
    const { api, client } = await fake();
    api.on(`GET ${PATH}`, { cut: true }, FINE);
    await expect(client.json({ path: PATH })).resolves.toEqual({ fine: true });
  });

  test("an answer that breaks off is tried once more", async () => {
    const { api, client } = await fake();
    api.on(`GET ${PATH}`, { cut: true, after: '{"fi' }, FINE);
    await expect(client.json({ path: PATH })).resolves.toEqual({ fine: true });
  });

  test("a second cut is reported with its code", async () => {
    const { api, client } = await fake();
    api.on(`GET ${PATH}`, { cut: true });
    await expect(client.json({ path: PATH })).rejects.toMatchObject({
      name: "ConnectionError",
      code: "UND_ERR_SOCKET",
    });
    expect(api.requests).toHaveLength(2);
  });

  test("a write is never repeated", async () => {
    const { api, client } = await fake();
    api.on(`PUT ${PATH}`, { cut: true }, FINE);
    await expect(client.json({ method: "PUT", path: PATH, body: {} })).rejects.toMatchObject({
      code: "UND_ERR_SOCKET",
    });
    expect(api.requests).toHaveLength(1);
  });

  test("nobody there", async () => {
    const { api, client } = await fake();
    await api.close();
    await expect(client.json({ path: PATH })).rejects.toMatchObject({ code: "ECONNREFUSED" });
  });
});

describe("time limits and signals", () => {
  test("a server that does not answer: ETIMEDOUT after 30 s", async () => {
    const { api, client, clock } = await fake();
    api.on(`GET ${PATH}`, { hang: true });
    const call = client.json({ path: PATH }).catch((error: unknown) => error);
    await until(() => api.requests.length === 1);
    await clock.advance(30_000);
    expect(await call).toMatchObject({ name: "ConnectionError", code: "ETIMEDOUT" });
  });

  test("they count from the call, also where it waits for a connection; it is never sent then", async () => {
    const { api, client, clock } = await fake();
    const held: ServerResponse[] = [];
    api.on(`GET ${PATH}`, { take: (response) => void held.push(response) });
    api.on(`PUT ${PATH}`, FINE);
    const busy = Array.from({ length: 16 }, () => client.json({ path: PATH }));
    await until(() => held.length === 16);
    const late = client.json({ method: "PUT", path: PATH, body: {}, timeoutMs: 1000 });
    const failure = late.catch((error: unknown) => error);
    await clock.advance(1000);
    await expect(failure).resolves.toMatchObject({ name: "ConnectionError", code: "ETIMEDOUT" });

    for (const response of held) response.end("{}");
    await Promise.all(busy);
    await client.json({ method: "PUT", path: PATH, body: {} });
    expect(api.count(`PUT ${PATH}`)).toBe(1);
    expect(api.connections).toBe(16);
  });

  test("an aborted signal rejects with its reason, also while waiting to try again", async () => {
    const { api, client, clock } = await fake();
    api.on(`GET ${PATH}`, OVERLOAD);
    const abort = new AbortController();
    const call = client.json({ path: PATH, signal: abort.signal }).catch((error: unknown) => error);
    await until(() => clock.nextTimerAt === clock.now() + 2000);
    const reason = new Error("enough");
    abort.abort(reason);
    expect(await call).toBe(reason);
    expect(clock.nextTimerAt).toBeUndefined();
  });
});

describe("streams", () => {
  test("yields what comes and outlives the time limit", async () => {
    const { api, client, clock } = await fake();
    let send: (text: string | null) => void = () => {};
    api.on(`GET ${PATH}`, {
      take: (response) => {
        response.flushHeaders();
        send = (text) => void (text === null ? response.end() : response.write(text));
      },
    });
    const body = await client.stream({ path: PATH });
    await clock.advance(3_600_000);
    send("one");
    const texts: string[] = [];
    for await (const chunk of body) {
      texts.push(Buffer.from(chunk).toString());
      send(null);
    }
    expect(texts).toEqual(["one"]);
  });

  test("a cut stream is a ConnectionError; an aborted one gives its reason", async () => {
    const { api, client } = await fake();
    api.on(`GET ${PATH}`, { take: (response) => void response.write("x") });
    const read = async (signal?: AbortSignal): Promise<unknown> => {
      for await (const _ of await client.stream({ path: PATH, signal })) return drain();
      return undefined;
    };
    const drain = (): void => {};
    await read();
    const body = await client.stream({ path: PATH });
    const iterator = body[Symbol.asyncIterator]();
    await iterator.next();
    api.cutAll();
    await expect(iterator.next()).rejects.toMatchObject({ name: "ConnectionError" });
    const abort = new AbortController();
    const second = (await client.stream({ path: PATH, signal: abort.signal }))[Symbol.asyncIterator]();
    await second.next();
    const reason = new Error("enough");
    abort.abort(reason);
    await expect(second.next()).rejects.toBe(reason);
  });

  test("an error status is an ApiError", async () => {
    const { api, client } = await fake();
    api.on(`GET ${PATH}`, status(410, "Expired"));
    await expect(client.stream({ path: PATH })).rejects.toMatchObject({ status: 410, reason: "Expired" });
  });
});

test("200 calls in a row use two connections at most, 300 at once no more than sixteen", async () => {
  const { api, client } = await fake();
  api.on(`GET ${PATH}`, FINE);
  for (let call = 0; call < 200; call++) await client.json({ path: PATH });
  expect(api.connections).toBeLessThanOrEqual(2);
  await Promise.all(Array.from({ length: 300 }, () => client.json({ path: PATH })));
  expect(api.connections).toBeLessThanOrEqual(16);
});

test("a lease has connections of its own and no rate limit", async () => {
  const { api, client } = await fake({ qps: 1, burst: 16 });
  api.on(`GET ${PATH}`, { hang: true });
  api.on(`PUT ${PATH}`, FINE);
  const abort = new AbortController();
  const busy = Array.from({ length: 20 }, () =>
    client.json({ path: PATH, signal: abort.signal }).catch(() => {}),
  );
  await until(() => api.requests.length === 16);
  // More than the limit lets through at once: the clock stands still, and who had to wait would wait for ever.
  const lease = client.forLease();
  await Promise.all(Array.from({ length: 20 }, () => lease.json({ method: "PUT", path: PATH, body: {} })));
  expect(api.count(`PUT ${PATH}`)).toBe(20);
  abort.abort();
  await Promise.all(busy);
});

describe("while writes are not allowed", () => {
  const REFUSED = { name: "ConnectionError", code: "ENOLEASE" };
  const REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";

  test.each<[string, Partial<ApiRequest>]>([
    ["create", { method: "POST", body: {} }],
    ["replace", { method: "PUT", body: {} }],
    ["patch", { method: "PATCH", body: {}, contentType: "application/merge-patch+json" }],
    ["delete", { method: "DELETE" }],
  ])("a %s does not reach the server, a renewal does", async (_, request) => {
    const { api, client } = await fake();
    api.on(`${request.method ?? ""} ${PATH}`, FINE);
    client.writeOnlyWhile(() => false);
    await expect(client.json({ path: PATH, ...request })).rejects.toMatchObject(REFUSED);
    await expect(client.withLimits({ qps: 5 }).json({ path: PATH, ...request })).rejects.toMatchObject(
      REFUSED,
    );
    expect(api.requests).toEqual([]);
    await client.forLease().json({ path: PATH, ...request });
    expect(api.requests).toHaveLength(1);
  });

  test("reads and questions after rights do", async () => {
    const { api, client } = await fake();
    api.on(`GET ${PATH}`, FINE).on(`POST ${REVIEWS}`, FINE);
    client.writeOnlyWhile(() => false);
    await client.json({ path: PATH });
    await client.json({ method: "POST", path: REVIEWS, body: {} });
    expect(api.requests).toHaveLength(2);
  });

  test("what waited for a connection stays here", async () => {
    const { api, client } = await fake();
    const held: ServerResponse[] = [];
    api.on(`GET ${PATH}`, { take: (response) => void held.push(response) });
    api.on(`PUT ${PATH}`, FINE);
    let allowed = true;
    client.writeOnlyWhile(() => allowed);
    const busy = Array.from({ length: 16 }, () => client.json({ path: PATH }));
    await until(() => held.length === 16);
    const waiting = client.json({ method: "PUT", path: PATH, body: {} }).catch((error: unknown) => error);
    // Now it is in line for a connection.
    await new Promise((done) => setImmediate(done));
    allowed = false;
    for (const response of held) response.end("{}");
    await Promise.all(busy);
    expect(await waiting).toMatchObject(REFUSED);
    expect(api.count(`PUT ${PATH}`)).toBe(0);
  });
});

test("reports each request with a templated path", async () => {
  const { api, client } = await fake();
  api.on(`GET ${PATH}`, { cut: true }, status(404, "NotFound"));
  const reports: RequestReport[] = [];
  client.onRequest((report) => reports.push(report));
  await client.json({ path: PATH }).catch(() => {});
  expect(reports.map(({ verb, resourcePathTemplate, code }) => [verb, resourcePathTemplate, code])).toEqual([
    ["GET", "/api/v1/namespaces/{namespace}/configmaps/{name}", "UND_ERR_SOCKET"],
    ["GET", "/api/v1/namespaces/{namespace}/configmaps/{name}", "404"],
  ]);
});

test("a rate limit delays, and `limited` has one of its own, and listeners", async () => {
  const { api, client, clock } = await fake();
  api.on(`GET ${PATH}`, FINE);
  const slow = client.withLimits({ qps: 1, burst: 1 });
  const reports: string[] = [];
  client.onRequest(() => reports.push("main"));
  slow.onRequest(() => reports.push("limited"));
  await slow.json({ path: PATH });
  const second = slow.json({ path: PATH });
  await client.json({ path: PATH });
  await until(() => clock.nextTimerAt === clock.now() + 1000);
  expect(api.requests).toHaveLength(2);
  await clock.advance(1000);
  await second;
  expect(api.requests).toHaveLength(3);
  expect(reports).toEqual(["limited", "main", "limited"]);
});

describe("credentials", () => {
  const bearer = (api: FakeApi): unknown[] => api.requests.map(({ headers }) => headers.authorization);

  test("a token the server refuses is read anew, once", async () => {
    const { api } = await fake();
    const kubeConfig = api.kubeconfig({ token: "old" });
    const client = connect({ kubeConfig, userAgent: "test", logger: silentLogger });
    api.kubeconfig({ token: "new" });
    api.on(`GET ${PATH}`, ({ headers }) =>
      headers.authorization === "Bearer new" ? FINE : status(401, "Unauthorized"),
    );
    await expect(client.json({ path: PATH })).resolves.toEqual({ fine: true });
    expect(bearer(api)).toEqual(["Bearer old", "Bearer new"]);
    api.on(`GET ${PATH}`, status(401, "Unauthorized"));
    await expect(client.json({ path: PATH })).rejects.toMatchObject({ status: 401 });
    expect(api.requests).toHaveLength(4);
    await client.close();
  });

  test("a token file is read again as it rotates, without its line break", async () => {
    const { api } = await fake();
    const file = `${api.kubeconfig()}-token`;
    writeFileSync(file, "one\n");
    const client = connect({
      kubeConfig: api.kubeconfig({ tokenFile: "config-token", token: "unused" }),
      userAgent: "test",
      logger: silentLogger,
    });
    api.on(`GET ${PATH}`, ({ headers }) =>
      headers.authorization === "Bearer one" ? FINE : status(401, "Unauthorized"),
    );
    await client.json({ path: PATH });
    writeFileSync(file, "two\n");
    api.on(`GET ${PATH}`, ({ headers }) =>
      headers.authorization === "Bearer two" ? FINE : status(401, "Unauthorized"),
    );
    await client.json({ path: PATH });
    expect(bearer(api)).toEqual(["Bearer one", "Bearer one", "Bearer two"]);
    await client.close();
  });

  test("an exec plug-in beside the kubeconfig gives the token and gets its environment", async () => {
    const { api } = await fake();
    const kubeConfig = api.kubeconfig({
      exec: { apiVersion: "client.authentication.k8s.io/v1", command: "./plugin" },
    });
    const script = `#!/bin/sh
case "$KUBERNETES_EXEC_INFO" in *client.authentication.k8s.io/v1*) echo '{"status":{"token":"from-plugin"}}' ;; esac`;
    writeFileSync(kubeConfig.replace(/config$/, "plugin"), script, { mode: 0o755 });
    const client = connect({ kubeConfig, userAgent: "test", logger: silentLogger });
    api.on(`GET ${PATH}`, FINE);
    await client.json({ path: PATH });
    expect(bearer(api)).toEqual(["Bearer from-plugin"]);
    await client.close();
  });

  test("a plug-in that fails is one problem that names file and user", async () => {
    const { api } = await fake();
    const kubeConfig = api.kubeconfig({ exec: { command: "./missing" } });
    const client = connect({ kubeConfig, userAgent: "test", logger: silentLogger });
    const error: unknown = await client.json({ path: PATH }).catch((failure: unknown) => failure);
    expect(error).toMatchObject({ name: "ProblemError", problems: [{ file: kubeConfig, key: "user fake" }] });
    await client.close();
  });

  test("a kubeconfig that vanished keeps what was read in force", async () => {
    const { api } = await fake();
    const kubeConfig = api.kubeconfig({ token: "old" });
    const client = connect({ kubeConfig, userAgent: "test", logger: silentLogger });
    rmSync(kubeConfig);
    api.on(`GET ${PATH}`, status(401, "Unauthorized"), FINE);
    await client.json({ path: PATH });
    expect(bearer(api)).toEqual(["Bearer old", "Bearer old"]);
    await client.close();
  });
});
