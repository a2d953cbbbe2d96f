import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { servePublic, serveSocket } from "../../src/surface/debug/index.ts";
import type { WebLimits, DebugSources } from "../../src/surface/debug/index.ts";
import { KnownSecrets } from "../../src/base/index.ts";
import { RunRing } from "../../src/base/trace/index.ts";
import { State } from "../../src/engine/state/index.ts";
import { viewOf, projectAll } from "../report/views.ts";
import { ManualClock } from "./clock.ts";
import type { Address } from "./raw-http.ts";

/** A face that listens, with what it reported. */
export interface OpenFace {
  readonly address: Address;
  readonly failures: unknown[];
  close(): Promise<void>;
}

export type FaceName = "HTTP port" | "debug socket";

/** Opens a face of an operator without modules. `slow` answers /metrics on the port and /plan on the socket. */
export async function openFace(
  name: FaceName,
  limits: Partial<WebLimits> = {},
  slow: () => Promise<string> = () => Promise.resolve("own 1\n"),
): Promise<OpenFace> {
  const failures: unknown[] = [];
  const failed = (error: unknown): void => void failures.push(error);
  if (name === "HTTP port") return { ...(await openPort({ limits, slow, failed })), failures };
  return { ...(await openSocket({ limits, slow, failed })), failures };
}

interface Parts {
  readonly limits: Partial<WebLimits>;
  readonly slow: () => Promise<string>;
  readonly failed: (error: unknown) => void;
}

async function openPort({ limits, slow, failed }: Parts): Promise<Omit<OpenFace, "failures">> {
  const server = await servePublic(
    { address: "127.0.0.1", port: 0, limits },
    {
      clock: new ManualClock(),
      secrets: new KnownSecrets(),
      view: () => viewOf([]),
      queues: () => [],
      metrics: slow,
      hookMetrics: () => Promise.resolve("hooks 1\n"),
      onError: failed,
    },
  );
  return { address: { port: server.port }, close: () => server.close() };
}

async function openSocket({ limits, slow, failed }: Parts): Promise<Omit<OpenFace, "failures">> {
  const clock = new ManualClock();
  const state = new State({ clock });
  const sources: DebugSources = {
    version: "1",
    clock,
    state,
    secrets: new KnownSecrets(),
    queues: () => [],
    project: () => projectAll({ view: state.view, queues: [] }),
    snapshots: () => ({}),
    render: () => Promise.resolve(""),
    diff: () => Promise.resolve(""),
    watchedObjects: () => [],
    runs: new RunRing(clock),
    rollbackTarget: (_, revision) => revision ?? 3,
    plan: () => slow(),
    platformInfo: () => ({}),
    moduleSourceState: () => undefined,
    metrics: () => Promise.resolve(""),
    log: { level: "info" },
    onError: failed,
  };
  const dir = mkdtempSync(join(tmpdir(), "face-"));
  const path = join(dir, "debug.socket");
  const server = await serveSocket(path, sources, limits);
  return {
    address: { path },
    async close() {
      await server.close();
      rmSync(dir, { recursive: true, force: true });
    },
  };
}
