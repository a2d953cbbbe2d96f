/** A registry of charts on loopback, by the OCI distribution specification: what helm asks for to pull, and no more. */
import { createHash } from "node:crypto";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createServer } from "node:http";
import type { RequestListener, Server, ServerResponse } from "node:http";
import { createServer as createSecureServer } from "node:https";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { packChart, type Published } from "./chart-repository.ts";
import { certificate } from "./release-server.ts";

const MANIFEST = "application/vnd.oci.image.manifest.v1+json";
const CONFIG = "application/vnd.cncf.helm.config.v1+json";
const LAYER = "application/vnd.cncf.helm.chart.content.v1.tar+gzip";

export interface ChartRegistry {
  /** `oci://HOST:PORT/charts`; charts lie below it. */
  readonly url: string;
  /** The certificate that it shows, where it speaks TLS. */
  readonly ca: string;
  /** Digest of the manifest, by `NAME:VERSION`. */
  readonly digests: ReadonlyMap<string, string>;
  readonly close: () => Promise<void>;
}

/** Serves these charts, with TLS unless `plain`; with `login` (`USER:PASSWORD`) only to whoever has it. */
export async function chartRegistry(
  charts: readonly Published[],
  { plain = false, login }: { plain?: boolean; login?: string } = {},
): Promise<ChartRegistry> {
  const dir = mkdtempSync(join(tmpdir(), "chart-registry-"));
  const pki = certificate(dir);
  const content = contentOf(charts, dir);
  const wanted = login === undefined ? undefined : `Basic ${Buffer.from(login).toString("base64")}`;
  const answer: RequestListener = ({ url = "", headers, method }, response) => {
    if (wanted !== undefined && headers.authorization !== wanted)
      response.writeHead(401, { "www-authenticate": 'Basic realm="charts"' }).end();
    else send(response, content.get(url), method === "HEAD");
  };
  const server: Server = plain
    ? createServer(answer)
    : createSecureServer({ key: readFileSync(pki.key), cert: readFileSync(pki.cert) }, answer);
  await new Promise<void>((done) => server.listen(0, "127.0.0.1", done));
  const close = (): Promise<void> => {
    rmSync(dir, { recursive: true });
    server.closeAllConnections();
    return new Promise((done) => server.close(() => done()));
  };
  const { port } = server.address() as AddressInfo;
  const digests = new Map(
    charts.map(({ name, version }) => [
      `${name}:${version}`,
      content.get(manifestPath(name, version))!.digest,
    ]),
  );
  return { url: `oci://127.0.0.1:${port}/charts`, ca: pki.cert, digests, close };
}

interface Content {
  readonly type: string;
  readonly bytes: Buffer;
  readonly digest: string;
}

const manifestPath = (name: string, reference: string): string => `/v2/charts/${name}/manifests/${reference}`;

/** What there is, by its path. */
function contentOf(charts: readonly Published[], dir: string): ReadonlyMap<string, Content> {
  const content = new Map<string, Content>();
  for (const chart of charts) {
    const { name, version } = chart;
    const blob = (mediaType: string, bytes: Buffer) => {
      const digest = digestOf(bytes);
      content.set(`/v2/charts/${name}/blobs/${digest}`, { type: "application/octet-stream", bytes, digest });
      return { mediaType, digest, size: bytes.length };
    };
    const config = blob(CONFIG, Buffer.from(JSON.stringify({ apiVersion: "v2", name, version })));
    const layers = [blob(LAYER, readFileSync(packChart(chart, dir)))];
    const bytes = Buffer.from(JSON.stringify({ schemaVersion: 2, mediaType: MANIFEST, config, layers }));
    const digest = digestOf(bytes);
    for (const reference of [version, digest])
      content.set(manifestPath(name, reference), { type: MANIFEST, bytes, digest });
    const tags = charts.filter((each) => each.name === name).map((each) => each.version);
    const list = Buffer.from(JSON.stringify({ name: `charts/${name}`, tags }));
    content.set(`/v2/charts/${name}/tags/list`, {
      type: "application/json",
      bytes: list,
      digest: digestOf(list),
    });
  }
  return content;
}

const digestOf = (bytes: Buffer): string => `sha256:${createHash("sha256").update(bytes).digest("hex")}`;

function send(response: ServerResponse, found: Content | undefined, headOnly: boolean): void {
  if (!found) {
    response
      .writeHead(404, { "content-type": "application/json" })
      .end('{"errors":[{"code":"NAME_UNKNOWN"}]}');
    return;
  }
  const { type, bytes, digest } = found;
  response.writeHead(200, {
    "content-type": type,
    "content-length": bytes.length,
    "docker-content-digest": digest,
  });
  response.end(headOnly ? undefined : bytes);
}
