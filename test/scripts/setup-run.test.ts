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

function setup(own = env()) {
  const module = new URL("../../scripts/setup.mjs", import.meta.url).pathname;
  const script = `import { setup } from ${JSON.stringify(module)};
    setup([${JSON.stringify(tool)}]).catch((error) => { console.error(error.message); process.exitCode = 1; });`;
  const child = spawn(process.execPath, ["--input-type=module", "-e", script], { env: own });
  let told = "";
  child.stderr.on("data", (text) => (told += text));
  const ended = new Promise<{ code: number | null; told: string }>((done) =>
    child.once("close", (code) => done({ code, told })),
  );
  return { child, ended };
}

const inCache = (): string[] => readdirSync(cacheDir(env()));

describe("the set-up", () => {
  test("gets what is missing, once", async () => {
    expect(await setup().ended).toMatchObject({ code: 0 });
    expect(readFileSync(join(cacheDir(env()), tool))).toEqual(content);
    const asked = server.requests.length;
    expect(await setup().ended).toEqual({ code: 0, told: "" });
    expect(server.requests).toHaveLength(asked);
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

  test("that cannot go on tells why each way failed, and three that help", async () => {
    brokenGo();
    server.files.clear();
    const { code, told } = await setup().ended;
    expect(code).toBe(1);
    expect(told).toContain(`Not to be had: ${tool}.`);
    expect(told).toContain("HTTP 404");
    expect(told).toContain("no module proxy");
    expect(told).toMatch(
      /- download: let this machine reach dl\.k8s\.io, github\.com, get\.helm\.sh.*RELEASE_MIRROR/,
    );
    expect(told).toContain("- Go: install Go 1.26 or later");
    expect(told).toMatch(
      /- your own: get kube-controller-manager [\d.]+\n.*TEST_ASSET_KUBE_CONTROLLER_MANAGER=/,
    );
  });

  test("without a place for the tools says what to set", async () => {
    writeFileSync(join(dir, "cache"), "a file");
    const { code, told } = await setup().ended;
    expect(code).toBe(1);
    expect(told).toMatch(/, where the tools are kept, cannot be written \(\w+\): export XDG_CACHE_HOME=DIR/);
  });
});
