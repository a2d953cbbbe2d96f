// Runs at night: few changes touch the setup.
import { execFile, spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import {
  cpSync,
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
import { promisify } from "node:util";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { DownloadOptions } from "../../scripts/setup/download.mjs";
import { saysDiskFull } from "../../scripts/setup/fetch.mjs";
import { checksums, releasesFor } from "../../scripts/setup/releases.mjs";
import { archive, digest, send, startReleaseServer } from "../support/release-server.ts";
import type { ReleaseServer } from "../support/release-server.ts";

let dir = "";
let bin = "";
let server: ReleaseServer;
beforeEach(async () => {
  dir = mkdtempSync(join(tmpdir(), "downloads-"));
  bin = join(dir, "bin");
  mkdirSync(bin);
  server = await startReleaseServer(dir);
});
afterEach(() => {
  server.stop();
  rmSync(dir, { recursive: true });
});

const target = "linux-amd64";
const releases = releasesFor(target);
const addressOf = (tool: string): string =>
  releases.find(({ tools }) => tool in tools)!.url.slice("https://".length);
const envtest = addressOf("etcd");
const helm = addressOf("helm");
const manager = addressOf("kube-controller-manager");
const part = (): string => join(bin, `.part-${helm.split("/").at(-1)}`);

/** Puts a file on the server and returns its pin. */
function publish(address: string, content: Buffer): Record<string, string> {
  server.files.set(address, content);
  return { [address]: digest(content) };
}

const helmArchive = (text = "helm"): Buffer => archive(dir, { "linux-amd64/helm": text });
const publishHelm = (): Record<string, string> =>
  publish(helm, helmArchive(randomBytes(40_000).toString("base64")));

interface Result {
  failures: string[];
  reported: string;
  code: number | null;
}

/** In a process of its own, since Node reads authorities of certificates from the environment as it starts. */
async function download(
  missing: string[],
  { env = {}, limit = "", ...options }: DownloadOptions & { limit?: string } = {},
): Promise<Result> {
  const module = new URL("../../scripts/setup/download.mjs", import.meta.url).pathname;
  const call = JSON.stringify([missing, bin, { target, ...options }]);
  const script = `import { download } from ${JSON.stringify(module)};
    try { console.log(JSON.stringify(await download(...${call}))); }
    catch (error) { console.error(error.message); process.exitCode = 1; }`;
  const command = [process.execPath, "--input-type=module", "-e", script];
  const own = {
    PATH: process.env["PATH"],
    NODE_EXTRA_CA_CERTS: server.ca,
    RELEASE_MIRROR: server.url,
    ...env,
  };
  const child = spawn("sh", ["-c", `${limit} exec "$@"`, "sh", ...command], { env: own });
  const output = { stdout: "", stderr: "" };
  for (const name of ["stdout", "stderr"] as const) child[name].on("data", (text) => (output[name] += text));
  const code = await new Promise<number | null>((done) => child.once("close", done));
  return { failures: JSON.parse(output.stdout || "[]") as string[], reported: output.stderr, code };
}

describe("what the release sites hold", () => {
  test("is fetched in as few files as can be, follows redirects, and leaves nothing but the tools", async () => {
    const members = ["etcd", "kube-apiserver", "kubectl"].map((tool) => [
      `controller-tools/envtest/${tool}`,
      tool,
    ]);
    const known = {
      ...publish(envtest, archive(dir, Object.fromEntries(members))),
      ...publish(helm, helmArchive()),
    };
    const { failures } = await download(["etcd", "kube-apiserver", "kubectl", "helm"], { known });
    expect(failures).toEqual([]);
    expect(readdirSync(bin).toSorted()).toEqual(["etcd", "helm", "kube-apiserver", "kubectl"]);
    expect(readFileSync(join(bin, "etcd"), "utf8")).toBe("etcd");
    expect(statSync(join(bin, "helm")).mode & 0o111).toBe(0o111);
    const redirected = envtest.replace("github.com", "objects.githubusercontent.com");
    expect(server.requests.toSorted()).toEqual([envtest, redirected, helm].toSorted());
  });

  test("comes from a mirror without TLS where a checksum is pinned", async () => {
    const { failures } = await download(["helm"], {
      known: publishHelm(),
      env: { RELEASE_MIRROR: server.plainUrl },
    });
    expect(failures).toEqual([]);
    expect(readdirSync(bin)).toEqual(["helm"]);
  });

  test("is tried file by file: one that is not there keeps no other", async () => {
    const { failures, reported } = await download(["etcd", "helm"], { known: publishHelm() });
    expect(failures).toEqual([expect.stringMatching(/envtest-releases\.yaml: HTTP 404$/)]);
    expect(reported).toContain(failures[0]);
    expect(readdirSync(bin)).toEqual(["helm"]);
  });
});

test("a mirror of builds of one's own serves them once their checksums are pinned", async () => {
  const content = helmArchive();
  publish(helm, content);
  server.files.set(
    `${helm}.sha256sum`,
    Buffer.from(`${digest(content, "sha256")}  ${helm.split("/").at(-1)}`),
  );
  expect((await download(["helm"])).failures).toEqual([
    `${server.url}/${helm}: its checksum is not the pinned one: not used`,
  ]);
  const own = join(dir, "setup");
  cpSync(new URL("../../scripts/setup", import.meta.url), own, { recursive: true });
  const env = { NODE_EXTRA_CA_CERTS: server.ca, RELEASE_MIRROR: server.url };
  await promisify(execFile)(process.execPath, [join(own, "pin.mjs")], { env });
  const known = JSON.parse(readFileSync(join(own, "checksums.json"), "utf8")) as Record<string, string>;
  expect((await download(["helm"], { known })).failures).toEqual([]);
  expect(known[envtest]).toBe(checksums()[envtest]);
  expect(readdirSync(bin)).toEqual(["helm"]);
});

describe("what has no pinned checksum", () => {
  const tool = "kube-controller-manager";
  const content = Buffer.from("manager");

  test("is checked against what its own site publishes, and that is reported in a line", async () => {
    publish(manager, content);
    server.files.set(`${manager}.sha256`, Buffer.from(digest(content, "sha256")));
    const { failures, reported } = await download([tool], { known: {} });
    expect(failures).toEqual([]);
    expect(readdirSync(bin)).toEqual([tool]);
    expect(reported).toMatch(
      /kube-controller-manager: no checksum of it is pinned; the one that its own site publishes is taken \(https/,
    );
  });

  test("is not used when that is another one", async () => {
    publish(manager, content);
    server.files.set(`${manager}.sha256`, Buffer.from("0".repeat(64)));
    const { failures } = await download([tool], { known: {} });
    expect(failures).toEqual([expect.stringContaining("its checksum is not the published one: not used")]);
    expect(readdirSync(bin)).toEqual([]);
  });

  test("is not asked for without TLS, nor where only pinned ones count", async () => {
    publish(manager, content);
    server.files.set(`${manager}.sha256`, Buffer.from(digest(content, "sha256")));
    const plain = await download([tool], { known: {}, env: { RELEASE_MIRROR: server.plainUrl } });
    expect(plain.failures).toEqual([expect.stringContaining("the one of a site without TLS proves nothing")]);
    await download([tool], { known: {}, pinnedOnly: true });
    expect(server.requests).toEqual([]);
    expect(readdirSync(bin)).toEqual([]);
  });

  test("is not used when the checksum file is a web page", async () => {
    publish(manager, content);
    const page = `<!doctype html><p>${digest(content, "sha256")}  kube-controller-manager</p>`;
    server.files.set(`${manager}.sha256`, Buffer.from(page));
    const { failures } = await download([tool], { known: {} });
    expect(failures).toEqual([expect.stringContaining(".sha256 is a web page, not a checksum")]);
    expect(server.requests).not.toContain(manager);
  });
});

describe("a file that is not what it should be", () => {
  test("tampered: it is not used, and gone", async () => {
    const known = publishHelm();
    publish(helm, helmArchive("other"));
    const { failures } = await download(["helm"], { known });
    expect(failures).toEqual([`${server.url}/${helm}: its checksum is not the pinned one: not used`]);
    expect(readdirSync(bin)).toEqual([]);
  });

  test("a web page: that is said", async () => {
    const known = publishHelm();
    publish(helm, Buffer.from("\n<html>Please log in</html>"));
    const { failures } = await download(["helm"], { known });
    expect(failures).toEqual([expect.stringContaining("a web page came instead of the file")]);
  });

  test("redirected to a site without TLS: not followed", async () => {
    const known = publishHelm();
    server.fault = (_, response) => {
      response.writeHead(302, { location: `${server.plainUrl}/${helm}` }).end();
      return true;
    };
    const { failures } = await download(["helm"], { known });
    expect(failures).toEqual([expect.stringMatching(/redirects to http:.* not encrypted: not followed$/)]);
  });

  test("redirected in a circle: it ends", async () => {
    server.fault = (_, response) => {
      response.writeHead(302, { location: `/${helm}` }).end();
      return true;
    };
    const { failures } = await download(["helm"], { known: publishHelm() });
    expect(failures).toEqual([expect.stringContaining("too many redirects")]);
    expect(server.requests).toHaveLength(6);
  });
});

describe("a transfer that breaks off", () => {
  /** Ends the connection after so many bytes, the first `times` times. */
  const cutAfter = (bytes: number, times = Infinity): void => {
    let left = times;
    server.fault = (request, response, content) => {
      if (left-- <= 0 || !content) return false;
      const from = Number(/\d+/.exec(request.headers.range ?? "0")![0]);
      response.writeHead(from ? 206 : 200, {
        "content-length": content.length - from,
        ...(from && { "content-range": `bytes ${from}-${content.length - 1}/${content.length}` }),
      });
      response.write(content.subarray(from, from + bytes), () => response.destroy());
      return true;
    };
  };

  test("goes on where it was, within the same run", async () => {
    const known = publishHelm();
    cutAfter(10_000, 2);
    expect((await download(["helm"], { known })).failures).toEqual([]);
    expect(server.requests).toEqual([helm, `${helm} bytes=10000-`, `${helm} bytes=20000-`]);
    expect(readdirSync(bin)).toEqual(["helm"]);
  });

  test("gives up after five tries, and the next run goes on", async () => {
    const known = publishHelm();
    cutAfter(100);
    const { failures } = await download(["helm"], { known });
    expect(failures).toEqual([
      expect.stringMatching(/it broke off after 0\.0 MB of 0\.0 MB .* run again, and it goes on there/),
    ]);
    expect(server.requests).toHaveLength(5);
    delete server.fault;
    expect((await download(["helm"], { known })).failures).toEqual([]);
    expect(server.requests.at(-1)).toMatch(/ bytes=[1-9]\d*-$/);
  });

  test("the part that an earlier run left is not trusted", async () => {
    const known = publishHelm();
    writeFileSync(part(), "something else");
    expect((await download(["helm"], { known })).failures).toEqual([]);
    expect(server.requests).toEqual([`${helm} bytes=14-`, helm]);
  });

  test.each([
    ["gives the whole file in answer to a range", 200],
    ["refuses the range", 416],
  ])("a server that %s is asked for the whole", async (_, status) => {
    const known = publishHelm();
    writeFileSync(part(), server.files.get(helm)!.subarray(0, 50));
    server.fault = (request, response, content) => {
      if (status === 416 && request.headers.range) response.writeHead(416).end();
      else send(response, content!);
      return true;
    };
    expect((await download(["helm"], { known })).failures).toEqual([]);
    expect(readdirSync(bin)).toEqual(["helm"]);
  });
});

test("a full disk is reported as such, and what came is gone on with", async () => {
  const known = publishHelm();
  const { code, reported } = await download(["helm"], { known, limit: "ulimit -f 16;" });
  expect(code).toBe(1);
  expect(reported).toContain(
    `The disk is full, or a quota or \`ulimit -f\` is reached: the tools need 1 GB in ${bin}.`,
  );
  expect((await download(["helm"], { known })).failures).toEqual([]);
  expect(server.requests.at(-1)).toMatch(/bytes=\d+-$/);
});

test("a disk that is full when an archive is unpacked is reported as such, and nothing half done stays", async () => {
  // Small as it comes, large as it is unpacked.
  const known = publish(helm, helmArchive("0".repeat(4_000_000)));
  const { code, reported } = await download(["helm"], { known, limit: "ulimit -f 64;" });
  expect([code, reported]).toEqual([1, expect.stringContaining("The disk is full, or a quota")]);
  expect((await download(["helm"], { known })).failures).toEqual([]);
  expect(readdirSync(bin)).toEqual(["helm"]);
});

test.each([
  ["GNU tar", "tar: linux-amd64/helm: Wrote only 3072 of 10240 bytes\ntar: Exiting with failure status"],
  ["GNU tar at the first byte", "tar: linux-amd64/helm: Cannot write: No space left on device"],
  ["bsdtar", "linux-amd64/helm: Write failed: Disk quota exceeded"],
  ["npm", "npm error nospc ENOSPC: no space left on device, write"],
])("a full disk is known by what %s says", (_, text) => {
  expect(saysDiskFull(text)).toBe(true);
  expect(saysDiskFull("tar: This does not look like a tar archive")).toBe(false);
});

describe("proxies", () => {
  test("lead to the release sites under their own names", async () => {
    const env = { RELEASE_MIRROR: "", HTTPS_PROXY: `http://${await server.proxy()}` };
    const { failures } = await download(["helm"], { known: publishHelm(), env });
    expect(failures).toEqual([]);
    expect(server.requests).toEqual([helm]);
  });

  test("that want a password get the one in HTTPS_PROXY", async () => {
    const env = { RELEASE_MIRROR: "", https_proxy: `http://user:p%40ss@${await server.proxy(true)}` };
    expect((await download(["helm"], { known: publishHelm(), env })).failures).toEqual([]);
  });

  test("that want one where there is none, or another, are named, and the password is not told", async () => {
    const proxy = await server.proxy(true);
    const known = publishHelm();
    const without = await download(["helm"], { known, env: { RELEASE_MIRROR: "", HTTPS_PROXY: proxy } });
    expect(without.failures).toEqual([
      expect.stringContaining(
        `proxy ${proxy} wants a user name and a password: export HTTPS_PROXY=http://USER:`,
      ),
    ]);
    const wrong = { RELEASE_MIRROR: "", HTTPS_PROXY: `http://user:opensesame@${proxy}` };
    const refused = await download(["helm"], { known, env: wrong });
    expect(refused.failures).toEqual([
      expect.stringContaining(`proxy ${proxy} refuses the user name and password`),
    ]);
    expect(refused.reported + without.reported).not.toContain("opensesame");
  });

  test("that do not answer are named", async () => {
    const env = { RELEASE_MIRROR: "", HTTPS_PROXY: "http://127.0.0.1:1" };
    const { failures } = await download(["helm"], { known: publishHelm(), env });
    expect(failures).toEqual([expect.stringContaining("proxy 127.0.0.1:1: connect ECONNREFUSED")]);
  });
});
