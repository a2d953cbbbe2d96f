import { createHash } from "node:crypto";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { create } from "tar";
import { onTestFinished } from "vitest";

import { toYaml } from "../../src/lib/index.ts";

/** Writes files below `dir`. */
export function putFiles(dir: string, files: Readonly<Record<string, string>>): void {
  for (const [path, text] of Object.entries(files)) {
    mkdirSync(dirname(join(dir, path)), { recursive: true });
    writeFileSync(join(dir, path), text);
  }
}

/** A chart repository on loopback with one chart, until the test ends; returns its URL. */
export async function chartRepository(
  { name, version }: { readonly name: string; readonly version: string },
  files: Readonly<Record<string, string>>,
): Promise<string> {
  const dir = mkdtempSync(join(tmpdir(), "chart-repository-"));
  onTestFinished(() => rmSync(dir, { recursive: true }));
  putFiles(join(dir, name), files);
  const archive = `${name}-${version}.tgz`;
  create({ gzip: true, sync: true, file: join(dir, archive), cwd: dir }, [name]);
  const digest = createHash("sha256")
    .update(readFileSync(join(dir, archive)))
    .digest("hex");
  const entry = { apiVersion: "v2", name, version, urls: [archive], digest };
  const index = toYaml({ apiVersion: "v1", entries: { [name]: [entry] } });
  const server = createServer(({ url }, answer) => {
    if (url === "/index.yaml") answer.end(index);
    else if (url === `/${archive}`) answer.end(readFileSync(join(dir, archive)));
    else answer.writeHead(404).end();
  });
  await new Promise<void>((done) => server.listen(0, "127.0.0.1", done));
  onTestFinished(() => new Promise<void>((done) => server.close(() => done())));
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}
