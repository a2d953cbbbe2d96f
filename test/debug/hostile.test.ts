import { once } from "node:events";
import { afterEach, beforeEach, describe, expect, it } from "vitest";

import { openFace } from "../support/faces.ts";
import type { FaceName, OpenFace } from "../support/faces.ts";
import { HOST, HOSTILE } from "../support/hostile-requests.ts";
import { exchange, get, open, statusOf } from "../support/raw-http.ts";

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
  ])("a giant body %s is not read to its end", async (_how, bytes) => {
    // The answer may be lost when the connection is closed while we still send.
    expect([0, 405, 413]).toContain(statusOf(await exchange(face.address, bytes)));
  });

  it("answers at once asked for without waiting come in turn, and not more than a hundred", async () => {
    const heard = await exchange(face.address, `GET /nope HTTP/1.1\r\n${HOST}\r\n`.repeat(5000), true);
    expect(heard.split("HTTP/1.1 404").length - 1).toBeLessThanOrEqual(100);
    expect(heard.split("HTTP/1.1 404").length - 1).toBeGreaterThan(0);
  });

  it("who leaves before the answer harms nobody", async () => {
    for (let turn = 0; turn < 50; turn++) {
      const socket = open(face.address);
      socket.on("error", () => {});
      socket.write(`GET /discovery HTTP/1.1\r\n${HOST}\r\n`, () => socket.destroy());
      await once(socket, "close");
    }
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

  it("closes a connection on which nothing happens", async () => {
    face = await openFace(name, { idleMs: 100 });
    expect(await exchange(face.address, "")).toBe("");
  });

  it("closes the oldest connection when there are too many: nobody is kept out", async () => {
    face = await openFace(name, { connections: 3 });
    const { address } = face;
    const idle = Array.from({ length: 3 }, () => open(address).on("error", () => {}));
    await Promise.all(idle.map((socket) => once(socket, "connect")));
    const closed = once(idle[0] as (typeof idle)[0], "close");
    expect(statusOf(await get(address, "/"))).toBe(200);
    await closed;
    for (const socket of idle) socket.destroy();
  });

  it("reports an error of its own, answers 500, and goes on", async () => {
    face = await openFace(name, {}, () => Promise.reject(new Error("broken")));
    const answer = await get(face.address, name === "HTTP port" ? "/metrics" : "/plan");
    expect(statusOf(answer)).toBe(500);
    // Whoever asks on the socket is told; on the port, strangers are not.
    const told = name === "HTTP port" ? face.failures.map(String) : [answer.split("\r\n\r\n")[1]];
    expect(told).toEqual([expect.stringContaining("broken")]);
    expect(statusOf(await get(face.address, "/"))).toBe(200);
  });
});
