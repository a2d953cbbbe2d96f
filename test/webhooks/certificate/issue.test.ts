import { X509Certificate } from "node:crypto";
import { expect, test } from "vitest";

import { issueCa, issueServerCertificate } from "../../../src/webhooks/certificate/issue.ts";

// Node reads what is issued; the API server does in test/integration/webhooks-server.test.ts.

const DAY = 86_400_000;
const now = Date.UTC(2026, 0, 1);

test("a certificate is issued by its CA, for names and addresses, from and to the second", () => {
  const ca = issueCa({ from: now, to: now + 30 * 365 * DAY });
  const hosts = ["a-name.in-a.namespace.svc", "127.0.0.1", "::1", "fe80::1:2"];
  const server = new X509Certificate(issueServerCertificate(ca, hosts, { from: now, to: now + DAY }).cert);
  const issuer = new X509Certificate(ca.cert);
  expect(server.checkIssued(issuer)).toBe(true);
  expect(server.verify(issuer.publicKey)).toBe(true);
  expect(issuer.ca).toBe(true);
  expect(server.ca).toBe(false);
  expect(server.checkHost("a-name.in-a.namespace.svc")).toBeDefined();
  for (const address of hosts.slice(1)) expect(server.checkIP(address)).toBeDefined();
  expect(server.checkHost("other")).toBeUndefined();
  expect([server.validFromDate.getTime(), server.validToDate.getTime()]).toEqual([now, now + DAY]);
  // The form of times changes in 2050.
  expect(issuer.validToDate.getTime()).toBe(now + 30 * 365 * DAY);
  expect(server.keyUsage).toEqual(["1.3.6.1.5.5.7.3.1", "1.3.6.1.5.5.7.3.2"]);
});

test("a long name is no reason not to issue", () => {
  const host = `${"a".repeat(60)}.${"b".repeat(60)}.svc`;
  const ca = issueCa({ from: now, to: now + DAY });
  const server = new X509Certificate(issueServerCertificate(ca, [host], { from: now, to: now + DAY }).cert);
  expect(server.checkHost(host)).toBeDefined();
});
