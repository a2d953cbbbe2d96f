import type { ServerResponse } from "node:http";

import { describe, expect, test } from "vitest";

import { formatIdentity, Lease, readOwnIdentity } from "../../../src/kube/index.ts";
import type { ApiRequest, LeaderIdentity, KubeClient } from "../../../src/kube/index.ts";
import { settle, type ManualClock } from "../../support/clock.ts";
import type { Answer, FakeApi, SeenRequest } from "../../support/fake-api.ts";
import { give, status } from "../../support/fake-api.ts";
import { keepLog, type LoggedLine } from "../../support/logged.ts";
import { until } from "../../support/until.ts";
import { fake } from "../fixture.ts";

const COLLECTION = "/apis/coordination.k8s.io/v1/namespaces/ops/leases";
const PATH = `${COLLECTION}/guard`;

interface Stored {
  metadata: { name: string; resourceVersion: string; annotations?: Record<string, string> };
  spec: {
    holderIdentity: string;
    renewTime: string;
    leaseDurationSeconds: number;
    leaseTransitions?: number;
  };
}

/** Leases as the API server keeps them: one object, with resourceVersions and conflicts. */
class LeaseServer {
  object: Stored | undefined;
  /** Instead of the next answers, when set. */
  broken: Answer | undefined;
  /** Gives the answers to renewals later, when set. */
  later: ((answer: () => void) => void) | undefined;
  /** Renewals that wait for their answers. */
  waiting = 0;

  constructor(api: FakeApi) {
    const guarded = (answer: (request: SeenRequest) => Answer) => (request: SeenRequest) =>
      this.broken ?? answer(request);
    api.on(
      `GET ${PATH}`,
      guarded(() => (this.object ? { json: this.object } : status(404, "NotFound"))),
    );
    api.on(
      `POST ${COLLECTION}`,
      guarded((request) => (this.object ? status(409, "AlreadyExists") : this.#store(request))),
    );
    api.on(
      `PUT ${PATH}`,
      guarded((request) => {
        const { later } = this;
        if (later === undefined) return this.#replace(request);
        this.waiting += 1;
        const answer = (response: ServerResponse): void => {
          this.waiting -= 1;
          give(this.#replace(request), response);
        };
        return { take: (response) => later(() => answer(response)) };
      }),
    );
  }

  /** Somebody else writes. */
  hold(holder: string, renewTime = "2020-01-01T00:00:00.000000Z", leaseDurationSeconds = 15): void {
    this.#keep({
      metadata: { name: "guard", resourceVersion: "0" },
      spec: { holderIdentity: holder, renewTime, leaseDurationSeconds },
    });
  }

  #replace(request: SeenRequest): Answer {
    const { metadata } = JSON.parse(request.body) as Stored;
    if (this.object === undefined) return status(404, "NotFound");
    const current = metadata.resourceVersion === this.object.metadata.resourceVersion;
    return current ? this.#store(request) : status(409, "Conflict");
  }

  #store(request: SeenRequest): Answer {
    this.#keep(JSON.parse(request.body) as Stored);
    return { json: this.object };
  }

  #keep(object: Stored): void {
    const version = String(Number(this.object?.metadata.resourceVersion ?? 0) + 1);
    this.object = { ...object, metadata: { ...object.metadata, resourceVersion: version } };
  }
}

const me: LeaderIdentity = { ...readOwnIdentity("me"), start: "1" };
const other: LeaderIdentity = { ...me, name: "other", bootId: "another-machine" };
const OTHER = formatIdentity(other);

async function lab(): Promise<{
  server: LeaseServer;
  clock: ManualClock;
  events: string[];
  /** For how long each time it was held. */
  held: number[];
  lines: LoggedLine[];
  api: FakeApi;
  lease: Lease;
  contend: (identity: LeaderIdentity) => Lease;
  /** Until every request has its answer, or hangs, and whoever sent it waits for time to pass. */
  rest: () => Promise<void>;
  /** Turns the clock in steps, with a rest after each. */
  turn: (ms: number) => Promise<void>;
}> {
  const { api, client, clock } = await fake();
  const requests = { begun: 0, open: 0 };
  const counting = {
    json: async (request: ApiRequest) => {
      requests.begun += 1;
      requests.open += 1;
      return client.json(request).finally(() => (requests.open -= 1));
    },
  } as unknown as KubeClient;
  const events: string[] = [];
  const held: number[] = [];
  const lines: LoggedLine[] = [];
  const contend = (identity: LeaderIdentity): Lease => {
    let isHolder = false;
    return new Lease({
      client: counting,
      clock,
      identity,
      logger: keepLog(lines),
      namespace: "ops",
      name: "guard",
      times: { durationMs: 15_000, renewDeadlineMs: 10_000, retryMs: 2000 },
      events: {
        onFailing: () => {},
        onHeld: (ms) => {
          if (!isHolder) events.push(`${identity.name} acquired`);
          isHolder = true;
          held.push(ms);
        },
        onLost: (reason) => {
          isHolder = false;
          events.push(`${identity.name} lost: ${reason}`);
        },
        onWaiting: (holder) => events.push(`${identity.name} waits for ${holder.split("/")[0] ?? ""}`),
      },
    });
  };
  const server = new LeaseServer(api);
  const isIdle = (): boolean =>
    server.broken !== undefined && "hang" in server.broken
      ? api.requests.length >= requests.begun
      : requests.open === server.waiting;
  const rest = async (): Promise<void> => {
    await settle();
    await until(isIdle);
    await settle();
  };
  const turn = async (ms: number): Promise<void> => {
    const step = 500;
    for (let missing = 0; missing < ms; missing += step) {
      await clock.advance(step);
      await rest();
    }
  };
  return { server, clock, events, held, lines, api, lease: contend(me), contend, rest, turn };
}

describe("acquiring", () => {
  test("a namespace that is not there is reported with what to do", async () => {
    const { server, lease, lines, turn, rest } = await lab();
    server.broken = status(404, "NotFound");
    const acquired = lease.acquire();
    await rest();
    const remedy = expect.stringMatching(/--namespace/);
    expect(lines).toEqual([["warn", "The lease cannot be acquired", expect.objectContaining({ remedy })]]);
    server.broken = undefined;
    await turn(10_000);
    await acquired;
  });

  test("a lease that is not there is made", async () => {
    const { server, lease, events } = await lab();
    await lease.acquire();
    expect(lease.isHeld).toBe(true);
    expect(events).toEqual(["me acquired"]);
    expect(server.object?.spec).toMatchObject({
      holderIdentity: formatIdentity(me),
      leaseDurationSeconds: 15,
      leaseTransitions: 0,
      acquireTime: "2026-01-01T00:00:00.000000Z",
      renewTime: "2026-01-01T00:00:00.000000Z",
    });
  });

  test("one that was given back is taken at once, and counted", async () => {
    const { server, lease } = await lab();
    server.hold("");
    await lease.acquire();
    expect(server.object?.spec).toMatchObject({ holderIdentity: formatIdentity(me), leaseTransitions: 1 });
  });

  test.runIf(me.bootId !== "")(
    "a dead process on this machine is succeeded at once (needs /proc)",
    async () => {
      const { server, lease, events } = await lab();
      // Our own pid with another start time: the process of that name is gone.
      server.hold(formatIdentity({ ...me, name: "before", start: "2" }));
      await lease.acquire();
      expect(events).toEqual(["me acquired"]);
    },
  );

  test("another machine's is waited for until it was not renewed for its duration, by our own clock", async () => {
    const { server, events, lease, turn, rest } = await lab();
    server.hold(OTHER, "2099-01-01T00:00:00.000000Z");
    const acquired = lease.acquire();
    await rest();
    await turn(10_000);
    expect(events).toEqual(["me waits for other"]);
    // A renewal, by a clock that is far off: the wait begins anew.
    server.hold(OTHER, "1999-01-01T00:00:00.000000Z");
    await turn(14_500);
    expect(lease.isHeld).toBe(false);
    await turn(1500);
    await acquired;
    expect(events).toEqual(["me waits for other", "me acquired"]);
  });

  test("given back while waiting: taken within half a second", async () => {
    const { server, lease, turn, rest } = await lab();
    server.hold(OTHER);
    const acquired = lease.acquire();
    await rest();
    server.hold("");
    await turn(500);
    await acquired;
    expect(lease.isHeld).toBe(true);
  });

  test("one that dies right after it was renewed is succeeded within 16 s", async () => {
    const { server, lease, turn, rest } = await lab();
    server.hold(OTHER);
    const acquired = lease.acquire();
    await rest();
    for (const renewal of [1, 2, 3, 4, 5]) {
      server.hold(OTHER, `2020-01-01T00:00:0${renewal}.000000Z`);
      await turn(500 * renewal);
    }
    server.hold(OTHER, "2020-01-01T00:00:10.000000Z");
    await turn(16_000);
    await acquired;
    expect(lease.isHeld).toBe(true);
  });

  test("of two at once one gets it", async () => {
    const { lease, contend, events, turn } = await lab();
    const abort = new AbortController();
    const second = contend(other);
    const both = [lease.acquire(abort.signal), second.acquire(abort.signal)].map((one) =>
      one.catch(() => {}),
    );
    await Promise.race(both);
    await turn(3000);
    expect([lease.isHeld, second.isHeld].filter(Boolean)).toHaveLength(1);
    expect(events.filter((event) => event.endsWith("acquired"))).toHaveLength(1);
    abort.abort();
    await Promise.all(both);
  });

  test("an API server that fails is asked again", async () => {
    const { server, lease, turn, rest } = await lab();
    server.broken = status(500, "InternalError");
    const acquired = lease.acquire();
    await rest();
    server.broken = undefined;
    await turn(10_000);
    await acquired;
    expect(lease.isHeld).toBe(true);
  });

  test("an aborted signal rejects with its reason", async () => {
    const { server, lease, rest } = await lab();
    server.hold(OTHER);
    const abort = new AbortController();
    const acquired = lease.acquire(abort.signal);
    await rest();
    const reason = new Error("enough");
    abort.abort(reason);
    await expect(acquired).rejects.toBe(reason);
  });
});

describe("holding", () => {
  test("is renewed every two seconds, for ten each", async () => {
    const { server, api, held, lease, turn } = await lab();
    await lease.acquire();
    await turn(60_000);
    expect(api.count(`PUT ${PATH}`)).toBe(30);
    expect(server.object?.spec.renewTime).toBe("2026-01-01T00:01:00.000000Z");
    expect(held).toEqual(Array.from({ length: 31 }, () => 10_000));
    expect(lease.isHeld).toBe(true);
  });

  test.each<[string, Answer]>([
    ["cuts connections", { cut: true }],
    ["does not answer", { hang: true }],
    ["answers 500", status(500, "InternalError")],
  ])("an API server that %s: lost at the renew deadline, once", async (_, broken) => {
    const { server, lease, events, turn } = await lab();
    await lease.acquire();
    await turn(10_000);
    server.broken = broken;
    await turn(9500);
    expect(lease.isHeld).toBe(true);
    await turn(500);
    expect(lease.isHeld).toBe(false);
    await turn(20_000);
    expect(events).toEqual(["me acquired", "me lost: it could not be renewed for 10 s"]);
  });

  test("an API server that comes back before the deadline: kept", async () => {
    const { server, lease, events, turn } = await lab();
    await lease.acquire();
    server.broken = { cut: true };
    await turn(7000);
    server.broken = undefined;
    await turn(40_000);
    expect(lease.isHeld).toBe(true);
    expect(events).toEqual(["me acquired"]);
  });

  test("an API server that answers after four seconds: kept", async () => {
    const { server, clock, lease, events, turn } = await lab();
    await lease.acquire();
    server.later = (answer) => clock.setTimer(4000, answer);
    await turn(60_000);
    expect(lease.isHeld).toBe(true);
    expect(events).toEqual(["me acquired"]);
  });

  test("a renewal without an answer for five seconds is repeated at once", async () => {
    const { server, api, lease, turn } = await lab();
    await lease.acquire();
    server.broken = { hang: true };
    await turn(6500);
    expect(api.count(`PUT ${PATH}`)).toBe(1);
    server.broken = undefined;
    await turn(500);
    expect(api.count(`PUT ${PATH}`)).toBe(2);
    await turn(9000);
    expect(lease.isHeld).toBe(true);
  });

  test("taken by another: lost at the next renewal", async () => {
    const { server, lease, events, turn } = await lab();
    await lease.acquire();
    server.hold(OTHER);
    await turn(10_000);
    expect(events).toEqual(["me acquired", `me lost: ${OTHER} has acquired it`]);
  });

  test("changed by somebody but still ours, or deleted: kept", async () => {
    const { server, lease, turn } = await lab();
    await lease.acquire();
    server.hold(formatIdentity(me));
    await turn(10_000);
    server.object = undefined;
    await turn(10_000);
    expect(lease.isHeld).toBe(true);
    expect(server.object).toMatchObject({ spec: { holderIdentity: formatIdentity(me) } });
  });

  test("annotated by its holder at once, and again after somebody has removed that", async () => {
    const { server, api, lease, turn } = await lab();
    const annotations = { address: "10.0.0.2:80" };
    server.hold("");
    await lease.acquire(undefined, annotations);
    expect(api.requests).toHaveLength(2);
    expect(server.object).toMatchObject({ metadata: { annotations } });
    server.hold(formatIdentity(me));
    await turn(2000);
    expect(server.object).toMatchObject({ metadata: { annotations } });
    server.object = undefined;
    await turn(2000);
    expect(server.object).toMatchObject({ metadata: { annotations } });
  });

  test("deleted, and not created again at the first try: created by the next one, unless another process has", async () => {
    const { server, lease, events, turn } = await lab();
    await lease.acquire();
    server.object = undefined;
    server.broken = status(404, "NotFound");
    await turn(2000);
    server.broken = undefined;
    await turn(2000);
    expect(server.object).toMatchObject({ spec: { holderIdentity: formatIdentity(me) } });
    server.object = undefined;
    server.broken = status(404, "NotFound");
    await turn(2000);
    server.broken = undefined;
    server.hold(formatIdentity(other));
    await turn(2000);
    expect(lease.isHeld).toBe(false);
    expect(events.at(-1)).toMatch(/other.* has acquired it/);
  });
});

describe("giving back", () => {
  test("frees it for anybody and stops renewing", async () => {
    const { server, clock, api, lease, contend, events } = await lab();
    await lease.acquire();
    await lease.release();
    expect(server.object?.spec).toMatchObject({ holderIdentity: "", leaseDurationSeconds: 1 });
    expect(clock.nextTimerAt).toBeUndefined();
    await contend(other).acquire();
    expect(events).toEqual(["me acquired", "other acquired"]);
    expect(api.count(`PUT ${PATH}`)).toBe(2);
  });

  test("never touches one that is another's by now, and never throws", async () => {
    const { server, lease, events } = await lab();
    await lease.acquire();
    server.hold(OTHER);
    await lease.release();
    expect(server.object?.spec.holderIdentity).toBe(OTHER);
    await lease.release();
    expect(events).toEqual(["me acquired"]);
  });
});
