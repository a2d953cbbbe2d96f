import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { request } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";

import { findRefusalReason } from "../../../src/surface/ui/index.ts";
import { MAX_STREAMS, type StreamSink } from "../../../src/surface/ui/streams.ts";
import type {
  GraphNode,
  LeafRow,
  ModuleDetail,
  StreamMessage,
  RunDetail,
  RunRow,
} from "../../../src/surface/ui/wire.ts";
import { SECRET, openPage, platform, displayed, type PageLab } from "../../support/page-lab.ts";

let dir: string;
let lab: PageLab;

beforeEach(async () => {
  dir = mkdtempSync(join(tmpdir(), "page-"));
  writeFileSync(join(dir, "index.html"), "<!doctype html>\n");
  writeFileSync(join(dir, "secret.txt"), "not for you\n");
  lab = await openPage(platform(), { dir });
});

afterEach(async () => {
  await lab.close();
  rmSync(dir, { recursive: true, force: true });
  if (lab.failures.length > 0) throw new Error(lab.failures.join());
});

interface Heard {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly body: string;
}

/** A request as it is, path included. */
function send(path: string, headers: Record<string, string> = {}, method = "GET"): Promise<Heard> {
  return new Promise((resolve, reject) => {
    const { port } = new URL(lab.url);
    const sent = request({ host: "127.0.0.1", port, path, method, headers }, (response) => {
      let body = "";
      response.on("data", (chunk: Buffer) => void (body += chunk.toString()));
      response.on("end", () =>
        resolve({ status: response.statusCode ?? 0, headers: response.headers, body }),
      );
    });
    sent.on("error", reject);
    sent.end();
  });
}

const json = async <T>(path: string): Promise<T> => JSON.parse((await send(path)).body) as T;

describe("what the page serves", () => {
  it("serves its files, which may connect to no other site", async () => {
    const { status, headers, body } = await send("/ui/");
    expect([status, body]).toEqual([200, "<!doctype html>\n"]);
    expect(headers["content-security-policy"]).toMatch(/^default-src 'none'; script-src 'self';/);
    expect(headers["content-security-policy"]).not.toMatch(/unsafe|https?:|\*/);
    expect(headers).toMatchObject({
      "x-content-type-options": "nosniff",
      "cross-origin-resource-policy": "same-origin",
      "cache-control": "no-store",
    });
    expect(await send("/ui")).toMatchObject({ status: 308, headers: { location: "/ui/" } });
  });

  it("serves the details of a module: reasons, conditions, requirements, objects with problems", async () => {
    const loki = await json<ModuleDetail>("/ui/module?name=loki");
    expect(loki.why.join()).toContain("container loki of Pod loki-0 crashes");
    expect(loki.conditions.map(({ type, status }) => `${type} ${status}`)).toEqual(
      expect.arrayContaining(["Ready False", "Healthy False"]),
    );
    expect(loki.requires).toEqual([{ name: "prometheus", text: ">=1.0.0", met: true }]);
    expect(loki.requiredBy).toEqual(["grafana"]);
    expect(loki.objects).toEqual([
      expect.objectContaining({ object: "monitoring/Deployment/loki", what: "Failed" }),
    ]);
    const { objects } = await json<ModuleDetail>("/ui/module?name=prometheus");
    expect(objects).toEqual([
      {
        object: "monitoring/Deployment/prometheus-operator",
        what: "Drifted",
        message: "spec.replicas, by kubectl-edit",
      },
    ]);
  });

  it("serves values, each with the layer that set it", async () => {
    const { leaves } = await json<{ leaves: LeafRow[] }>("/ui/values?name=prometheus");
    expect(leaves).toContainEqual({
      path: "/ingress/host",
      value: '"prometheus.shop.example"',
      layer: "hook patch: 010-hosts.sh",
    });
  });

  it("serves the chart's own values if the section is empty", async () => {
    writeFileSync(join(dir, "values.yaml"), "replicas: 3\nimage: {tag: v1}\n");
    const velero = displayed("velero", { order: 200 }, { values: () => ({ global: {}, velero: {} }) });
    const module = { ...velero.module, chart: "root", chartDir: dir } as const;
    lab.show([{ ...velero, module }]);
    expect(await json("/ui/values?name=velero")).toEqual({
      leaves: [
        { path: "/replicas", value: "3", layer: "values.yaml of the chart" },
        { path: "/image/tag", value: '"v1"', layer: "values.yaml of the chart" },
      ],
      note: "The section is empty, so the chart's own values are in effect.",
    });
    lab.show([{ ...velero, module, values: () => ({ global: {}, velero: { replicas: 1 } }) }]);
    const { leaves } = await json<{ leaves: LeafRow[] }>("/ui/values?name=velero");
    expect(leaves).toMatchObject([{ path: "/replicas", value: "1" }]);
  });

  it("serves the graph of requirements", async () => {
    const graph = await json<GraphNode[]>("/ui/graph");
    expect(graph.find(({ name }) => name === "grafana")).toEqual({
      name: "grafana",
      requires: [
        { name: "prometheus", met: true },
        { name: "loki", met: false },
      ],
      after: [],
    });
  });

  it("serves runs and the log lines of one", async () => {
    const runs = await json<RunRow[]>("/ui/runs?name=postgres-operator");
    expect(runs.map(({ name, spans }) => [name, spans.length])).toEqual([
      ["run-module postgres-operator", 4],
    ]);
    const { lines } = await json<RunDetail>(`/ui/run?id=${runs[0]?.id ?? ""}`);
    expect(lines[0]?.text).toBe("backup of 3 clusters hook=010-backup.sh");
    expect(await send("/ui/run?id=gone")).toMatchObject({ status: 404 });
  });

  it("serves a stream of changes", async () => {
    const heard = Promise.withResolvers<string>();
    const { port } = new URL(lab.url);
    const sent = request({ host: "127.0.0.1", port, path: "/ui/events" }, (response) => {
      expect(response.headers["content-type"]).toBe("text/event-stream");
      response.once("data", (chunk: Buffer) => heard.resolve(chunk.toString()));
    });
    sent.on("error", () => {});
    sent.end();
    const news = JSON.parse((await heard.promise).slice("data: ".length)) as StreamMessage;
    expect(news.queues?.set.map(({ name }) => name)).toEqual(["main", "postgres"]);
    expect(news.modules?.set.length).toBe(platform().length);
    sent.destroy();
  });
});

describe("secrets", () => {
  it.each([
    "module?name=postgres-operator",
    "values?name=prometheus",
    "diff?name=prometheus",
    "runs",
    "run?id=r1",
    "graph",
  ])("are not in /ui/%s", async (path) => {
    await lab.close();
    lab = await openPage(platform(), { dir, diff: () => Promise.resolve(`+  password: ${SECRET}\n`) });
    const { status, body } = await send(`/ui/${path}`);
    expect(status).toBe(200);
    expect(body).not.toContain(SECRET);
  });

  it("are redacted before objects are compared; a Secret loses all its data", async () => {
    const objects = [
      { kind: "Secret", metadata: { name: "s" }, data: { plain: "dHdvIHdvcmRz", ca: "eA==" } },
      { kind: "Deployment", env: [{ name: "DB_PASSWORD", value: "correcthorse" }], replicas: 2 },
    ];
    await lab.close();
    const diff = (_: unknown, hide: (object: (typeof objects)[number]) => unknown): Promise<string> =>
      Promise.resolve(JSON.stringify(objects.map(hide)));
    lab = await openPage(platform(), { dir, diff: diff as never });
    const { body } = await send("/ui/diff?name=prometheus");
    expect(body).not.toMatch(/dHdvIHdvcmRz|eA==|correcthorse/);
    expect(body).toMatch(/"replicas":2/);
  });

  it("are not displayed if statuses show no values", async () => {
    await lab.close();
    lab = await openPage(platform(), { dir, statusValues: "none" });
    expect(await json("/ui/values?name=prometheus")).toEqual({
      leaves: [],
      note: "Values are hidden by --status-values=none.",
    });
  });
});

describe("access control", () => {
  it.each([
    ["localhost:9115", undefined],
    ["127.0.0.1", undefined],
    ["[::1]:9115", undefined],
    ["10.1.2.3:9115", undefined],
    ["addon-operator:9115", undefined],
    ["addon-operator.addons.svc:9115", undefined],
    ["addon-operator.addons.svc.cluster.local", undefined],
    ["localhost:9115", "http://localhost:9115"],
  ])("allows %s from %s", (host, origin) => {
    expect(findRefusalReason({ host, origin })).toBeUndefined();
  });

  it.each([
    ["evil.example", undefined],
    ["127.0.0.1.evil.example", undefined],
    ["localhost.evil.example:9115", undefined],
    ["evilsvc.example", undefined],
    ["user@localhost", undefined],
    ["", undefined],
    [undefined, undefined],
    ["localhost:9115", "http://evil.example"],
    ["localhost:9115", "http://localhost:80"],
    ["localhost:9115", "null"],
  ])("refuses %s from %s", (host, origin) => {
    expect(findRefusalReason({ host, origin })).toEqual(expect.any(String));
  });

  it.each(["/ui/", "/ui/events", "/ui/module?name=loki", "/ui/values?name=loki"])(
    "refuses %s under a foreign host name (DNS rebinding) or from another site",
    async (path) => {
      expect((await send(path, { host: "evil.example" })).status).toBe(403);
      expect((await send(path, { origin: "https://evil.example" })).status).toBe(403);
    },
  );

  it.each(["/ui/events", "/ui/diff?name=loki", "/ui/runs", "/ui/page.js"])(
    "refuses %s as an image of another site, which would start work or occupy a stream",
    async (path) => {
      for (const site of ["cross-site", "same-site", "cross-site, same-origin"])
        expect((await send(path, { "sec-fetch-site": site })).status).toBe(403);
      expect((await send("/ui/runs", { "sec-fetch-site": "same-origin" })).status).toBe(200);
    },
  );

  it("allows a link from another site", async () => {
    expect((await send("/ui/", { "sec-fetch-site": "cross-site" })).status).not.toBe(403);
  });

  it.each(["POST", "PUT", "DELETE", "PATCH", "OPTIONS"])("refuses the method %s", async (method) => {
    expect((await send("/ui/module?name=loki", {}, method)).status).toBe(405);
  });

  it.each([
    "/ui/secret.txt",
    "/ui/../secret.txt",
    "/ui/..%2fsecret.txt",
    "/ui/%2e%2e/%2e%2e/etc/passwd",
    "/ui//etc/passwd",
    "/ui/page.js/../../secret.txt",
    "/ui/page.js",
    "/ui/constructor",
    "/ui/module",
    "/ui/module?name=constructor",
    "/ui/module?name=__proto__",
    "/ui/values?name=../loki",
  ])("serves nothing at %s", async (path) => {
    const { status, body } = await send(path);
    expect(status).toBe(404);
    expect(body).not.toContain("not for you");
  });
});

describe("many clients", () => {
  const outlet = (): StreamSink => ({ write: () => true, on: () => {}, destroy: () => {} });

  it("of ten thousand streams serves some and refuses the others", async () => {
    const query = new URLSearchParams();
    let refused = 0;
    for (let each = 0; each < 10_000; each++) {
      const answer = await lab.page.answer({
        path: "/ui/events",
        query,
        host: "localhost",
        origin: undefined,
      });
      if ("stream" in answer) answer.stream(outlet());
      else refused += answer.status === 503 ? 1 : 0;
    }
    expect([lab.page.viewers, refused]).toEqual([MAX_STREAMS, 10_000 - MAX_STREAMS]);
    expect(lab.checks()).toBe(1);
  });

  it("open streams do not block other requests to the port", async () => {
    const { port } = new URL(lab.url);
    const open = Array.from({ length: 300 }, () => {
      const sent = request({ host: "127.0.0.1", port, path: "/ui/events", agent: false });
      sent.on("error", () => {});
      sent.end();
      return sent;
    });
    await expect.poll(() => lab.page.viewers).toBeGreaterThan(0);
    expect((await send("/healthz")).status).toBe(200);
    expect(lab.page.viewers).toBeLessThanOrEqual(MAX_STREAMS);
    for (const each of open) each.destroy();
    await expect.poll(() => lab.page.viewers).toBe(0);
    expect(lab.clock.timers).toBe(0);
  });

  it("computes one difference at a time, and one for all requests for the same module", async () => {
    await lab.close();
    const requested: string[] = [];
    const { promise, resolve } = Promise.withResolvers<string>();
    const diff = ({ name }: { name: string }): Promise<string> => {
      requested.push(name);
      return promise;
    };
    lab = await openPage([displayed("a", { order: 1 }), displayed("b", { order: 2 })], { dir, diff });
    const same = [send("/ui/diff?name=a"), send("/ui/diff?name=a")];
    await expect.poll(() => requested).toEqual(["a"]);
    expect(await send("/ui/diff?name=b")).toMatchObject({
      status: 503,
      body: "the operator is computing the difference of module a. Try again later\n",
    });
    resolve("-x\n");
    expect((await Promise.all(same)).map(({ body }) => body)).toEqual(["-x\n", "-x\n"]);
    expect(requested).toEqual(["a"]);
    expect((await send("/ui/diff?name=b")).status).toBe(200);
  });

  it("keeps a difference that begins while requests for the previous one end", async () => {
    await lab.close();
    const requested: string[] = [];
    const computed = Promise.withResolvers<string>();
    const answer = (name: string) => {
      const query = new URLSearchParams({ name });
      return lab.page.answer({ path: "/ui/diff", query, host: undefined, origin: undefined });
    };
    let late: Promise<unknown> | undefined;
    const diff = ({ name }: { name: string }): Promise<string> => {
      requested.push(name);
      if (name !== "a") return new Promise(() => {});
      // Joins after the difference is computed, before the first request has noticed that.
      void computed.promise.then(() => (late = answer("a")));
      return computed.promise;
    };
    lab = await openPage([displayed("a", { order: 1 }), displayed("b", { order: 2 })], { dir, diff });
    const first = answer("a");
    void computed.promise.then(() => void answer("b"));
    computed.resolve("-x\n");
    expect([await first, await late]).toMatchObject([{ body: "-x\n" }, { body: "-x\n" }]);
    expect(await answer("a")).toMatchObject({ status: 503 });
    expect(requested).toEqual(["a", "b"]);
  });
});
