// Runs at night: few changes touch the setup.
import { spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import {
  chmodSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { releasesFor, machine } from "../../scripts/setup/releases.mjs";
import { cacheDir } from "../../scripts/setup/versions.mjs";
import { digest, startReleaseServer } from "../support/release-server.ts";
import type { ReleaseServer } from "../support/release-server.ts";
import { until } from "../support/until.ts";

/** The one tool that has no pinned checksum, so that its content may be anything here. */
const tool = "kube-controller-manager";
const address = releasesFor(machine())
  .find(({ tools }) => tool in tools)!
  .url.slice("https://".length);
const content = randomBytes(100_000);

let dir = "";
let server: ReleaseServer;
beforeEach(async () => {
  dir = mkdtempSync(join(tmpdir(), "setup-run-"));
  server = await startReleaseServer(dir);
  server.files.set(address, content);
  server.files.set(`${address}.sha256`, Buffer.from(digest(content, "sha256")));
});
afterEach(() => {
  server.stop();
  rmSync(dir, { recursive: true });
});

const env = (more: Record<string, string | undefined> = {}) => ({
  PATH: `${join(dir, "path")}:${process.env["PATH"]}`,
  XDG_CACHE_HOME: join(dir, "cache"),
  NODE_EXTRA_CA_CERTS: server.ca,
  RELEASE_MIRROR: server.url,
  ...more,
});

/** A `go` that cannot build anything: else the one of this machine would be used. */
function brokenGo(): void {
  mkdirSync(join(dir, "path"));
  writeFileSync(join(dir, "path", "go"), "#!/bin/sh\necho 'no module proxy' >&2\nexit 1\n");
  chmodSync(join(dir, "path", "go"), 0o755);
}

const scripts = new URL("../../scripts/", import.meta.url).pathname;

function setup(own = env()) {
  const module = join(scripts, "setup.mjs");
  const script = `import { setup } from ${JSON.stringify(module)};
    setup([${JSON.stringify(tool)}]).catch((error) => { console.error(error.message); process.exitCode = 1; });`;
  return run(["--input-type=module", "-e", script], own);
}

/** Node with these arguments, and what it writes to standard error until it ends. */
function run(args: string[], own: Record<string, string | undefined>) {
  const child = spawn(process.execPath, args, { env: own });
  let reported = "";
  child.stderr.on("data", (text) => (reported += text));
  const ended = new Promise<{ code: number | null; reported: string }>((done) =>
    child.once("close", (code) => done({ code, reported })),
  );
  return { child, ended };
}

const inCache = (): string[] => readdirSync(cacheDir(env()));

describe("the set-up", () => {
  test("gets what is missing, once", async () => {
    expect(await setup().ended).toMatchObject({ code: 0 });
    expect(readFileSync(join(cacheDir(env()), tool))).toEqual(content);
    const requested = server.requests.length;
    expect(await setup().ended).toEqual({ code: 0, reported: "" });
    expect(server.requests).toHaveLength(requested);
  });

  test("fetches a tool again whose content is not what was put into the cache", async () => {
    await setup().ended;
    const path = join(cacheDir(env()), tool);
    const requested = server.requests.length;
    writeFileSync(path, "#!/bin/sh\necho planted\n");
    expect(await setup().ended).toMatchObject({
      code: 0,
      reported: expect.stringContaining(`${path} is not what was put there: it is not used`),
    });
    expect(readFileSync(path)).toEqual(content);
    expect(server.requests.length).toBeGreaterThan(requested);
    expect(await setup().ended).toEqual({ code: 0, reported: "" });
  });

  test("uses no tool that something else put into the cache, unless an earlier version filled it", async () => {
    const dirOfCache = cacheDir(env());
    mkdirSync(dirOfCache, { recursive: true });
    writeFileSync(join(dirOfCache, tool), content, { mode: 0o755 });
    expect(await setup().ended).toEqual({ code: 0, reported: "" });
    expect(server.requests).toEqual([]);
    writeFileSync(`${dirOfCache}.sha256`, "");
    expect(await setup().ended).toMatchObject({ reported: expect.stringContaining("is not used") });
    expect(server.requests).toContain(address);
  });

  test("at work twice fetches once: the second one waits and finds it there", async () => {
    const results = await Promise.all([setup().ended, setup().ended]);
    expect(results.map(({ code }) => code)).toEqual([0, 0]);
    expect(server.requests.filter((each) => each === address)).toHaveLength(1);
  });

  test.each(["SIGINT", "SIGKILL"] as const)("ended by %s goes on at the next run", async (signal) => {
    const half = content.length / 2;
    const first = setup();
    server.fault = (request, response, whole) => {
      if (!whole || request.url?.endsWith("sha256")) return false;
      response.writeHead(200, { "content-length": whole.length });
      response.write(whole.subarray(0, half));
      return true;
    };
    const part = join(cacheDir(env()), `.part-${tool}`);
    await until(() => statSync(part, { throwIfNoEntry: false })?.size === half);
    first.child.kill(signal);
    await first.ended;
    expect(inCache()).toEqual([`.part-${tool}`]);
    delete server.fault;
    expect(await setup().ended).toMatchObject({ code: 0 });
    expect(server.requests.at(-1)).toBe(`${address} bytes=${half}-`);
    expect(inCache()).toEqual([tool]);
  });

  test("that cannot go on reports why each way failed, and three that help", async () => {
    brokenGo();
    server.files.clear();
    const { code, reported } = await setup().ended;
    expect(code).toBe(1);
    expect(reported).toContain(`Not to be had: ${tool}.`);
    expect(reported).toContain("HTTP 404");
    expect(reported).toContain("no module proxy");
    expect(reported).toMatch(
      /- download: let this machine reach dl\.k8s\.io, github\.com, get\.helm\.sh.*RELEASE_MIRROR/,
    );
    expect(reported).toContain("- Go: install Go 1.26 or later");
    expect(reported).toMatch(
      /- your own: get kube-controller-manager [\d.]+\n.*TEST_ASSET_KUBE_CONTROLLER_MANAGER=/,
    );
  });

  test.each([
    ["image-context.mjs", "helm, kubectl"],
    ["e2e.mjs", "kubectl, helm"],
  ])("of %s gets %s and no other tool", async (script, wanted) => {
    brokenGo();
    const ended = await run([join(scripts, "run.mjs"), script], env({ OWN_TOOLS: "false" })).ended;
    expect(ended).toMatchObject({ code: 1, reported: expect.stringContaining(`Not to be had: ${wanted}.`) });
    expect(server.requests.filter((each) => !/kubectl|helm-v4/.test(each))).toEqual([]);
  });

  test("without a place for the tools says what to set", async () => {
    writeFileSync(join(dir, "cache"), "a file");
    const { code, reported } = await setup().ended;
    expect(code).toBe(1);
    expect(reported).toMatch(
      /, where the tools are kept, cannot be written \(\w+\): export XDG_CACHE_HOME=DIR/,
    );
  });
});
