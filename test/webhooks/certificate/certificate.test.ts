import { expect, test } from "vitest";

import type { Certificate } from "../../../src/webhooks/certificate/certificate.ts";
import { issueCa, issueServerCertificate } from "../../../src/webhooks/certificate/issue.ts";
import { CertificateRotation } from "../../../src/webhooks/certificate/certificate.ts";

const DAY = 86_400_000;
const MINUTE = 60_000;

function issue(ends = DAY): Certificate {
  const ca = issueCa({ from: 0, to: 10 * DAY });
  return { ...issueServerCertificate(ca, ["hooks.ns.svc"], { from: 0, to: ends }), ca: ca.cert };
}

/** Two replicas that read the same certificate each minute, the second one half a minute later. */
function replicas(delayMs = 2 * MINUTE, keepMs = 5 * MINUTE) {
  let now = 0;
  const clock = { now: () => now, monotonic: () => now };
  const rotations = [0, 1].map(() => new CertificateRotation({ clock, delayMs, keepMs }));
  return (at: number, found: Certificate) => {
    now = at;
    return rotations[at % MINUTE === 0 ? 0 : 1]?.applyCertificate(found) as ReturnType<
      CertificateRotation["applyCertificate"]
    >;
  };
}

test("whichever certificate a replica presents, what the other one trusts includes its CA", () => {
  const [one, two] = [issue(), issue()];
  const read = replicas();
  let [first, second] = [read(0, one), read(MINUTE / 2, one)];
  const ends: Certificate[] = [];
  for (let at = MINUTE; at < 20 * MINUTE; at += MINUTE) {
    first = read(at, at < 3 * MINUTE ? one : two);
    for (const { presented } of [first, second]) expect(first.trusted).toContain(presented.ca);
    second = read(at + MINUTE / 2, at < 3 * MINUTE ? one : two);
    for (const { presented } of [first, second]) expect(second.trusted).toContain(presented.ca);
    ends.push(first.presented, second.presented);
  }
  expect(ends.slice(-2)).toEqual([two, two]);
  expect([first.trusted, second.trusted]).toEqual([two.ca, two.ca]);
});

test("a certificate of the same CA is presented at once, and without replicas so is any", () => {
  const [one, two] = [issue(), issue()];
  const renewed = { ...two, ca: one.ca };
  const read = replicas();
  read(0, one);
  expect(read(MINUTE, renewed)).toEqual({ trusted: one.ca, presented: renewed });
  const alone = replicas(0, MINUTE);
  alone(0, one);
  expect(alone(MINUTE, two)).toEqual({ trusted: `${two.ca}\n${one.ca}`, presented: two });
  expect(alone(2 * MINUTE, two).trusted).toBe(two.ca);
});

test("a certificate that has expired is replaced at once", () => {
  const [expired, two] = [issue(MINUTE), issue()];
  const read = replicas();
  read(0, expired);
  expect(read(2 * MINUTE, two).presented).toBe(two);
});
