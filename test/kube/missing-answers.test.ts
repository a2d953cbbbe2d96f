import { describe, expect, test } from "vitest";

import { LiveObjectClient } from "../../src/helm/objects/live-objects.ts";
import { ReleaseStore } from "../../src/helm/index.ts";
import {
  Discovery,
  isNotFound,
  Lease,
  readOwnIdentity,
  WatchHub,
  CONFIG_MAPS,
} from "../../src/kube/index.ts";
import type { KubeClient } from "../../src/kube/index.ts";
import { oneLine, silentLogger } from "../../src/base/index.ts";
import { ConfigObjects } from "../../src/config/map/config-objects.ts";
import { WatchIssues } from "../../src/config/index.ts";
import type { ManualClock } from "../support/clock.ts";
import { EngineLab } from "../support/engine-lab.ts";
import { status, type Answer, type FakeApi } from "../support/fake-api.ts";
import { fake } from "./fixture.ts";
import { overviewOf } from "../report/views.ts";

// Unknown is not absent: what each place that sends requests to the API server makes of each answer, and what users read.

/** An answer of another program, with this status, content type and body. */
const foreign = (code: number, type: string, body: string): Answer => ({
  take: (response) => void response.writeHead(code, { "content-type": type }).end(body),
});
const HTML = "<html>Log in</html>";

/** An answer, and the part of the error that users read. Only the first one means that the object does not exist. */
const ANSWERS: readonly (readonly [name: string, answer: Answer, error: string])[] = [
  ["404 as a Status", status(404, "NotFound"), "NotFound"],
  ["404 as a page of a proxy", foreign(404, "text/html", HTML), "the server answered 404"],
  ["404 as the text of a proxy", foreign(404, "text/plain", "no route"), "the server answered 404"],
  ["401", status(401, "Unauthorized"), "Unauthorized"],
  ["403", status(403, "Forbidden", { message: 'User "op" cannot get it' }), 'User "op" cannot get it'],
  ["405", status(405, "MethodNotAllowed"), "MethodNotAllowed"],
  ["409", status(409, "Conflict"), "Conflict"],
  ["410", status(410, "Expired"), "Expired"],
  ["422", status(422, "Invalid"), "Invalid"],
  ["429", status(429, "TooManyRequests"), "TooManyRequests"],
  [
    "429 with Retry-After",
    status(429, "TooManyRequests", { headers: { "retry-after": "1" } }),
    "TooManyRequests|no answer in time",
  ],
  ["500", status(500, "InternalError"), "InternalError"],
  ["503", status(503, "ServiceUnavailable"), "ServiceUnavailable"],
  [
    "HTML with 200",
    foreign(200, "text/html", HTML),
    "answered with text/html instead of JSON; a proxy may be in between",
  ],
  [
    "HTML with 200 that claims to be JSON",
    foreign(200, "application/json", HTML),
    "proxy may be in between|ended in the middle",
  ],
  [
    "JSON of another program with 200",
    { json: { login: true } },
    "proxy may be in between|no aggregated discovery|in the middle of an event",
  ],
  [
    "nothing with 200",
    foreign(200, "application/json", ""),
    "answered with nothing|ended in the middle|closed the watch at once",
  ],
  ["a connection that is cut", { cut: true }, "other side closed|ECONNRESET|terminated"],
  ["a body that is cut", { cut: true, after: '{"kind":"' }, "other side closed|ECONNRESET|terminated"],
  ["an answer that never comes", { hang: true }, "no answer in time|no bytes for"],
];

interface Lab {
  readonly api: FakeApi;
  readonly client: KubeClient;
  readonly clock: ManualClock;
}

/** What a place makes of an answer, where the object exists: `absent`, or the error. */
type Place = (lab: Lab, answer: Answer) => Promise<string>;

const OPS = "/api/v1/namespaces/ops";
const MAP = {
  apiVersion: "v1",
  kind: "ConfigMap",
  metadata: { name: "cm", namespace: "ops", uid: "u", resourceVersion: "5" },
};
const LIST = { kind: "ConfigMapList", metadata: { resourceVersion: "10" }, items: [MAP] };
const KINDS = {
  kind: "APIGroupDiscoveryList",
  items: [
    {
      metadata: { name: "" },
      versions: [
        {
          version: "v1",
          resources: [{ resource: "configmaps", responseKind: { kind: "ConfigMap" }, scope: "Namespaced" }],
        },
      ],
    },
  ],
};

/** Lets time pass until the promise is settled: real requests need real time, and retries and time limits virtual time. */
async function passTime<T>({ clock }: Lab, promise: Promise<T>): Promise<T> {
  const progress = { isSettled: false };
  const end = (): void => void (progress.isSettled = true);
  promise.then(end, end);
  for (let steps = 0; !progress.isSettled; steps += 1) {
    await new Promise((resolve) => setTimeout(resolve, 2));
    await clock.advance(steps < 20 ? 50 : 1000);
  }
  return promise;
}

const toOutcome = (read: Promise<unknown>): Promise<string> =>
  read.then((value) => (value === undefined ? "absent" : "present"), oneLine);

/** Waits until a watch reports an error or a deletion. */
function watchUntilOutcome(lab: Lab): { outcome: Promise<string>; synced: Promise<void> } {
  const hub = new WatchHub({ client: lab.client, clock: lab.clock, logger: silentLogger, random: () => 0 });
  const outcome = Promise.withResolvers<string>();
  const { whenSynced } = hub.subscribe(
    { resource: CONFIG_MAPS, namespace: "ops" },
    {
      onListed: () => {},
      onSynced: () => {},
      onApplied: () => {},
      onDeleted: () => outcome.resolve("absent"),
      onError: (error) => error && outcome.resolve(oneLine(error)),
    },
  );
  return { outcome: outcome.promise.finally(() => hub.close()), synced: whenSynced };
}

const EXPIRED = status(410, "Expired");

const PLACES: readonly (readonly [name: string, place: Place])[] = [
  [
    "discovery",
    (lab, answer) => {
      lab.api.on("GET /api", answer).on("GET /apis", { json: { kind: "APIGroupDiscoveryList" } });
      return passTime(lab, toOutcome(new Discovery(lab.client, lab.clock).resolve("ConfigMap", "v1")));
    },
  ],
  [
    "the list of a watch",
    async (lab, answer) => {
      const lists: Answer[] = [{ json: LIST }, answer];
      lab.api.on(`GET ${OPS}/configmaps`, ({ query }) =>
        query["watch"] ? EXPIRED : ((lists.length > 1 ? lists.shift() : lists[0]) ?? answer),
      );
      return passTime(lab, watchUntilOutcome(lab).outcome);
    },
  ],
  [
    "a watch",
    async (lab, answer) => {
      lab.api.on(`GET ${OPS}/configmaps`, ({ query }) => (query["watch"] ? answer : { json: LIST }));
      return passTime(lab, watchUntilOutcome(lab).outcome);
    },
  ],
  [
    "a read of the ConfigMap",
    (lab, answer) => {
      lab.api.on(`GET ${OPS}/configmaps/cm`, answer);
      const hub = new WatchHub({ ...lab, logger: silentLogger });
      const objects = new ConfigObjects({
        ...lab,
        hub,
        logger: silentLogger,
        namespace: "ops",
        overlay: undefined,
      });
      return passTime(lab, toOutcome(objects.read("cm")));
    },
  ],
  [
    "a list of releases",
    async (lab, answer) => {
      const labels = { owner: "helm", name: "web", status: "deployed", version: "1" };
      const secret = {
        metadata: {
          name: "sh.helm.release.v1.web.v1",
          namespace: "ops",
          uid: "u",
          resourceVersion: "5",
          labels,
        },
      };
      const lists: Answer[] = [
        { json: { kind: "SecretList", metadata: { resourceVersion: "10" }, items: [secret] } },
        answer,
      ];
      lab.api.on(`GET ${OPS}/secrets`, ({ query }) =>
        query["watch"] ? { hang: true } : ((lists.length > 1 ? lists.shift() : lists[0]) ?? answer),
      );
      const hub = new WatchHub({ ...lab, logger: silentLogger });
      const store = new ReleaseStore({ ...lab, hub, logger: silentLogger, namespace: "ops" });
      await passTime(lab, store.waitUntilReady());
      const outcome = await passTime(lab, toOutcome(store.refresh("web")));
      // Whatever the answer: the release is still known.
      const isKnown = store.get("web") !== undefined;
      store.close();
      hub.close();
      return isKnown ? outcome : "forgotten";
    },
  ],
  [
    "a read of an object of a release",
    async (lab, answer) => {
      lab.api.on(`GET ${OPS}/configmaps/cm`, answer);
      lab.api.on("GET /api", { json: KINDS }).on("GET /apis", { json: { kind: "APIGroupDiscoveryList" } });
      const discovery = new Discovery(lab.client, lab.clock);
      const ref = { apiVersion: "v1", kind: "ConfigMap", name: "cm", namespace: "ops" };
      const object = await passTime(
        lab,
        LiveObjectClient.resolve({ client: lab.client, discovery, namespace: "ops" }, ref),
      );
      const { signal } = new AbortController();
      return passTime(lab, toOutcome(object?.get({ signal }) ?? Promise.resolve("no kind")));
    },
  ],
  [
    "the Lease",
    async (lab, answer) => {
      const leases = "/apis/coordination.k8s.io/v1/namespaces/ops/leases";
      lab.api.on(`GET ${leases}/guard`, answer).on(`POST ${leases}`, { json: { metadata: {} } });
      const outcome = Promise.withResolvers<string>();
      const stop = new AbortController();
      const lease = new Lease({
        ...lab,
        namespace: "ops",
        name: "guard",
        identity: readOwnIdentity(),
        times: { durationMs: 35_000, renewDeadlineMs: 30_000, retryMs: 5000 },
        logger: { ...silentLogger, warn: (_, fields) => outcome.resolve(String(fields?.["error"])) },
        events: { onHeld: () => {}, onFailing: () => {}, onLost: () => {}, onWaiting: () => {} },
      });
      // A Lease that does not exist is created.
      const acquired = lease.acquire(stop.signal).then(
        () => outcome.resolve("absent"),
        () => {},
      );
      const result = await passTime(lab, outcome.promise);
      stop.abort();
      void acquired;
      return result;
    },
  ],
];

/** Brings an outcome to where the operator handles it, with a module that runs; the result is as if there had been none. */
type Effect = (lab: EngineLab, outcome: string) => Promise<() => void>;

/** The run of a module that needs the answer fails. */
const inRun: Effect = async (lab, outcome) => {
  lab.helmFails = () => outcome;
  lab.edit({ app: "a: 2" });
  await lab.run();
  return () => (lab.helmFails = undefined);
};

/** The ConfigMap is read right before the removal of a disabled module. */
const inRemoval: Effect = async (lab, outcome) => {
  lab.onRefresh = () => {
    if (outcome !== "absent") throw new Error(outcome);
    lab.loseConfig();
  };
  lab.edit({ appEnabled: "false" });
  await lab.run();
  return () => {
    lab.onRefresh = undefined;
    lab.edit({ appEnabled: undefined });
  };
};

/** The watch of an object of the operator fails for a while. */
const inWatch: Effect = async (lab, outcome) => {
  const issues = new WatchIssues({ state: lab.state, clock: lab.clock });
  issues.report("ConfigMap cm", new Error(outcome));
  await lab.run(10_000);
  return () => issues.report("ConfigMap cm", undefined);
};

/** The Lease is not renewed. */
const inLease: Effect = async (lab, outcome) => {
  lab.state.record("leaseIssueChanged", outcome);
  await lab.run();
  return () => lab.state.record("leaseIssueChanged", undefined);
};

/** What users see, as the states of the operator and of the module, with the status and the reason of Ready. */
function seen(lab: EngineLab): string {
  const { modules, ...operator } = overviewOf(
    { view: lab.state.view, queues: lab.queues.views() },
    lab.clock.now(),
  );
  const [module] = modules;
  return [operator, module].map((each) => `${each?.state} Ready=${each?.ready} ${each?.reason}`).join("; ");
}

const CALM = "Ready Ready=True Ready; Ready Ready=True Ready";
const RUN_FAILS = "Retrying Ready=False ModulesFailing; Retrying Ready=False HelmFailed";
const WATCH_FAILS = "Retrying Ready=False WatchFailed; Ready Ready=True Ready";

/** By place: how the operator handles the outcome, and what users see while there is an error, and if the object does not exist. */
const VISIBLE: Readonly<Record<string, { effect: Effect; error: string; absent?: string }>> = {
  discovery: { effect: inRun, error: RUN_FAILS },
  "the list of a watch": { effect: inWatch, error: WATCH_FAILS },
  "a watch": { effect: inWatch, error: WATCH_FAILS },
  "a read of the ConfigMap": {
    effect: inRemoval,
    error: "Retrying Ready=False ReloadHeldUp; Retrying Ready=False ApiFailed",
    absent: "Invalid Ready=False ConfigMapMissing; Retrying Ready=False ApiFailed",
  },
  "a list of releases": { effect: inRun, error: RUN_FAILS },
  "a read of an object of a release": { effect: inRun, error: RUN_FAILS },
  "the Lease": { effect: inLease, error: "Retrying Ready=False LeaseFailed; Ready Ready=True Ready" },
};

/** An operator with a module that is installed, and a user who watches both. */
async function running(): Promise<EngineLab> {
  const lab = new EngineLab({ modules: [{ name: "app", enabled: true }], config: { app: "a: 1" } });
  await lab.start();
  expect(seen(lab)).toBe(CALM);
  return lab;
}

/** What users see while the place gets no better answer. Nothing is removed, rolled back or forgotten; afterwards all is well. */
async function seenAfter(place: string, outcome: string): Promise<string | undefined> {
  const { effect, error, absent } = VISIBLE[place] ?? { effect: inRun, error: "" };
  // An object that does not exist is created.
  if (outcome === "absent" && absent === undefined) return undefined;
  const lab = await running();
  const end = await effect(lab, outcome);
  const visible = seen(lab);
  expect(visible).toBe(outcome === "absent" ? absent : error);
  expect(lab.releases.get("app")).toMatchObject({ revision: 1, status: "deployed" });
  end();
  await lab.run(60_000);
  expect(seen(lab)).toBe(CALM);
  expect(lab.log.filter((line) => /uninstall|rollback/.test(line))).toEqual([]);
  expect(lab.broken).toEqual([]);
  return visible;
}

describe.each(PLACES)("%s", (place, ask) => {
  test.each(ANSWERS)("%s", async (name, answer, error) => {
    const outcome = await ask(await fake(), answer);
    const isProof = name === "404 as a Status" && /read|Lease/.test(place);
    expect(outcome).toMatch(isProof ? /^absent$/ : new RegExp(error));
    await seenAfter(place, outcome);
  });
});

test("an answer that comes late counts", async () => {
  const lab = await fake();
  const late: Answer = {
    take: (response) =>
      void setTimeout(
        () => response.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify(MAP)),
        20,
      ),
  };
  lab.api.on(`GET ${OPS}/configmaps/cm`, late);
  expect(await toOutcome(lab.client.json({ path: `${OPS}/configmaps/cm` }))).toBe("present");
});

test("a group that the API server does not serve is none", async () => {
  const { api, client } = await fake();
  api.on("GET /apis/example.com", foreign(404, "text/plain", "404 page not found\n"));
  expect(await client.json({ path: "/apis/example.com" }).catch(isNotFound)).toBe(true);
});
