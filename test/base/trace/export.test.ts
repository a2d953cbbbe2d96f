import { globSync, readFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { describe, expect, it, onTestFinished } from "vitest";

import {
  makeOtlpExport,
  newCause,
  getTaskOrigin,
  span,
  currentTraceParent,
  Tracer,
} from "../../../src/base/trace/index.ts";
import { makeOtlpSender } from "../../../src/base/trace/otlp.ts";
import { SpanExport } from "../../../src/base/trace/export.ts";
import type { Span } from "../../../src/base/model/index.ts";
import { silentLogger, systemClock } from "../../../src/base/index.ts";
import { ManualClock, settle } from "../../support/clock.ts";
import { keepLog } from "../../support/logged.ts";
import type { LoggedLine } from "../../support/logged.ts";

/** Hides one secret. */
const redactDeep = <T>(value: T): T => JSON.parse(JSON.stringify(value).replaceAll("hunter22", "***")) as T;

const newSpan = (name: string): Span => ({
  traceId: crypto.randomUUID().replaceAll("-", ""),
  spanId: "00f067aa0ba902b7",
  kind: "api",
  name,
  attributes: {},
  startMs: 0,
  endMs: 1,
});

/** An export whose collector does what the test says. */
function lab(send: (batch: readonly Span[]) => Promise<void>, ratio = 1) {
  const clock = new ManualClock();
  const lines: LoggedLine[] = [];
  const sent: number[] = [];
  const dropped: Record<string, number> = {};
  const target = new SpanExport({
    clock,
    logger: keepLog(lines),
    ratio,
    redactDeep,
    send: (batch) => (sent.push(batch.length), send(batch)),
  });
  target.onDropped = (reason, count) => (dropped[reason] = (dropped[reason] ?? 0) + count);
  const give = (count: number): void => {
    for (let n = 0; n < count; n++) target.onSpanEnded(newSpan(`GET ${n}`));
  };
  return { clock, lines, sent, dropped, target, give };
}

describe("spans on their way to a collector", () => {
  it("go without secrets, and as they are in all else", async () => {
    const got: Span[] = [];
    const { target, clock } = lab(async (batch) => void got.push(...batch));
    const given = { ...newSpan("of hunter22"), attributes: { a: "hunter22", n: 1 }, error: "no hunter22" };
    target.onSpanEnded(given);
    await clock.advance(2000);
    expect(got).toEqual([{ ...given, name: "of ***", attributes: { a: "***", n: 1 }, error: "no ***" }]);
  });

  it("go in batches: a full one at once, the rest after two seconds", async () => {
    const { clock, sent, give } = lab(() => Promise.resolve());
    give(600);
    await settle();
    expect(sent).toEqual([512]);
    await clock.advance(2000);
    expect(sent).toEqual([512, 88]);
  });

  it("are dropped and counted while a slow collector has one batch and 2,048 wait", async () => {
    const answers: (() => void)[] = [];
    const { sent, dropped, give, clock } = lab(() => new Promise((resolve) => void answers.push(resolve)));
    give(10_000);
    await settle();
    expect([sent, dropped]).toEqual([[512], { full: 10_000 - 512 - 2048 }]);
    answers.shift()?.();
    await settle();
    expect(sent).toEqual([512, 512]);
    // Without an answer within 30 s the next batch goes.
    await clock.advance(30_000);
    expect([sent, dropped["failed"]]).toEqual([[512, 512, 512], 512]);
  });

  it("are dropped and counted where the collector refuses them, which is logged once until it takes some", async () => {
    let refuses = true;
    const { clock, lines, dropped, give } = lab(async () => {
      if (refuses) throw new Error("503\nnot now");
    });
    for (let round = 0; round < 3; round++) {
      give(10);
      await clock.advance(2000);
    }
    expect(dropped).toEqual({ failed: 30 });
    refuses = false;
    give(1);
    await clock.advance(2000);
    expect(lines).toEqual([
      ["warn", "The collector takes no spans; they are dropped", { error: "503 not now" }],
      ["info", "The collector takes spans again", undefined],
    ]);
  });

  it("go at the end, which a dead collector delays for no more than a second", async () => {
    const { sent, target, give } = lab(() => Promise.resolve());
    give(3);
    await target.close();
    expect(sent).toEqual([3]);
    const dead = lab(() => new Promise(() => {}));
    dead.give(3);
    let isClosed = false;
    void dead.target.close().then(() => (isClosed = true));
    await dead.clock.advance(999);
    expect(isClosed).toBe(false);
    await dead.clock.advance(1);
    expect(isClosed).toBe(true);
    expect(dead.clock.timers).toBe(0);
  });

  it.each([
    [0, 0, 0],
    [0.25, 150, 350],
    [1, 1000, 1000],
  ])("with a ratio of %d, %d to %d of 1,000 traces go, each whole", async (ratio, least, most) => {
    let count = 0;
    const { target, clock } = lab(async (batch) => void (count += batch.length), ratio);
    for (let n = 0; n < 1000; n++) {
      const one = newSpan("one");
      expect(target.isSampled(one.traceId)).toBe(target.isSampled(one.traceId));
      target.onSpanEnded(one);
    }
    await clock.advance(5000);
    expect(count).toBeGreaterThanOrEqual(least);
    expect(count).toBeLessThanOrEqual(most);
  });
});

interface OtlpRequest {
  readonly resourceSpans: readonly [
    {
      readonly resource: unknown;
      readonly scopeSpans: readonly [{ readonly spans: Record<string, unknown>[] }];
    },
  ];
}

const IDENTITY = {
  headers: "authorization=Bearer%20of-ours=,x-b=c",
  version: "1.2.3",
  namespace: "ops",
  instance: "pod-1",
};

describe("OTLP", () => {
  it("hands a trace to a collector, with who it is from", async () => {
    const bodies: unknown[] = [];
    const received = Promise.withResolvers<void>();
    const server = createServer((request, response) => {
      let body = "";
      request.on("data", (chunk: Buffer) => void (body += chunk.toString()));
      request.on("end", () => {
        const { "content-type": type, authorization, "x-b": other } = request.headers;
        bodies.push([request.url, [type, authorization, other], JSON.parse(body)]);
        response.end("{}");
        received.resolve();
      });
    });
    await new Promise<void>((resolve) => void server.listen(0, "127.0.0.1", resolve));
    onTestFinished(() => void server.close());
    const endpoint = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
    const spanExport = makeOtlpExport(
      { endpoint, ...IDENTITY },
      { clock: systemClock, logger: silentLogger, ratio: 1, redactDeep },
    );
    const clock = new ManualClock(1_700_000_000_123);
    const tracer = new Tracer({ clock, spanExport });
    const from = newCause("edit", { configMap: "ops" });
    const start = {
      name: "run-module web",
      attributes: { module: "web", attempt: 1, none: undefined },
      module: "web",
    };
    let parent: string | undefined;
    await tracer.task({ ...start, from, waitingSince: clock.now() }, () =>
      span({ kind: "hook", name: "web:hooks/a" }, async (open) => {
        parent = currentTraceParent();
        open.fail("exit code 1");
        await clock.advance(1500);
      }),
    );
    void spanExport.close();
    await received.promise;
    const [[path, headers, request]] = bodies as [[string, string[], OtlpRequest]];
    expect([path, ...headers]).toEqual(["/v1/traces", "application/json", "Bearer of-ours=", "c"]);
    const [{ resource, scopeSpans }] = request.resourceSpans;
    expect(JSON.stringify(resource)).toMatch(/service\.name.*addon-operator.*1\.2\.3.*pod-1.*ops/);
    const [{ spans }] = scopeSpans;
    expect(spans.map(({ name }) => name)).toEqual(["edit", "wait in queue", "web:hooks/a", "run-module web"]);
    const [edit, , hook, task] = spans;
    expect(task).toMatchObject({
      traceId: from.traceId,
      parentSpanId: from.spanId,
      startTimeUnixNano: "1700000000123000000",
    });
    expect(hook).toMatchObject({
      parentSpanId: task?.["spanId"],
      endTimeUnixNano: "1700000001623000000",
      status: { code: 2, message: "exit code 1" },
    });
    expect(edit).not.toHaveProperty("parentSpanId");
    expect(task?.["attributes"]).toEqual([
      { key: "addon_operator.span", value: { stringValue: "task" } },
      { key: "addon_operator.module", value: { stringValue: "web" } },
      { key: "addon_operator.attempt", value: { intValue: 1 } },
    ]);
    expect(parent).toBe(`00-${from.traceId}-${String(hook?.["spanId"])}-01`);
  });

  it("is loaded with the first batch alone", () => {
    const src = join(import.meta.dirname, "../../../src");
    const paths = globSync("**/*.ts", { cwd: src });
    const matching = (pattern: RegExp): string[] =>
      paths.filter((path) => pattern.test(readFileSync(join(src, path), "utf8")));
    expect(matching(/from "@opentelemetry\//)).toEqual(["base/trace/otlp.ts"]);
    expect(matching(/^(import|export) (?!type )[^\n]*otlp\.ts"/m)).toEqual([]);
  });

  it("reports neither what a collector answers nor what is wrong with headers", async () => {
    const server = createServer((_, response) => response.writeHead(401).end("no hunter22"));
    await new Promise<void>((resolve) => void server.listen(0, "127.0.0.1", resolve));
    onTestFinished(() => void server.close());
    const endpoint = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    const errors = async (headers: string): Promise<string> => {
      const { signal } = new AbortController();
      const sent = makeOtlpSender({ endpoint, ...IDENTITY, headers })([newSpan("GET")], signal);
      return sent.then(() => "", String);
    };
    expect(await errors("")).toBe("Error: it answers 401");
    expect(await errors("a b=hunter22")).toContain(
      "OTEL_EXPORTER_OTLP_HEADERS is not accepted; use name=value",
    );
    expect(await errors("hunter%zz")).not.toContain("hunter");
  });

  it("says in TRACEPARENT that a trace is not handed on, and nothing where none is", async () => {
    const clock = new ManualClock();
    const parents: (string | undefined)[] = [];
    for (const spanExport of [lab(() => Promise.resolve(), 0).target, undefined]) {
      const tracer = new Tracer({ clock, spanExport });
      const start = {
        name: "task",
        attributes: {},
        module: undefined,
        from: getTaskOrigin(),
        waitingSince: 0,
      };
      await tracer.task(start, async () => void parents.push(currentTraceParent()));
    }
    expect(parents).toEqual([expect.stringMatching(/^00-[0-9a-f]{32}-[0-9a-f]{16}-00$/), undefined]);
  });
});
