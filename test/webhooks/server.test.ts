import { once } from "node:events";
import { connect, type ClientHttp2Session } from "node:http2";
import { connect as connectTcp } from "node:net";
import { request, type RequestOptions } from "node:https";
import { connect as connectTls } from "node:tls";
import { describe, expect, onTestFinished, test } from "vitest";

import { systemClock, type Clock } from "../../src/base/index.ts";
import { issueCa, issueServerCertificate } from "../../src/webhooks/certificate/issue.ts";
import { wrapAdmissionHandler, wrapConversionHandler } from "../../src/webhooks/review.ts";
import type { WebhookLimits } from "../../src/webhooks/limits.ts";
import { WebhookServer } from "../../src/webhooks/server.ts";
import type { AdmissionHandler } from "../../src/webhooks/review.ts";
import { ManualClock } from "../support/clock.ts";
import { until } from "../support/until.ts";

const DAY = 86_400_000;
const validity = { from: Date.now() - DAY, to: Date.now() + DAY };
const ca = issueCa(validity);
const certificate = () => ({
  ...issueServerCertificate(ca, ["127.0.0.1"], validity),
  ca: ca.cert,
  peerCa: ca.cert,
});

const ALLOW: AdmissionHandler = () => Promise.resolve({ allowed: true });

async function listen(
  handler: AdmissionHandler = ALLOW,
  more: { limits?: Partial<WebhookLimits>; clientCa?: string; clock?: Clock } = {},
) {
  const reports: { status: number; seconds: number }[] = [];
  const failures: unknown[] = [];
  const server = await WebhookServer.listen(
    {
      clock: systemClock,
      address: "127.0.0.1",
      port: 0,
      findHandler: (path) => {
        if (path === "/conversion/x")
          return wrapConversionHandler(() => Promise.resolve({ convertedObjects: [] }));
        return path === "/x" ? wrapAdmissionHandler(handler) : undefined;
      },
      report: { webhookRequested: (request) => void reports.push(request) },
      onError: (error) => failures.push(error),
      ...more,
      limits: { rates: { connections: Infinity, requests: Infinity }, ...more.limits },
    },
    certificate(),
  );
  onTestFinished(() => server.close());
  return { server, reports, failures, port: server.port };
}

const REVIEW = JSON.stringify({
  apiVersion: "admission.k8s.io/v1",
  kind: "AdmissionReview",
  request: { uid: "1", operation: "CREATE" },
});

interface Answer {
  readonly status: number;
  readonly body: string;
}

function post(port: number, body = REVIEW, options: RequestOptions = {}): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const headers = { "content-type": "application/json" };
    const target = { host: "127.0.0.1", port, path: "/x", method: "POST", headers, ca: ca.cert };
    const sent = request({ ...target, agent: false, ...options }, (answer) => {
      let text = "";
      answer.setEncoding("utf8").on("data", (part: string) => (text += part));
      answer.on("end", () => resolve({ status: answer.statusCode ?? 0, body: text }));
    });
    sent.on("error", reject).end(body);
  });
}

const statusOf = async (answer: Promise<Answer>): Promise<number> => (await answer).status;

test("a body in pieces of a few bytes is refused", async () => {
  const { port } = await listen();
  const socket = connectTls({ port, host: "127.0.0.1", ca: ca.cert });
  onTestFinished(() => void socket.destroy());
  const head =
    "POST /x HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n";
  socket.write(head + "1\r\n \r\n".repeat(2000) + `${REVIEW.length.toString(16)}\r\n${REVIEW}\r\n0\r\n\r\n`);
  const [answer] = (await once(socket, "data")) as [Buffer];
  expect(answer.toString()).toContain("400");
  expect(answer.toString()).toContain("the request arrives in too small pieces");
});

test("a client whose reviews need too much time to parse is refused, and no other client", async () => {
  const { port } = await listen(ALLOW, { limits: { parsing: { share: 0, maxMs: 5 } } });
  const from = (localAddress: string, body = REVIEW) => statusOf(post(port, body, { localAddress }));
  const numbers = `[${"12345678901234567890,".repeat(50_000)}1]`;
  expect(await from("127.0.0.2", REVIEW.replace('"CREATE"', `"CREATE","object":{"a":${numbers}}`))).toBe(200);
  expect(await from("127.0.0.2")).toBe(429);
  expect(await from("127.0.0.1")).toBe(200);
});

describe("what it answers", () => {
  test("HTTP/1.1 and HTTP/2, and nothing older than TLS 1.2", async () => {
    const { port } = await listen();
    expect(JSON.parse((await post(port)).body)).toEqual({
      apiVersion: "admission.k8s.io/v1",
      kind: "AdmissionReview",
      response: { uid: "1", allowed: true },
    });
    const session = connect(`https://127.0.0.1:${port}`, { ca: ca.cert });
    onTestFinished(() => session.destroy());
    const stream = session.request({
      ":method": "POST",
      ":path": "/x?timeout=5s",
      "content-type": "application/json",
    });
    stream.end(REVIEW);
    const [headers] = (await once(stream, "response")) as [Record<string, unknown>];
    expect(headers[":status"]).toBe(200);
    await expect(post(port, REVIEW, { maxVersion: "TLSv1.1", minVersion: "TLSv1" })).rejects.toThrow(
      /version|protocol/i,
    );
  });

  test.each<[string, string | undefined, RequestOptions, number]>([
    ["an unknown path", undefined, { path: "/y" }, 404],
    ["another method", "", { method: "GET" }, 405],
    ["another type", undefined, { headers: { "content-type": "text/plain" } }, 415],
    ["no JSON", "{", {}, 400],
    ["no review", "{}", {}, 400],
    ["deep JSON", "[".repeat(1000) + "]".repeat(1000), {}, 400],
    ["a request without uid", '{"apiVersion":"a","kind":"b","request":{}}', {}, 400],
    ["a probe", "", { method: "GET", path: "/healthz" }, 200],
    ["a question without a body", "", { method: "HEAD", path: "/healthz" }, 405],
  ])("%s", async (...[, body, options, status]) => {
    const { port } = await listen();
    expect(await statusOf(post(port, body, options))).toBe(status);
  });

  test("a handler that fails is a failure of the server, and its clients get 500", async () => {
    const { port, failures } = await listen(() => Promise.reject(new Error("boom")));
    expect(await statusOf(post(port))).toBe(500);
    expect(failures).toEqual([new Error("boom")]);
  });

  test("a client without a certificate is refused where one is required", async () => {
    const { port } = await listen(ALLOW, { clientCa: issueCa(validity).cert });
    await expect(post(port)).rejects.toThrow(/certificate|hang up|reset/);
    expect(await statusOf(post(port, REVIEW, certificate() as RequestOptions))).toBe(200);
  });
});

describe("limits", () => {
  test("an HTTP/2 client learns how many calls one connection may have at one time", async () => {
    const { port } = await listen(ALLOW, { limits: { requests: { total: 9, perAddress: 4 } } });
    const session = connect(`https://127.0.0.1:${port}`, { ca: ca.cert });
    onTestFinished(() => session.destroy());
    const [settings] = (await once(session, "remoteSettings")) as [{ maxConcurrentStreams: number }];
    expect(settings.maxConcurrentStreams).toBe(16);
  });

  test("a body that is too large", async () => {
    const { port } = await listen(ALLOW, { limits: { admission: { bytes: 1000, values: 1000 } } });
    expect(await statusOf(post(port, REVIEW + " ".repeat(2000)))).toBe(413);
    expect(await statusOf(post(port))).toBe(200);
  });

  test("all bodies together, which are forgotten with their requests", async () => {
    const { port } = await listen(ALLOW, { limits: { bytes: { total: 1000, perAddress: 1000 } } });
    for (let index = 0; index < 20; index += 1) expect(await statusOf(post(port))).toBe(200);
    expect(await statusOf(post(port, REVIEW + " ".repeat(2000)))).toBe(429);
    expect(await statusOf(post(port))).toBe(200);
  });

  test("requests at one time: one more is refused at once", async () => {
    const { promise: released, resolve: release } = Promise.withResolvers<void>();
    const { promise: running, resolve: runs } = Promise.withResolvers<void>();
    const { port } = await listen(
      async () => {
        runs();
        await released;
        return { allowed: true };
      },
      { limits: { requests: { total: 2, perAddress: 1 } } },
    );
    const first = post(port);
    await running;
    expect(await statusOf(post(port))).toBe(429);
    release();
    expect(await statusOf(first)).toBe(200);
  });

  test("over HTTP/2, one more closes its stream, and its connection goes on", async () => {
    const { promise: released, resolve: release } = Promise.withResolvers<void>();
    const { port, reports } = await listen(() => released.then(() => ({ allowed: true })), {
      limits: { requests: { total: 2, perAddress: 1 } },
    });
    const session = connect(`https://127.0.0.1:${port}`, { ca: ca.cert });
    onTestFinished(() => session.destroy());
    const send = (): Promise<unknown> => {
      const headers = { ":method": "POST", ":path": "/x", "content-type": "application/json" };
      const stream = session.request(headers);
      stream.resume().end(REVIEW);
      const status = once(stream, "response").then(([{ ":status": status }]) => status as unknown);
      return Promise.all([status, once(stream, "close")]).then(([status]) => status);
    };
    const first = send();
    for (let index = 0; index < 20; index += 1) expect(await send()).toBe(429);
    release();
    expect(await first).toBe(200);
    expect(reports.map(({ status }) => status)).toEqual([...Array.from({ length: 20 }, () => 429), 200]);
  });

  test("the time that the API server names: the answer is 504, and the handler is told", async () => {
    const { promise: told, resolve: tell } = Promise.withResolvers<void>();
    const { port } = await listen((_, signal) => {
      signal.addEventListener("abort", () => tell());
      return new Promise(() => {});
    });
    expect(await statusOf(post(port, REVIEW, { path: "/x?timeout=50ms" }))).toBe(504);
    await told;
  });

  test("a client that goes away: the handler is told", async () => {
    const { promise: told, resolve: tell } = Promise.withResolvers<void>();
    const { promise: running, resolve: runs } = Promise.withResolvers<void>();
    const { port } = await listen((_, signal) => {
      signal.addEventListener("abort", () => tell());
      runs();
      return new Promise(() => {});
    });
    const leaving = new AbortController();
    const sent = post(port, REVIEW, { signal: leaving.signal });
    await running;
    leaving.abort();
    await expect(sent).rejects.toThrow(/abort/);
    await told;
  });

  test("a body that does not arrive, and a client that says nothing", async () => {
    const { port, reports } = await listen(ALLOW, { limits: { arriveMs: 100 } });
    const slow = request({ host: "127.0.0.1", port, path: "/x", method: "POST", ca: ca.cert, agent: false });
    slow.setHeader("content-type", "application/json").setHeader("content-length", "100");
    slow.write("{");
    const ended = new Promise((resolve) => {
      slow.on("error", resolve).on("response", resolve);
    });
    await ended;
    await until(() => reports.length === 1);
    // On a busy machine, its own requests would take longer than that.
    const other = await listen();
    connectTls({ host: "127.0.0.1", port: other.port, ca: ca.cert }).destroy();
    expect(await statusOf(post(other.port))).toBe(200);
  });
});

describe("an answer that comes before the end of the request", () => {
  const limits: Partial<WebhookLimits> = {
    admission: { bytes: 1000, values: 1000 },
    requests: { total: 8, perAddress: 2 },
    arriveMs: 5000,
  };

  /** Sends part of a body over a stream of its own. Resolves to the status once the server has closed the stream. */
  async function sendPart(session: ClientHttp2Session, path: string, part: string): Promise<unknown> {
    const type = { "content-type": "application/json" };
    const stream = session.request({ ":method": "POST", ":path": path, ...type });
    const closed = once(stream, "close");
    stream.write(part);
    const [headers] = (await once(stream.resume(), "response")) as [Record<string, unknown>];
    await closed;
    return headers[":status"];
  }

  test.each<[string, string, string, number]>([
    ["that is too large", "/x", " ".repeat(2000), 413],
    ["that is nested too deep", "/x", "[".repeat(300), 400],
    ["at an unknown path", "/y", " ".repeat(2000), 404],
  ])("closes the stream of a request %s, so that others find a place", async (...[, path, part, status]) => {
    const { port } = await listen(ALLOW, { limits });
    const session = connect(`https://127.0.0.1:${port}`, { ca: ca.cert });
    onTestFinished(() => session.destroy());
    // Twice as many as one connection may have at one time.
    for (let index = 0; index < 8; index += 1) expect(await sendPart(session, path, part)).toBe(status);
  });

  test("is given to requests that come too slowly, and then others find their places", async () => {
    const { port } = await listen(ALLOW, {
      limits: { ...limits, requests: { total: 8, perAddress: 4 }, arriveMs: 2000 },
    });
    const session = connect(`https://127.0.0.1:${port}`, { ca: ca.cert });
    onTestFinished(() => session.destroy());
    // The connection stays after a first request.
    expect(await sendPart(session, "/y", " ")).toBe(404);
    const complete = async (): Promise<unknown> => {
      const stream = session.request({
        ":method": "POST",
        ":path": "/x",
        "content-type": "application/json",
      });
      stream.end(REVIEW);
      const [headers] = (await once(stream.resume(), "response")) as [Record<string, unknown>];
      return headers[":status"];
    };
    expect(await complete()).toBe(200);
    const slow = Array.from({ length: 4 }, () => sendPart(session, "/x", "{"));
    expect(await Promise.all(slow)).toEqual([408, 408, 408, 408]);
    expect(await complete()).toBe(200);
  });

  test("over HTTP/1.1 the connection ends if the rest does not come in time", async () => {
    const { port } = await listen(ALLOW, { limits: { ...limits, arriveMs: 1000 } });
    const socket = connectTls({ host: "127.0.0.1", port, ca: ca.cert });
    onTestFinished(() => void socket.destroy());
    const head = (path: string, length: number): string =>
      `POST ${path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: ${length}\r\n\r\n`;
    // The connection stays after a first request.
    socket.on("error", () => {}).write(`${head("/x", REVIEW.length)}${REVIEW}${head("/y", 9000)}{`);
    let answers = "";
    socket.on("data", (part: Buffer) => (answers += part.toString()));
    await expect.poll(() => answers).toMatch(/^HTTP\/1\.1 200 [^]*HTTP\/1\.1 404 /);
    await once(socket, "close");
  });

  test("a client that does not read answers loses their streams", async () => {
    const { server, port } = await listen(
      () => Promise.resolve({ allowed: false, message: "x".repeat(8000) }),
      { limits: { arriveMs: 300 } },
    );
    const settings = { initialWindowSize: 10 };
    const session = connect(`https://127.0.0.1:${port}`, { ca: ca.cert, settings });
    onTestFinished(() => session.destroy());
    await once(session, "localSettings");
    const stream = session.request({
      ":method": "POST",
      ":path": "/x",
      "content-type": "application/json",
    });
    stream.on("error", () => {}).end(REVIEW);
    await once(stream, "close");
    expect(server.port).toBe(port);
  });
});

describe("one address has only a share", () => {
  /** Connections with a request that does not arrive; whether each is still open. */
  async function hold(port: number, localAddress: string, count: number): Promise<() => boolean[]> {
    const held = Array.from({ length: count }, async () => {
      const host = "127.0.0.1";
      const socket = connectTls({ socket: connectTcp({ host, port, localAddress }), host, ca: ca.cert });
      let isOpen = true;
      onTestFinished(() => void socket.destroy());
      socket.on("error", () => {});
      await new Promise((resolve) => {
        socket.once("secureConnect", resolve).once("close", () => resolve((isOpen = false)));
      });
      if (isOpen) socket.write(SLOW);
      return () => isOpen;
    });
    const all = await Promise.all(held);
    return () => all.map((isOpen) => isOpen());
  }
  const SLOW = "POST /x HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n{";
  const from = (port: number, localAddress: string) => post(port, REVIEW, { localAddress });

  test("of the connections", async () => {
    const { port } = await listen(ALLOW, { limits: { connections: { total: 8, perAddress: 2 } } });
    const states = await hold(port, "127.0.0.2", 3);
    await until(() => states().filter(Boolean).length === 2);
    expect(await statusOf(from(port, "127.0.0.1"))).toBe(200);
  });

  test("and if all connections are taken, whoever has most loses one", async () => {
    const { port } = await listen(ALLOW, { limits: { connections: { total: 5, perAddress: 3 } } });
    const [many, few] = [await hold(port, "127.0.0.2", 3), await hold(port, "127.0.0.3", 2)];
    expect(await statusOf(from(port, "127.0.0.1"))).toBe(200);
    expect([many().filter(Boolean).length, few()]).toEqual([2, [true, true]]);
  });

  test("where nobody has more than the others, nobody loses one", async () => {
    const { port } = await listen(ALLOW, { limits: { connections: { total: 2, perAddress: 2 } } });
    const [one, other] = [await hold(port, "127.0.0.2", 1), await hold(port, "127.0.0.3", 1)];
    await expect(from(port, "127.0.0.1")).rejects.toThrow(/hang up|reset|disconnected/);
    expect([one(), other()]).toEqual([[true], [true]]);
  });

  test("of the requests", async () => {
    const { promise: released, resolve: release } = Promise.withResolvers<void>();
    const { promise: running, resolve: runs } = Promise.withResolvers<void>();
    const slow: AdmissionHandler = async () => {
      runs();
      await released;
      return { allowed: true };
    };
    const { port } = await listen(slow, { limits: { requests: { total: 9, perAddress: 1 } } });
    const first = from(port, "127.0.0.2");
    await running;
    expect(await statusOf(from(port, "127.0.0.2"))).toBe(429);
    const other = from(port, "127.0.0.1");
    release();
    expect([await statusOf(first), await statusOf(other)]).toEqual([200, 200]);
  });

  test("a connection ends without a request in time, and stays with one", async () => {
    const clock = new ManualClock();
    const { port } = await listen(ALLOW, { limits: { arriveMs: 60_000 }, clock });
    const session = connect(`https://127.0.0.1:${port}`, { ca: ca.cert });
    onTestFinished(() => session.destroy());
    const ask = async (): Promise<unknown> => {
      const type = { "content-type": "application/json" };
      const stream = session.request({ ":method": "POST", ":path": "/x", ...type });
      stream.end(REVIEW);
      const [headers] = (await once(stream.resume(), "response")) as [Record<string, unknown>];
      return headers[":status"];
    };
    expect(await ask()).toBe(200);
    const silent = connectTls({ host: "127.0.0.1", port, ca: ca.cert }).resume();
    const closed = new Promise((resolve) => silent.on("error", () => {}).once("close", resolve));
    await once(silent, "secureConnect");
    await until(() => clock.timers > 0);
    await clock.advance(60_000);
    await closed;
    expect(await ask()).toBe(200);
  });
});

describe("what one address may begin in a second", () => {
  const rates = { connections: 4, requests: 4 };

  test("connections: one more ends at once, and others are served", async () => {
    const { port } = await listen(ALLOW, { limits: { rates: { ...rates, requests: 1000 } } });
    const ask = () =>
      post(port, REVIEW, { localAddress: "127.0.0.2" }).then(
        ({ status }) => status,
        () => 0,
      );
    // A second may end while they are opened: then it is the next one that has too many.
    const statuses = await Promise.all(Array.from({ length: 20 }, ask));
    expect(statuses).toContain(200);
    expect(statuses).toContain(0);
    expect(await statusOf(post(port))).toBe(200);
  });

  test("requests: one more ends the connection, and others are served", async () => {
    const { port } = await listen(ALLOW, { limits: { rates } });
    const createConnection = () => {
      const socket = connectTcp({ host: "127.0.0.1", port, localAddress: "127.0.0.2" });
      return connectTls({ socket, host: "127.0.0.1", ca: ca.cert, ALPNProtocols: ["h2"] });
    };
    const session = connect(`https://127.0.0.1:${port}`, { createConnection });
    session.on("error", () => {});
    onTestFinished(() => session.destroy());
    const headers = { ":method": "POST", ":path": "/x", "content-type": "application/json" };
    for (let index = 0; index < 20; index += 1)
      session
        .request(headers)
        .on("error", () => {})
        .end(REVIEW);
    await once(session, "close");
    expect(await statusOf(post(port))).toBe(200);
  });
});

describe("bodies", () => {
  const listOf = (count: number): string => `[${Array.from({ length: count }, () => "[1]").join(",")}]`;

  test("an admission review has few megabytes; lists that are converted have many", async () => {
    const { port } = await listen();
    const large = REVIEW + " ".repeat(7 << 20);
    expect(await statusOf(post(port, large))).toBe(413);
    expect(await statusOf(post(port, large, { path: "/conversion/x" }))).toBe(400);
  });

  test("values are counted before they are parsed", async () => {
    const { port } = await listen(ALLOW, { limits: { admission: { bytes: 1e6, values: 100 } } });
    expect(await post(port, listOf(100))).toEqual({ status: 413, body: expect.stringMatching(/100 values/) });
    expect(await statusOf(post(port, listOf(10)))).toBe(400);
  });

  test("values of all bodies together, which are forgotten with their requests", async () => {
    const { port } = await listen(ALLOW, { limits: { values: { total: 100, perAddress: 100 } } });
    for (let index = 0; index < 20; index += 1) expect(await statusOf(post(port))).toBe(200);
    expect(await statusOf(post(port, listOf(100)))).toBe(429);
    expect(await statusOf(post(port))).toBe(200);
  });

  test("what is nested too deep is refused while it arrives", async () => {
    const { port } = await listen();
    const { status, body } = await post(port, "[".repeat(201));
    expect([status, body]).toEqual([400, expect.stringMatching(/nested deeper than 200/)]);
  });
});

describe("the time for an answer", () => {
  test("the refusal comes before the limit of the API server is over", async () => {
    const clock = new ManualClock();
    const { promise: running, resolve: runs } = Promise.withResolvers<void>();
    const { port } = await listen(() => new Promise(() => runs()), { clock });
    const status = statusOf(post(port, REVIEW, { path: "/x?timeout=10s" }));
    await running;
    await clock.advance(9750);
    expect(await status).toBe(504);
  });

  test.each(["0s", "-1s", "1h", "x", ""])("timeout=%s: the default", async (timeout) => {
    const { port } = await listen(() => new Promise(() => {}), { limits: { answerMs: 50 } });
    expect(await statusOf(post(port, REVIEW, { path: `/x?timeout=${timeout}` }))).toBe(504);
  });
});

test("a message of any length is cut", async () => {
  const { port } = await listen(() => Promise.resolve({ allowed: false, message: "x".repeat(100_000) }));
  const { response } = JSON.parse((await post(port)).body) as { response: { status: { message: string } } };
  expect(response.status.message).toHaveLength(8192);
});

test.each(["{}", '"x"', "[1]", "null"])(
  "a conversion review with the objects %s is refused",
  async (objects) => {
    const { port } = await listen();
    const request = `{"uid": "1", "desiredAPIVersion": "a/v1", "objects": ${objects}}`;
    const review = `{"apiVersion": "a", "kind": "ConversionReview", "request": ${request}}`;
    expect(await statusOf(post(port, review, { path: "/conversion/x" }))).toBe(400);
  },
);

test("a certificate is replaced under load without a failed call", async () => {
  const { server, port } = await listen();
  const over = new AbortController();
  const answers: number[] = [];
  const load = Array.from({ length: 4 }, async () => {
    while (!over.signal.aborted) answers.push(await statusOf(post(port)));
  });
  for (let index = 0; index < 5; index += 1) {
    const before = answers.length;
    server.useCertificate(certificate());
    await until(() => answers.length > before + 8);
  }
  over.abort();
  await Promise.all(load);
  expect(new Set(answers)).toEqual(new Set([200]));
});
