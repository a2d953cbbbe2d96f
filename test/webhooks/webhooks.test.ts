import { request } from "node:https";
import { expect, onTestFinished, test } from "vitest";

import type { KubeClient, WatchHub } from "../../src/kube/index.ts";
import { silentLogger, systemClock } from "../../src/lib/index.ts";
import { issueCa, issueServer } from "../../src/webhooks/certificate/issue.ts";
import type { Certificate } from "../../src/webhooks/certificate/certificate.ts";
import { Webhooks, type WebhooksOptions } from "../../src/webhooks/webhooks.ts";

// A leader and a follower, without an API server: what is registered is tested with a real one.

const DAY = 86_400_000;
const validity = { from: Date.now() - DAY, to: Date.now() + DAY };
const ca = issueCa(validity);
const certificate: Certificate = {
  ...issueServer(ca, ["hooks.ns.svc"], validity),
  ca: ca.cert,
  peerCa: ca.cert,
};

function webhooks(more: Partial<WebhooksOptions> = {}): Webhooks {
  const made = new Webhooks({
    client: { json: () => Promise.reject(new Error("no API server")) } as unknown as KubeClient,
    hub: { subscribe: () => ({ close: () => {} }) } as unknown as WatchHub,
    clock: systemClock,
    logger: silentLogger,
    namespace: "ns",
    name: "test",
    listen: { address: "127.0.0.1", port: 0 },
    source: { checkMs: DAY, read: () => Promise.resolve(certificate) },
    target: { service: { namespace: "ns", name: "hooks" } },
    leader: () => Promise.resolve(undefined),
    onRequest: () => {},
    onIssues: () => {},
    failed: () => {},
    ...more,
  });
  onTestFinished(() => made.close());
  return made;
}

function post(port: number, path: string): Promise<{ status: number; body: string }> {
  return new Promise((resolve, reject) => {
    const headers = { "content-type": "application/json" };
    const trust = { ca: ca.cert, servername: "hooks.ns.svc", cert: certificate.cert, key: certificate.key };
    const sent = request({ host: "127.0.0.1", port, path, method: "POST", headers, agent: false, ...trust });
    sent.on("error", reject).on("response", (answer) => {
      let body = "";
      answer.setEncoding("utf8").on("data", (part: string) => (body += part));
      answer.on("end", () => resolve({ status: answer.statusCode ?? 0, body }));
    });
    sent.end(
      JSON.stringify({
        apiVersion: "admission.k8s.io/v1beta1",
        kind: "AdmissionReview",
        request: { uid: "7", operation: "CREATE" },
      }),
    );
  });
}

const clientCa = issueCa(validity).cert;

test("a follower passes reviews on to the leader, also where clients need certificates", async () => {
  const leader = webhooks({ clientCa });
  await leader.open();
  await leader.lead();
  leader.route("/x", ({ uid }) => Promise.resolve({ allowed: false, message: `seen ${uid}` }));
  const place = { ip: "127.0.0.1", port: leader.port };
  const follower = webhooks({ clientCa, leader: () => Promise.resolve(place) });
  await follower.open();
  const { status, body } = await post(follower.port, "/x");
  expect([status, JSON.parse(body)]).toEqual([
    200,
    {
      apiVersion: "admission.k8s.io/v1beta1",
      kind: "AdmissionReview",
      response: { uid: "7", allowed: false, status: { code: 403, message: "seen 7" } },
    },
  ]);
  expect((await post(follower.port, "/unknown")).status).toBe(503);
});

test("without a leader, or with one that is a follower itself, the answer is an HTTP error", async () => {
  const lonely = webhooks();
  await lonely.open();
  expect((await post(lonely.port, "/x")).status).toBe(503);
  const place = { ip: "127.0.0.1", port: 0 };
  const circular = webhooks({ leader: () => Promise.resolve(place) });
  await circular.open();
  place.port = circular.port;
  expect((await post(circular.port, "/x")).status).toBe(503);
});

test("a follower listens as soon as the leader has made a certificate", async () => {
  let readings = 0;
  const waits: number[] = [];
  const clock = {
    ...systemClock,
    setTimer: (ms: number, fn: () => void) => {
      waits.push(ms);
      return systemClock.setTimer(ms === 5000 ? 0 : ms, fn);
    },
  };
  const follower = webhooks({
    clock,
    source: { checkMs: DAY, read: () => Promise.resolve(readings++ === 0 ? undefined : certificate) },
  });
  await follower.open();
  expect(follower.port).toBe(0);
  await expect.poll(() => follower.port).not.toBe(0);
  expect(waits).toContain(5000);
});

test("an invalid certificate is reported, and the one before stays in use", async () => {
  let next: () => Promise<Certificate> = () => Promise.resolve(certificate);
  const made = webhooks({ source: { checkMs: DAY, read: () => next() } });
  await made.open();
  next = () => Promise.reject(new Error("it is malformed"));
  await made.lead();
  made.route("/x", () => Promise.resolve({ allowed: true }));
  expect((await post(made.port, "/x")).status).toBe(200);
});
