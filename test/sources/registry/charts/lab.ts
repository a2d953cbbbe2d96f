/** A chart repository on loopback with switches for what such servers do, and a client for it. */

import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { readFileSync } from "node:fs";
import { gzipSync } from "node:zlib";
import { onTestFinished } from "vitest";

import { RegistryClient } from "../../../../src/sources/registry/index.ts";
import { toYaml } from "../../../../src/base/index.ts";
import type { Json } from "../../../../src/base/model/index.ts";
import { packChart, type Published } from "../../../support/chart-repository.ts";
import { breakConnection, PASSWORD, sha256, USER, type ScriptedAnswer } from "../../../support/registry.ts";
import { hurried, tempDir } from "../artifact/lab.ts";

/** What the server does; all off by default. */
export interface Switches {
  /** Answers a path, if it returns something. */
  instead?: (path: string) => ScriptedAnswer | undefined;
  /** Only whoever has the password sees something; all others get 404. */
  isHidden?: boolean;
  isGzipped?: boolean;
  /** Versions have no digest in the index. */
  hasNoDigests?: boolean;
  /** Beginning of the archives' URLs; by default they are relative. */
  archivesAt?: string;
  isAway?: boolean;
  /** Each answer arrives in five pieces, with this time before each. */
  pieceMs?: number;
}

export interface Server extends Switches {
  readonly url: string;
  readonly host: string;
  /** Path of each call, its status and its Authorization. */
  readonly calls: { path: string; status: number; authorization: string | undefined }[];
  readonly archives: Map<string, Buffer>;
  /** Publishes a version; returns `sha256:…` of its archive. */
  publish(chart: Published): string;
  /** Text of the index instead of the one that is made. */
  index: string | undefined;
}

/** Serves `/charts/index.yaml` and archives beside it, until the test ends; as a proxy, for `charts.example`. */
export async function chartServer(switches: Switches = {}): Promise<Server> {
  const entries: Record<string, Json[]> = {};
  const server = createServer((request, response) => void answer(it, request, response));
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(
    () =>
      new Promise<void>((resolve) => {
        server.closeAllConnections();
        server.close(() => resolve());
      }),
  );
  const host = `127.0.0.1:${(server.address() as AddressInfo).port}`;
  const it: Server & { made: () => string } = {
    ...switches,
    host,
    url: `http://${host}/charts`,
    calls: [],
    archives: new Map(),
    index: undefined,
    made: () => toYaml({ apiVersion: "v1", entries }),
    publish(chart) {
      const bytes = readFileSync(packChart(chart, tempDir()));
      const file = `${chart.name}-${chart.version}.tgz`;
      it.archives.set(`/charts/${file}`, bytes);
      const digest = sha256(bytes);
      const versions = (entries[chart.name] ??= []);
      const others = versions.filter((each) => (each as { version: string }).version !== chart.version);
      const { name, version } = chart;
      const url = `${it.archivesAt ?? ""}${file}`;
      const hex = it.hasNoDigests === true ? {} : { digest: digest.slice(7) };
      entries[name] = [{ apiVersion: "v2", name, version, urls: [url], ...hex }, ...others];
      return digest;
    },
  };
  return it;
}

async function answer(
  it: Server & { made: () => string },
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const { url = "", headers } = request;
  const path = url.replace(/^http:\/\/charts\.example(?=\/)/, "");
  const { authorization } = headers;
  const send = (status: number, more: Record<string, string> = {}, body: Buffer | string = ""): void => {
    it.calls.push({ path, status, authorization });
    response.writeHead(status, more);
    if (it.pieceMs === undefined) response.end(body);
    else void sendInPieces(response, Buffer.from(body), it.pieceMs);
  };
  if (it.isAway === true) return void request.socket.destroy();
  const other = it.instead?.(path);
  if (typeof other === "string" && !(await breakConnection(other, response))) return;
  if (typeof other === "object") return send(other.status, other.headers, other.body);
  const wanted = `Basic ${Buffer.from(`${USER}:${PASSWORD}`).toString("base64")}`;
  if (it.isHidden === true && authorization !== wanted) return send(404);
  const archive = it.archives.get(path);
  if (archive !== undefined) return send(200, {}, archive);
  if (path !== "/charts/index.yaml") return send(404);
  const text = it.index ?? it.made();
  const etag = `"${sha256(text)}"`;
  if (headers["if-none-match"] === etag) return send(304, { etag });
  if (it.isGzipped === true) return send(200, { etag, "content-encoding": "gzip" }, gzipSync(text));
  return send(200, { etag }, text);
}

async function sendInPieces(response: ServerResponse, bytes: Buffer, pieceMs: number): Promise<void> {
  const length = Math.ceil(bytes.length / 5);
  for (let begin = 0; begin < bytes.length; begin += length) {
    response.write(bytes.subarray(begin, begin + length));
    await new Promise((resolve) => setTimeout(resolve, pieceMs));
  }
  response.end();
}

/** A client for the server. */
export function clientOf(
  { host }: Pick<Server, "host">,
  {
    login = false,
    proxies = {},
    timeoutMs,
  }: { login?: boolean; proxies?: Record<string, string>; timeoutMs?: number } = {},
): RegistryClient {
  const user = login ? { username: USER, password: PASSWORD } : undefined;
  const client = new RegistryClient({
    host,
    plainHttp: true,
    usesBasicAuth: true,
    proxies,
    readLogin: () => user,
    clock: hurried,
    timeoutMs,
  });
  onTestFinished(() => client.close());
  return client;
}

/** A small chart. */
export function chartOf(name: string, version: string, more: Record<string, string> = {}): Published {
  return {
    name,
    version,
    files: {
      "Chart.yaml": `apiVersion: v2\nname: ${name}\nversion: ${version}\n`,
      "templates/map.yaml": `apiVersion: v1\nkind: ConfigMap\nmetadata: {name: ${name}}\ndata: {version: "${version}"}\n`,
      ...more,
    },
  };
}
