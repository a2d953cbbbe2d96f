import { chmodSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer, request } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";

import { NoOperatorError } from "../../../../src/main/commands/table/row.ts";
import { openBrowser, startUiServer } from "../../../../src/main/commands/operator/ui.ts";
import type { Terminal } from "../../../../src/main/commands/table/row.ts";
import { UsageError } from "../../../../src/config/settings/config.ts";
import type { RunningServer } from "../../../../src/surface/debug/index.ts";
import type { StreamSink } from "../../../../src/surface/ui/streams.ts";
import { lineOf } from "../../../support/command-line.ts";
import { pageOf } from "../../../support/page-lab.ts";

const TERMINAL: Terminal = {
  env: {},
  print: () => {},
  printError: () => {},
  confirm: () => Promise.resolve(false),
  isTerminal: false,
  columns: 80,
};

let dir: string;
let operator: ReturnType<typeof createServer>;
let lab: ReturnType<typeof pageOf>;
let served: RunningServer;

const open = (...args: readonly string[]): Promise<RunningServer> =>
  startUiServer(
    lineOf(["ui", ...args, `--debug-unix-socket=${join(dir, "socket")}`, `--tmp-dir=${dir}`]),
    TERMINAL,
  );

beforeEach(async () => {
  dir = mkdtempSync(join(tmpdir(), "ui-"));
  lab = pageOf();
  operator = createServer((requested, response) => {
    const { pathname: path, searchParams: query } = new URL(requested.url ?? "", "http://operator");
    void lab.page.answer({ path, query, host: undefined, origin: undefined }).then((answer) => {
      if ("stream" in answer) {
        response.writeHead(200, answer.headers);
        return answer.stream(response as StreamSink);
      }
      response.writeHead(answer.status, answer.headers).end(answer.body);
    });
  });
  await new Promise<void>((done) => void operator.listen(join(dir, "socket"), done));
  served = await open();
});

afterEach(async () => {
  await served.close();
  operator.closeAllConnections();
  operator.close();
  rmSync(dir, { recursive: true, force: true });
});

const ask = (path: string, headers: Record<string, string> = {}, method = "GET"): Promise<number> =>
  new Promise((resolve, reject) => {
    const sent = request({ host: "127.0.0.1", port: served.port, path, headers, method }, (response) => {
      response.resume();
      response.on("end", () => resolve(response.statusCode ?? 0));
    });
    sent.on("error", reject);
    sent.end();
  });

it("passes the page on, with what it forbids, and its stream", async () => {
  const answer = await fetch(`http://127.0.0.1:${served.port}/ui/module?name=loki`);
  expect(answer.headers.get("content-security-policy")).toContain("default-src 'none'");
  expect(await answer.json()).toMatchObject({ requiredBy: ["grafana"] });
  expect((await fetch(`http://127.0.0.1:${served.port}/`)).url).toMatch(/\/ui\/$/);
  const over = new AbortController();
  const stream = await fetch(`http://127.0.0.1:${served.port}/ui/events`, { signal: over.signal });
  expect(stream.headers.get("content-type")).toBe("text/event-stream");
  expect(lab.page.viewers).toBe(1);
  over.abort();
  await expect.poll(() => lab.page.viewers).toBe(0);
});

it.each<readonly [string, readonly [path: string, headers: Record<string, string>, method: string], number]>([
  ["a name of somebody else", ["/ui/graph", { host: "evil.example" }, "GET"], 403],
  ["another site", ["/ui/graph", { origin: "http://evil.example" }, "GET"], 403],
  ["what is not the page", ["/module/list.json", {}, "GET"], 404],
  ["what leads out of the page", ["/ui/../module/loki/values.json", {}, "GET"], 404],
  ["what changes something", ["/module/loki/run", {}, "POST"], 405],
  ["what changes something, below the page", ["/ui/graph", {}, "DELETE"], 405],
])("refuses %s", async (_what, requested, status) => {
  expect(await ask(...requested)).toBe(status);
});

it("reports that the operator no longer responds", async () => {
  operator.closeAllConnections();
  operator.close();
  expect(await ask("/ui/graph")).toBe(502);
  await expect(open()).rejects.toThrow(NoOperatorError);
});

it("takes the port that is named, where it is free", async () => {
  await expect(open(`--port=${served.port}`)).rejects.toThrow(/cannot be used .*; set --port/);
  await expect(open("--port=web")).rejects.toThrow(UsageError);
});

it("opens the browser, and does without one", async () => {
  const file = process.platform === "darwin" ? "open" : "xdg-open";
  writeFileSync(join(dir, file), `#!/bin/sh\necho "$1" > ${dir}/opened\n`);
  chmodSync(join(dir, file), 0o755);
  await openBrowser("http://localhost:1/ui/", { env: { PATH: `${dir}:/bin:/usr/bin` } });
  expect(readFileSync(join(dir, "opened"), "utf8")).toBe("http://localhost:1/ui/\n");
  await openBrowser("http://localhost:1/ui/", { env: { PATH: "/nonexistent" } });
});
