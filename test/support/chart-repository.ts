import { createHash } from "node:crypto";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { basename, dirname, join } from "node:path";
import { create } from "tar";
import { onTestFinished } from "vitest";

import { toYaml } from "../../src/base/index.ts";
import type { Json } from "../../src/base/model/index.ts";

/** Writes files below `dir`. */
export function putFiles(dir: string, files: Readonly<Record<string, string>>): void {
  for (const [path, text] of Object.entries(files)) {
    mkdirSync(dirname(join(dir, path)), { recursive: true });
    writeFileSync(join(dir, path), text);
  }
}

/** One version of a chart in a repository or registry. */
export interface Published {
  readonly name: string;
  readonly version: string;
  readonly files: Readonly<Record<string, string>>;
}

/** Packs a chart into `dir` as helm does; returns the archive. */
export function packChart({ name, version, files }: Published, dir: string): string {
  const src = join(dir, "src", version);
  putFiles(join(src, name), files);
  const file = join(dir, `${name}-${version}.tgz`);
  create({ gzip: true, sync: true, file, cwd: src }, [name]);
  return file;
}

/** A chart repository on loopback with one chart, until the test ends; returns its URL. */
export async function chartRepository(
  chart: { readonly name: string; readonly version: string },
  files: Readonly<Record<string, string>>,
): Promise<string> {
  const { url, close } = await repositoryOf([{ ...chart, files }]);
  onTestFinished(close);
  return url;
}

/** The same with several charts or versions, until it is closed. `dir` holds their archives, by `NAME-VERSION.tgz`. */
export async function repositoryOf(
  charts: readonly Published[],
  { digests = true } = {},
): Promise<{ url: string; dir: string; close: () => Promise<void> }> {
  const dir = mkdtempSync(join(tmpdir(), "chart-repository-"));
  const entries: Record<string, Json[]> = {};
  for (const { name, version, files } of charts) {
    const archive = packChart({ name, version, files }, dir);
    const digest = createHash("sha256").update(readFileSync(archive)).digest("hex");
    (entries[name] ??= []).push({
      apiVersion: "v2",
      name,
      version,
      urls: [basename(archive)],
      ...(digests && { digest }),
    });
  }
  const index = toYaml({ apiVersion: "v1", entries });
  const server = createServer(({ url = "" }, answer) => {
    if (url === "/index.yaml") answer.end(index);
    else if (existsSync(join(dir, url))) answer.end(readFileSync(join(dir, url)));
    else answer.writeHead(404).end();
  });
  await new Promise<void>((done) => server.listen(0, "127.0.0.1", done));
  const close = (): Promise<void> => {
    rmSync(dir, { recursive: true });
    return new Promise((done) => server.close(() => done()));
  };
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, dir, close };
}
