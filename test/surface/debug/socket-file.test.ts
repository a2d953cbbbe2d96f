import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, onTestFinished, test } from "vitest";

import { queryFirstOperator } from "../../../src/main/commands/operator/socket.ts";
import { SocketFile } from "../../../src/surface/debug/socket-file.ts";
import { serve } from "../../../src/surface/debug/web.ts";
import { silentLogger } from "../../../src/base/index.ts";
import { ManualClock } from "../../support/clock.ts";
import { giveAway } from "../../support/give-away.ts";

let dir = "";
let path = "";
const open: SocketFile[] = [];

beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), "socket-file-"));
  path = join(dir, "run", "debug.socket");
});
afterEach(async () => {
  for (const each of open.splice(0)) await each.close();
  rmSync(dir, { recursive: true, force: true });
});

/** A server that answers with its name. */
async function serveAs(name: string): Promise<SocketFile> {
  const answer = { status: 200, body: name };
  const methods = ["GET"];
  const socket = await SocketFile.open(path, (at) =>
    serve({ path: at }, { methods, onError: () => {}, handle: () => Promise.resolve(answer) }),
  );
  open.push(socket);
  return socket;
}

/** Leaves a socket on which nobody listens, as a killed process does. */
async function leaveSocket(at: string): Promise<void> {
  const script = `require("node:net").createServer().listen(process.argv[1], () => process.kill(process.pid, "SIGKILL"))`;
  await once(spawn(process.execPath, ["-e", script, at]), "exit");
}

const whoAnswers = async (): Promise<string> =>
  (await queryFirstOperator([path], { method: "GET", path: "/" })).body;

describe("the file of the debug socket", () => {
  test("file and directory are private", async () => {
    await serveAs("first");
    expect(statSync(path).mode & 0o777).toBe(0o600);
    expect(statSync(join(dir, "run")).mode & 0o777).toBe(0o700);
  });

  test("removes what a killed process left beside it, and no file or socket of others", async () => {
    mkdirSync(join(dir, "run"));
    const others = ["0123abcd", "other.socket", "89abcdef"].map((name) => join(dir, "run", name));
    const [listening = "", named = "", file = ""] = others;
    for (const at of [join(dir, "run", "deadbeef"), named]) await leaveSocket(at);
    const server = createServer().listen(listening);
    onTestFinished(() => void server.close());
    await once(server, "listening");
    writeFileSync(file, "");
    await serveAs("first");
    expect(readdirSync(join(dir, "run")).toSorted()).toEqual([
      "0123abcd",
      "89abcdef",
      "debug.socket",
      "other.socket",
    ]);
  });

  test("does not replace the socket of a running server", async () => {
    await serveAs("first");
    await expect(serveAs("second")).rejects.toThrow("another process listens on this socket");
    expect(await whoAnswers()).toBe("first");
  });

  test("replaces a socket without a server; the end of the old server removes nothing", async () => {
    const first = await serveAs("first");
    rmSync(path);
    await serveAs("second");
    await first.close();
    expect(await whoAnswers()).toBe("second");
  });

  test("is recreated within seconds, unless another server took the path", async () => {
    const clock = new ManualClock();
    const [first] = [await serveAs("first")];
    first.restoreWhenRemoved(clock, silentLogger);
    rmSync(join(dir, "run"), { recursive: true });
    await clock.advance(5000);
    await expect.poll(() => existsSync(path)).toBe(true);
    expect(await whoAnswers()).toBe("first");
    rmSync(path);
    const second = createServer((_, response) => void response.end("second"));
    await new Promise<void>((done) => void second.listen(path, done));
    await clock.advance(5000);
    await expect.poll(whoAnswers).toBe("second");
    second.close();
  });

  test("is not recreated after close", async () => {
    const clock = new ManualClock();
    const ended: number[] = [];
    const reached = Promise.withResolvers<void>();
    const goesOn = Promise.withResolvers<void>();
    let count = 0;
    const socket = await SocketFile.open(path, async (at) => {
      const number = ++count;
      if (number === 2) {
        reached.resolve();
        await goesOn.promise;
        ended.push(0);
      }
      writeFileSync(at, "");
      return { close: () => Promise.resolve(void ended.push(number)) } as Awaited<ReturnType<typeof serve>>;
    });
    socket.restoreWhenRemoved(clock, silentLogger);
    rmSync(path);
    void clock.advance(5000);
    await reached.promise;
    const end = socket.close();
    goesOn.resolve();
    await end;
    // The second server listens (0) before the first one ends.
    expect(ended).toEqual([0, 1, 2]);
    expect(readdirSync(join(dir, "run"))).toEqual([]);
  });

  test("refuses a directory in which other users could replace the file", async () => {
    mkdirSync(join(dir, "run"));
    chmodSync(join(dir, "run"), 0o777);
    await expect(serveAs("first")).rejects.toThrow(/others may replace what lies in .*run, .*no sticky bit/);
  });
});

test("commands do not call a socket of another user", async () => {
  await serveAs("first");
  giveAway(path);
  await expect(whoAnswers()).rejects.toMatchObject({
    problems: [
      { file: path, message: expect.stringMatching(/belongs to user 4242|is not trusted/) as string },
    ],
  });
});
