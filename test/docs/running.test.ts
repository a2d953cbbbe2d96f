import { readFileSync } from "node:fs";
import { expect, onTestFinished, test } from "vitest";

import { servePublic } from "../../src/surface/debug/index.ts";
import { DEFAULT_LIMITS, REQUESTS_PER_CONNECTION } from "../../src/surface/debug/web.ts";
import { KnownSecrets } from "../../src/base/index.ts";
import { viewOf } from "../report/views.ts";
import { ManualClock } from "../support/clock.ts";

const text = readFileSync(new URL("../../docs/guides/running.md", import.meta.url), "utf8");

test("docs/guides/running.md names every page of the HTTP port", async () => {
  const nothing = () => Promise.resolve("");
  const server = await servePublic(
    { address: "127.0.0.1", port: 0 },
    {
      clock: new ManualClock(),
      secrets: new KnownSecrets(),
      view: () => viewOf([]),
      queues: () => [],
      metrics: nothing,
      hookMetrics: nothing,
      onError: () => {},
    },
  );
  onTestFinished(() => server.close());
  const page = await (await fetch(`http://127.0.0.1:${server.port}/`)).text();
  const links = [...page.matchAll(/href="(\/[^"]+)"/g)].map(([, path = ""]) => path);

  const [, reported = ""] = /and has these pages: ([^]*?)\. None/.exec(text) ?? [];
  expect([...reported.matchAll(/`(.+?)`/g)].map(([, path = ""]) => path).toSorted()).toEqual(
    links.toSorted(),
  );
});

test("the limits of the port and the socket are those that docs/guides/running.md says", () => {
  const { connections, headerBytes, bodyBytes, headMs, requestMs } = DEFAULT_LIMITS;
  const cells = {
    "Headers of a request": `${headerBytes / 1024} KiB, ${headMs / 1000} s`,
    "Body of a request": `${bodyBytes / 1024} KiB`,
    "Duration of a request": `${requestMs / 1000} s`,
  };
  for (const [limit, value] of Object.entries(cells)) expect(text).toContain(`| ${limit} | ${value} |`);
  expect(text).toContain(`| Requests of a connection | ${REQUESTS_PER_CONNECTION}. `);
  expect(text).toContain(`| Open connections | ${connections}. `);
});
