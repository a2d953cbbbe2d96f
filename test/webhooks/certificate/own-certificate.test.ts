import { X509Certificate } from "node:crypto";
import { describe, expect, test } from "vitest";

import { parseCertificates } from "../../../src/webhooks/certificate/certificate.ts";
import { renewIfDue, type StoredCertificate } from "../../../src/webhooks/certificate/own-certificate.ts";

const HOUR = 3_600_000;
const DAY = 24 * HOUR;
const start = Date.UTC(2026, 0, 1);
const HOSTS = ["webhooks.ns.svc"];

interface Chain {
  readonly leaf: X509Certificate;
  readonly signers: readonly X509Certificate[];
}

/** By bundle and certificate, which stay the same on most days. */
const chains = new Map<string, Chain>();

/** The certificate, and the CAs of the bundle that signed it. */
function chainOf(ca: string, cert: string): Chain {
  const known = chains.get(ca + cert);
  if (known !== undefined) return known;
  const leaf = new X509Certificate(cert);
  const chain = { leaf, signers: parseCertificates(ca).filter((each) => leaf.verify(each.publicKey)) };
  chains.set(ca + cert, chain);
  return chain;
}

/** Whether an API server that trusts `ca` accepts the certificate at that time. */
function accepts(ca: string, { cert }: StoredCertificate, now: number): boolean {
  const { leaf, signers } = chainOf(ca, cert);
  const isValid = (each: X509Certificate): boolean =>
    each.validFromDate.getTime() <= now && each.validToDate.getTime() > now;
  return isValid(leaf) && signers.some(isValid);
}

describe("over 25 years, checked each day", () => {
  const seen: { now: number; stored: StoredCertificate; changed: boolean }[] = [];
  let stored: StoredCertificate | undefined;
  for (let day = 0; day < 25 * 365; day += 1) {
    const now = start + day * DAY;
    const next = renewIfDue(stored, HOSTS, now);
    seen.push({ now, stored: next, changed: next !== stored });
    stored = next;
  }

  test("an API server that learned of the CAs a day ago accepts each certificate", () => {
    const refused = seen.filter(
      ({ now, stored: each }, index) => !accepts(seen[Math.max(0, index - 1)]?.stored.ca ?? "", each, now),
    );
    expect(refused.map(({ now }) => new Date(now).toISOString())).toEqual([]);
  });

  test("it is written only when something is due: each two months, and for a new CA", () => {
    const bundles = [...new Set(seen.map(({ stored: each }) => each.ca))];
    const cas = new Set(bundles.map((each) => each.slice(0, 200)));
    expect(cas.size).toBe(3);
    expect(seen.filter(({ changed }) => changed).length).toBeLessThan((25 * 365) / 60 + 2 * cas.size + 1);
    expect(Math.max(...bundles.map((each) => parseCertificates(each).length))).toBe(2);
  });
});

describe("what cannot be used is replaced at once", () => {
  const good = renewIfDue(undefined, HOSTS, start);

  interface Case {
    readonly stored?: StoredCertificate;
    readonly hosts?: readonly string[];
    readonly now?: number;
  }
  test.each<[string, Case]>([
    ["expired", { now: start + 11 * 365 * DAY }],
    ["of the future", { now: start - 10 * 365 * DAY }],
    ["without the key of its CA", { stored: { ...good, caKey: "x" } }],
    ["with another CA's key", { stored: { ...good, caKey: renewIfDue(undefined, HOSTS, start).caKey } }],
    ["signed by another CA", { stored: { ...good, cert: renewIfDue(undefined, HOSTS, start).cert } }],
    ["for another host", { hosts: ["other.ns.svc"] }],
  ])("%s", (_, { stored = good, hosts = HOSTS, now = start }) => {
    const next = renewIfDue(stored, hosts, now);
    expect(next.cert).not.toBe(stored.cert);
    expect(accepts(next.ca, next, now)).toBe(true);
    expect(new X509Certificate(next.cert).checkHost(hosts[0] ?? "")).toBeDefined();
  });

  test("a good one stays", () => {
    expect(renewIfDue(good, HOSTS, start + 59 * DAY)).toBe(good);
  });
});
