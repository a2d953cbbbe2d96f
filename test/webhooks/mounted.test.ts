import { X509Certificate } from "node:crypto";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, renameSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { connect } from "node:tls";
import { expect, onTestFinished, test } from "vitest";

import { silentLogger, systemClock } from "../../src/base/index.ts";
import { mountedCertificateSource, type Certificate } from "../../src/webhooks/certificate/certificate.ts";
import { issueCa, issueServerCertificate } from "../../src/webhooks/certificate/issue.ts";
import { post, webhooks } from "./lab.ts";

// docs/guides/webhooks.md, "Set up the server": files that the kubelet replaces while the server serves.

const DAY = 86_400_000;
const validity = { from: Date.now() - DAY, to: Date.now() + DAY };
const ca = issueCa(validity);
const issue = (): Certificate => ({ ...issueServerCertificate(ca, ["hooks.ns.svc"], validity), ca: ca.cert });

/** A directory as the kubelet makes it: the files are links into one that is replaced as a whole. */
function mount(): { dir: string; put: (certificate: Certificate) => void } {
  const dir = mkdtempSync(join(tmpdir(), "mounted-"));
  onTestFinished(() => rmSync(dir, { recursive: true, force: true }));
  for (const name of ["tls.crt", "tls.key", "ca.crt"]) symlinkSync(join("..data", name), join(dir, name));
  let version = 0;
  const put = ({ cert, key, ca: trusted }: Certificate): void => {
    const data = `..${(version += 1)}`;
    mkdirSync(join(dir, data));
    writeFileSync(join(dir, data, "tls.crt"), cert);
    writeFileSync(join(dir, data, "tls.key"), key);
    writeFileSync(join(dir, data, "ca.crt"), trusted);
    symlinkSync(data, join(dir, "..next"));
    renameSync(join(dir, "..next"), join(dir, "..data"));
  };
  return { dir, put };
}

/** The serial number of the certificate that new connections get; `trusted` are the CAs of the client. */
async function presented(port: number, trusted = ca.cert): Promise<string> {
  const socket = connect({ host: "127.0.0.1", port, ca: trusted, servername: "hooks.ns.svc" });
  await once(socket, "secureConnect");
  const { serialNumber } = socket.getPeerCertificate();
  socket.destroy();
  return serialNumber;
}

/** A logger, and the warnings that it got. */
function heard() {
  const warnings: string[] = [];
  return { warnings, logger: { ...silentLogger, warn: (message: string) => void warnings.push(message) } };
}

/** A call that is answered by whoever gets it, whether it leads or not. */
const CALL = {
  ca: ca.cert,
  headers: { "content-type": "application/json", "x-addon-operator-follower": "true" },
};

const serialOf = ({ cert }: Certificate): string => new X509Certificate(cert).serialNumber;

test("a mounted certificate is replaced without a failed call, and what does not fit together is not used", async () => {
  const { dir, put } = mount();
  const [one, two] = [issue(), issue()];
  put(one);
  const source = mountedCertificateSource(dir);
  let read = (): unknown => undefined;
  const setTimer = (ms: number, fn: () => unknown) => {
    if (ms !== source.checkMs && ms !== 5000) return systemClock.setTimer(ms, fn as () => void);
    read = fn;
    return { cancel: () => {} };
  };
  const { warnings, logger } = heard();
  const made = webhooks({
    source,
    logger,
    // Without time that passes, the delays are exact.
    clock: { ...systemClock, monotonic: () => 0, setTimer },
    // Told from the timers of readings by their length.
    limits: { arriveMs: 20_000 },
  });
  await made.open();
  made.addAdmissionRoute("/x", () => Promise.resolve({ allowed: true }));

  const over = new AbortController();
  const statuses: number[] = [];
  const calls = Array.from({ length: 3 }, async () => {
    while (!over.signal.aborted) statuses.push((await post(made.port, "/x", CALL)).status);
  });
  put({ ...two, key: one.key });
  read();
  await expect.poll(() => warnings).toHaveLength(1);
  expect(await presented(made.port)).toBe(serialOf(one));
  put(two);
  read();
  await expect.poll(() => presented(made.port)).toBe(serialOf(two));
  const before = statuses.length;
  await expect.poll(() => statuses.length, { timeout: 10_000 }).toBeGreaterThan(before + 6);
  over.abort();
  await Promise.all(calls);
  expect(new Set(statuses)).toEqual(new Set([200]));
});

test("a certificate of a new CA is presented ten seconds after it was found, when API servers know the CA", async () => {
  const other = issueCa(validity);
  const one = issue();
  const two = { ...issueServerCertificate(other, ["hooks.ns.svc"], validity), ca: other.cert };
  let found: Certificate = one;
  let now = 0;
  const due = new Map<number, () => unknown>();
  const setTimer = (ms: number, fn: () => unknown) => {
    due.set(ms, fn);
    return { cancel: () => {} };
  };
  const source = { checkMs: DAY, read: () => Promise.resolve(found) };
  const made = webhooks({ source, clock: { ...systemClock, monotonic: () => now, setTimer } });
  await made.open();
  found = two;
  due.get(DAY)?.();
  await expect.poll(() => due.has(10_000)).toBe(true);
  expect(await presented(made.port)).toBe(serialOf(one));
  now += 10_000;
  due.get(10_000)?.();
  const trusted = `${ca.cert}\n${other.cert}`;
  await expect.poll(() => presented(made.port, trusted)).toBe(serialOf(two));
});
