import { once } from "node:events";
import { afterEach, beforeEach, describe, expect, it } from "vitest";

import { openFace } from "../../support/faces.ts";
import type { FaceName, OpenFace } from "../../support/faces.ts";
import { HOST, HOSTILE } from "../../support/hostile-requests.ts";
import { exchange, get, open, statusOf } from "../../support/raw-http.ts";

const BODY = "x".repeat(10_000_000);

describe.each<FaceName>(["HTTP port", "debug socket"])("the %s and hostile requests", (name) => {
  let face: OpenFace;

  beforeEach(async () => {
    face = await openFace(name);
  });

  afterEach(async () => {
    const status = statusOf(await get(face.address, "/"));
    await face.close();
    if (status !== 200 || face.failures.length > 0) throw new Error(`${status}: ${face.failures.join()}`);
  });

  it.each(HOSTILE)("%s", async (_name, bytes, statuses) => {
    expect(statuses).toContain(statusOf(await exchange(face.address, Buffer.from(bytes, "latin1"), true)));
  });

  it.each([
    ["with its length", `POST /config/set HTTP/1.1\r\n${HOST}Content-Length: ${BODY.length}\r\n\r\n${BODY}`],
    [
      "in chunks",
      `POST /config/set HTTP/1.1\r\n${HOST}Transfer-Encoding: chunked\r\n\r\n${BODY.length.toString(16)}\r\n${BODY}\r\n0\r\n\r\n`,
    ],
  ])("does not read a giant body %s to its end", async (_how, bytes) => {
    // The response may be lost if the server closes the connection while the client still sends.
    expect([0, 405, 413]).toContain(statusOf(await exchange(face.address, bytes)));
  });

  it("answers at most a hundred pipelined requests per connection", async () => {
    const received = await exchange(face.address, `GET /nope HTTP/1.1\r\n${HOST}\r\n`.repeat(5000), true);
    const responses = received.split("HTTP/1.1 404").length - 1;
    expect(responses).toBeGreaterThan(0);
    expect(responses).toBeLessThanOrEqual(100);
  });

  it("survives clients that disconnect before the response", async () => {
    for (let client = 0; client < 50; client++) {
      const socket = open(face.address);
      socket.on("error", () => {});
      socket.write(`GET /discovery HTTP/1.1\r\n${HOST}\r\n`, () => socket.destroy());
      await once(socket, "close");
    }
    expect(statusOf(await get(face.address, "/"))).toBe(200);
    expect(face.failures).toEqual([]);
  });
});

describe.each<FaceName>(["HTTP port", "debug socket"])("the %s and its limits", (name) => {
  let face: OpenFace | undefined;

  afterEach(async () => {
    await face?.close();
  });

  it("closes a connection whose request does not arrive in time", async () => {
    face = await openFace(name, { headMs: 100, requestMs: 200 });
    expect([0, 408]).toContain(statusOf(await exchange(face.address, "GET / HTTP/1.1\r\nHost: a\r\nSlow")));
    const body = `POST /config/set HTTP/1.1\r\n${HOST}Content-Length: 100\r\n\r\nx`;
    expect([0, 405, 408]).toContain(statusOf(await exchange(face.address, body)));
  });

  it("closes an idle connection", async () => {
    face = await openFace(name, { idleMs: 100 });
    expect(await exchange(face.address, "")).toBe("");
  });

  it("closes the oldest connection at the limit, so that idle clients block no others", async () => {
    face = await openFace(name, { connections: 3 });
    const { address } = face;
    const idle = Array.from({ length: 3 }, () => open(address).on("error", () => {}));
    await Promise.all(idle.map((socket) => once(socket, "connect")));
    const closed = once(idle[0] as (typeof idle)[0], "close");
    expect(statusOf(await get(address, "/"))).toBe(200);
    await closed;
    for (const socket of idle) socket.destroy();
  });

  it("reports an internal error, answers 500, and goes on", async () => {
    face = await openFace(name, {}, () => Promise.reject(new Error("broken")));
    const answer = await get(face.address, name === "HTTP port" ? "/metrics" : "/plan");
    expect(statusOf(answer)).toBe(500);
    // The socket shows the error to its owner; the port hides it from strangers.
    const reported = name === "HTTP port" ? face.failures.map(String) : [answer.split("\r\n\r\n")[1]];
    expect(reported).toEqual([expect.stringContaining("broken")]);
    expect(statusOf(await get(face.address, "/"))).toBe(200);
  });
});
