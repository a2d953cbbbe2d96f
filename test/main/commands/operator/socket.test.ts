import { mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { describe, expect, it, onTestFinished } from "vitest";

import { printPlan } from "../../../../src/main/commands/operator/query.ts";
import { NoOperatorError } from "../../../../src/main/commands/table/row.ts";
import { querySocket } from "../../../../src/main/commands/operator/socket.ts";
import { UsageError } from "../../../../src/config/settings/config.ts";
import { ProblemError } from "../../../../src/base/model/index.ts";
import { answeringSocket } from "../../../support/answering-socket.ts";
import { callOf, lineOf } from "../../../support/command-line.ts";

it.each([
  ["plan", /^$/],
  ["plan --namespace other", /^A running operator made this plan with its own directories and namespace/],
  ["plan --modules-dir other", /^A running operator made this plan/],
])("reports that a running operator plans by its own settings: %s", async (text, reported) => {
  const { setting } = await answeringSocket(() => "install: {}\n");
  const out = { printed: "", complained: "" };
  const code = await printPlan(lineOf([...text.split(" "), setting]), {
    env: {},
    print: (part) => void (out.printed += part),
    printError: (part) => void (out.complained += part),
    confirm: () => Promise.resolve(false),
    isTerminal: false,
    columns: 80,
  });
  expect([code, out.printed]).toEqual([0, "install: {}\n"]);
  expect(out.complained).toMatch(reported);
});

it.each(["--modules-dir /nowhere", "--namespace other", "--global-hooks-dir /nowhere"])(
  "asks no operator that runs by chance for a plan with %s",
  async (flags) => {
    const { socket } = await answeringSocket(() => "install: {}\n");
    const out = { printed: "" };
    const terminal = {
      env: { DEBUG_UNIX_SOCKET: socket, KUBECONFIG: "/nowhere" },
      isTerminal: false,
      columns: 80,
    };
    const line = lineOf(["plan", ...flags.split(" ")]);
    const print = (part: string): void => void (out.printed += part);
    const plan = printPlan(line, {
      ...terminal,
      print,
      printError: () => {},
      confirm: () => Promise.resolve(false),
    });
    await expect(plan).rejects.toThrow(/nowhere/);
    expect(out.printed).toBe("");
  },
);

it.each([
  ["plan", "refuses:\n  - the ConfigMap is invalid\n", 1],
  ["plan -o json", '{"refuses":["the ConfigMap is invalid"]}\n', 1],
  ["plan -o json", '{"install":{"refuses":"there is no release"}}\n', 0],
])("ends as a start would: %s, %s", async (text, plan, code) => {
  const { setting } = await answeringSocket(() => plan);
  const terminal = { env: {}, print: () => {}, printError: () => {}, isTerminal: false, columns: 80 };
  const line = lineOf([...text.split(" "), setting]);
  expect(await printPlan(line, { ...terminal, confirm: () => Promise.resolve(false) })).toBe(code);
});

describe("which call a sub-command makes", () => {
  it.each([
    ["queue list", "/queue/list.text"],
    ["queue", "/queue/list.text"],
    ["queue main -o json", "/queue/main.json"],
    ["queue list --show-empty", "/queue/list.text?showEmpty=true"],
    ["global list", "/global/list.yaml"],
    ["global values -o json", "/global/values.json"],
    ["global snapshots --output=text", "/global/snapshots.text"],
    ["module list", "/module/list.yaml"],
    ["module resource-monitor -o json", "/module/resource-monitor.json"],
    ["module graph", "/module/graph.text?as=text"],
    ["module graph -o dot", "/module/graph.text?as=dot"],
    ["module graph -o mermaid", "/module/graph.text?as=mermaid"],
    ["module graph -o json", "/module/graph.json"],
    ["module values web", "/module/web/values.yaml"],
    ["module values web -g", "/module/web/values.yaml?global=true"],
    ["module config web -g", "/module/web/config.yaml?global=true"],
    ["module values web --explain -o json", "/module/web/values.json?explain=true"],
    ["module render web --diff", "/module/web/render.yaml?diff=true"],
    ["module why web", "/module/web/why.text"],
    ["config list", "/config/list.yaml"],
    ["plan -o json", "/plan.json"],
    ["raw discovery", "/discovery"],
    ["raw /module/list.json", "/module/list.json"],
  ])("%s → GET %s", (line, path) => {
    expect(callOf(line.split(" "))).toMatchObject({ method: "GET", path });
  });

  it("posts what changes something", () => {
    expect(callOf(["module", "run", "web"])).toMatchObject({ method: "POST", path: "/module/web/run" });
    expect(callOf(["config", "set", "log.level", "debug", "5m"])).toMatchObject({
      method: "POST",
      path: "/config/set.yaml",
      form: { name: "log.level", value: "debug", duration: "5m" },
    });
  });

  it("watches", () => {
    expect(lineOf(["queue", "list", "--watch"]).flags).toEqual({ watch: true });
    expect(lineOf(["queue", "-w"]).flags).toEqual({ watch: true });
  });

  it.each([
    ["queue bogus", /"bogus" is not a sub-command; use list, main/],
    ["module", /^module: needs one of list, resource-monitor/],
    ["module values", /needs the name of a module/],
    ["module list -o dot", /"dot" is for module graph; use text, yaml or json/],
    ["module graph web", /"web" is an unexpected argument/],
    ["module list -o xml", /"xml" is not accepted; use text, yaml or json/],
    ["global", /^global: needs one of list, values, config, patches, snapshots/],
    ["config set log.level", /needs a name and a value/],
    ["raw", /needs a path/],
    ["queue main other", /"other" is an unexpected argument/],
    ["global values web", /"web" is an unexpected argument/],
    ["module list web", /"web" is an unexpected argument/],
    ["module why web ingress", /"ingress" is an unexpected argument/],
    ["config list log.level", /"log.level" is an unexpected argument/],
    ["config set log.level debug 5m more", /"more" is an unexpected argument/],
    ["plan web", /"web" is an unexpected argument/],
    ["raw /queue /config", /"\/config" is an unexpected argument/],
    ["module list --show-empty", /--show-empty: not a flag of "module list"/],
    ["module run web --watch", /--watch: not a flag of "module run"/],
    ["global values --explain", /--explain: not a flag of "global values"/],
    ["module render web -g", /-g: not a flag of "module render"/],
    ["plan --diff", /--diff: not a flag of "plan"/],
  ])("%s is wrong usage", (line, message) => {
    expect(() => callOf(line.split(" "))).toThrow(UsageError);
    expect(() => callOf(line.split(" "))).toThrow(message);
  });

  it("says that no operator listens", async () => {
    const call = querySocket("/nonexistent/socket", { method: "GET", path: "/" });
    await expect(call).rejects.toThrow(NoOperatorError);
    await expect(call).rejects.toThrow(/--debug-unix-socket/);
  });

  /** Answers whatever comes with these bytes, and ends. */
  async function answering(text: string): Promise<string> {
    const dir = mkdtempSync(join(tmpdir(), "answering-"));
    const path = join(dir, "socket");
    const server = createServer((socket) => socket.on("error", () => {}).end(text));
    await new Promise<void>((done) => void server.listen(path, done));
    onTestFinished(() => {
      server.close();
      rmSync(dir, { recursive: true, force: true });
    });
    return path;
  }

  const ask = async (text: string) => querySocket(await answering(text), { method: "GET", path: "/" });

  it.each([
    ["", /the operator is ending: it closed the connection without an answer/],
    [
      "SSH-2.0-OpenSSH_10\r\n\r\n",
      /the program on this socket is not an operator \(check that this is the operator's socket/,
    ],
    ["HTTP/1.1 200 OK\r\n", /the program on this socket is not an operator/],
    ["HTTP/1.1 2e2 OK\r\n\r\n", /the program on this socket is not an operator/],
    ["HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhal", /the response is incomplete/],
  ])("says that %j is no answer", async (text, message) => {
    await expect(ask(text)).rejects.toThrow(ProblemError);
    await expect(ask(text)).rejects.toThrow(message);
  });

  it("takes an answer with and without its length, and characters that come in parts", async () => {
    expect(await ask("HTTP/1.1 404 Not Found\r\n\r\nno such path: ä\n")).toEqual({
      status: 404,
      body: "no such path: ä\n",
    });
    expect(await ask("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")).toEqual({ status: 200, body: "" });
  });

  it("a path cannot inject a header, and a timeout is reported", async () => {
    const seen: string[] = [];
    const dir = mkdtempSync(join(tmpdir(), "silent-"));
    const server = createServer((socket) => socket.on("data", (part) => seen.push(String(part))));
    await new Promise<void>((done) => void server.listen(join(dir, "socket"), done));
    const over = new AbortController();
    const requested = querySocket(join(dir, "socket"), { method: "GET", path: "/a b\r\nX: 1" }, over.signal);
    await expect.poll(() => seen).toHaveLength(1);
    over.abort();
    await expect(requested).rejects.toThrow(/the operator did not respond in time/);
    server.close();
    rmSync(dir, { recursive: true });
    expect(seen[0]?.split("\r\n")[0]).toBe("GET /a%20b%0D%0AX:%201 HTTP/1.0");
  });
});
