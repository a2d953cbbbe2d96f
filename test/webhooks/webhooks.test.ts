import { expect, test } from "vitest";

import { systemClock } from "../../src/base/index.ts";
import { issueCa } from "../../src/webhooks/certificate/issue.ts";
import type { Certificate } from "../../src/webhooks/certificate/certificate.ts";
import { certificate, post, validity, webhooks } from "./lab.ts";

// A leader and a follower, without an API server: what is registered is tested with a real one.

const DAY = 86_400_000;
const clientCa = issueCa(validity).cert;

test("a follower passes reviews on to the leader, also where clients need certificates", async () => {
  const leader = webhooks({ clientCa });
  await leader.open();
  await leader.becomeLeader();
  leader.addAdmissionRoute("/x", ({ uid }) => Promise.resolve({ allowed: false, message: `seen ${uid}` }));
  const place = { ip: "127.0.0.1", port: leader.port };
  const follower = webhooks({ clientCa, findLeader: () => Promise.resolve(place) });
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

test("a follower finds a new leader once the one before does not answer, and asks for it only then", async () => {
  const [one, two] = [webhooks(), webhooks()];
  for (const each of [one, two]) {
    await each.open();
    await each.becomeLeader();
    each.addAdmissionRoute("/x", () => Promise.resolve({ allowed: true }));
  }
  let [leader, asked] = [one, 0];
  const follower = webhooks({
    findLeader: () => {
      asked += 1;
      return Promise.resolve({ ip: "127.0.0.1", port: leader.port });
    },
  });
  await follower.open();
  const statuses = async (count: number): Promise<number[]> => {
    const answers = await Promise.all(Array.from({ length: count }, () => post(follower.port, "/x")));
    return answers.map(({ status }) => status);
  };
  expect(new Set(await statuses(20))).toEqual(new Set([200]));
  expect(asked).toBe(1);
  leader = two;
  await one.close();
  expect(await statuses(1)).toEqual([503]);
  expect(new Set(await statuses(20))).toEqual(new Set([200]));
  expect(asked).toBe(2);
});

test("without a leader, or with one that is a follower itself, the answer is an HTTP error", async () => {
  const lonely = webhooks();
  await lonely.open();
  expect((await post(lonely.port, "/x")).status).toBe(503);
  const place = { ip: "127.0.0.1", port: 0 };
  const circular = webhooks({ findLeader: () => Promise.resolve(place) });
  await circular.open();
  place.port = circular.port;
  expect((await post(circular.port, "/x")).status).toBe(503);
});

test("a follower listens as soon as the leader has made a certificate", async () => {
  let readings = 0;
  const waits: number[] = [];
  const clock = {
    ...systemClock,
    // Without time that passes, the delays are exact.
    monotonic: () => 0,
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
  await made.becomeLeader();
  made.addAdmissionRoute("/x", () => Promise.resolve({ allowed: true }));
  expect((await post(made.port, "/x")).status).toBe(200);
});
