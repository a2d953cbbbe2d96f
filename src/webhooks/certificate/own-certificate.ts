/** Issues the operator's own webhook certificate, and stores it in a Secret that all replicas share. */

import { X509Certificate, createPrivateKey } from "node:crypto";
import { isIP } from "node:net";

import {
  MANAGED_BY_OPERATOR,
  SECRETS,
  create,
  get,
  ignoreNotFound,
  isAlreadyExists,
  isConflict,
  replace,
  retryConflicts,
} from "../../kube/index.ts";
import type { KubeAccess, Secret } from "../../kube/index.ts";
import { attempt, formatDuration } from "../../base/index.ts";
import { parseCertificates, readTlsSecret, type Certificate, type CertificateSource } from "./certificate.ts";
import { issueCa, issueServerCertificate, type KeyPair } from "./issue.ts";

const DAY_MS = 86_400_000;
const CA_VALIDITY_MS = 3650 * DAY_MS;
const SERVER_VALIDITY_MS = 90 * DAY_MS;
/** Certificates become valid a day before they are issued, because clocks differ. */
const BACKDATE_MS = DAY_MS;
/** How long before its end a CA or a certificate gets a successor. */
const RENEW_CA_MS = 365 * DAY_MS;
const RENEW_SERVER_MS = 30 * DAY_MS;
/** How long a new CA must have been in the bundle before it signs a certificate: API servers cache the bundle. */
const ANNOUNCEMENT_MS = 3_600_000;
/** Time between two readings of the Secret, which repair a deleted or changed one. */
const CHECK_MS = 180_000;
/** Tries of one reading when replicas write the Secret at the same time. */
const MAX_TRIES = 4;
/** A greater difference between our clock and that of the API server is logged. */
const MAX_CLOCK_SKEW_MS = 300_000;

export interface OwnCertificateOptions extends KubeAccess {
  /** Name of the Secret in the operator's namespace. */
  readonly secret: string;
  /** Host names and IP addresses of the server. */
  readonly hosts: readonly string[];
  /** Whether this process may write the Secret: only the leader may. */
  readonly mayWrite: () => boolean;
}

/** The content of the Secret. `ca` begins with the newest CA, whose key is `caKey`. */
export interface StoredCertificate extends Certificate {
  readonly caKey: string;
}

/**
 * Reads the certificate in the Secret; the leader issues it if it is missing, invalid, for other hosts, or close to its end.
 * A new CA is in the bundle for some time before it signs a certificate, so that no call fails. If two replicas write at the
 * same time, one wins and the other reads again. All times are those of the API server, because it checks the certificates.
 */
export class OwnCertificate implements CertificateSource {
  readonly checkMs = CHECK_MS;
  readonly #options: OwnCertificateOptions;
  #hasReportedSkew = false;

  constructor(options: OwnCertificateOptions) {
    this.#options = options;
  }

  /** Reads and renews the certificate; undefined for a standby before the leader has written it. Throws ApiError, ConnectionError. */
  read(): Promise<Certificate | undefined> {
    const isSuperseded = (error: unknown): boolean => isConflict(error) || isAlreadyExists(error);
    return retryConflicts(MAX_TRIES, () => this.#readAndRenew(), isSuperseded);
  }

  /** One try: reads the Secret, and as the leader writes it if the certificate is due. Throws at a conflict. */
  async #readAndRenew(): Promise<Certificate | undefined> {
    const { client, namespace, secret: name, mayWrite, logger } = this.#options;
    const found = await get<Secret>(client, { resource: SECRETS, namespace, name }).catch(ignoreNotFound);
    const stored = found === undefined ? undefined : parseStoredCertificate(found);
    if (!mayWrite()) return stored && { ...stored, peerCa: stored.ca };
    const next = renewIfDue(stored, this.#options.hosts, await this.#requestServerTime());
    if (next === stored) return { ...next, peerCa: next.ca };
    await this.#writeSecret(next, found);
    const { validTo } = new X509Certificate(next.cert);
    const before = { found: found !== undefined, valid: stored !== undefined };
    logger.info("A certificate of the webhook server is issued", { secret: name, validTo, ...before });
    return { ...next, peerCa: next.ca };
  }

  /** Creates the Secret, or replaces the version that was read; a newer version is a conflict. */
  async #writeSecret(next: StoredCertificate, before: Secret | undefined): Promise<void> {
    const { client, namespace, secret: name } = this.#options;
    const texts = { "tls.crt": next.cert, "tls.key": next.key, "ca.crt": next.ca, "ca.key": next.caKey };
    const encoded = Object.entries(texts).map(([key, text]) => [key, Buffer.from(text).toString("base64")]);
    const data = Object.fromEntries(encoded);
    const target = { resource: SECRETS, namespace };
    const metadata = { name, namespace, labels: MANAGED_BY_OPERATOR };
    if (before === undefined)
      await create(client, target, { body: { apiVersion: "v1", kind: "Secret", metadata, data } });
    else await replace(client, { ...target, name }, { body: { ...before, data } });
  }

  /** Requests the time of the API server: the creation time of an object from a dry run. Logs once if our clock differs. */
  async #requestServerTime(): Promise<number> {
    const { client, namespace, clock, logger } = this.#options;
    const metadata = { generateName: "addon-operator-time-", namespace };
    const body = { apiVersion: "v1", kind: "Secret", metadata };
    const answer = await create<Secret>(client, { resource: SECRETS, namespace }, { body, dryRun: true });
    const time = Date.parse(String(answer.metadata.creationTimestamp));
    const skew = Math.abs(time - clock.now());
    if (!(skew > MAX_CLOCK_SKEW_MS) || this.#hasReportedSkew) return time;
    this.#hasReportedSkew = true;
    const difference = formatDuration(skew);
    logger.warn("The clock of this machine differs from that of the API server; set it", { difference });
    return time;
  }
}

/** Parses the content of the Secret; undefined if it is no valid certificate with its key. */
function parseStoredCertificate(secret: Secret): StoredCertificate | undefined {
  const caKey = Buffer.from(secret.data?.["ca.key"] ?? "", "base64").toString();
  return attempt(() => ({ ...readTlsSecret(secret), caKey }));
}

/**
 * Returns the certificate to store at the time `now` (ms since the epoch): `stored` itself if nothing is due. One step at a
 * time: a new CA joins the bundle first; after ANNOUNCEMENT_MS it signs the next certificate. A server certificate that
 * cannot be used is replaced at once.
 */
export function renewIfDue(
  stored: StoredCertificate | undefined,
  hosts: readonly string[],
  now: number,
): StoredCertificate {
  const [newestCa, ...formerCas] = stored === undefined ? [] : parseCertificates(stored.ca);
  if (stored === undefined || !canSign(newestCa, stored, now))
    return issueCertificate(issueNewCa(now), [], { hosts, now });
  const serverCert = new X509Certificate(stored.cert);
  const reissue = (): StoredCertificate =>
    issueCertificate({ cert: newestCa.toString(), key: stored.caKey }, formerCas, { hosts, now });
  if (!coversHosts(serverCert, hosts) || !isSignedBy(serverCert, [newestCa, ...formerCas], now))
    return reissue();
  if (!isValid(newestCa, now, RENEW_CA_MS)) {
    const ca = issueNewCa(now);
    return { ...stored, ca: bundleCas(ca.cert, [newestCa], now), caKey: ca.key };
  }
  // With one CA in the bundle, there is no new one that API servers may not know yet.
  const caIssuedAt = validFromMs(newestCa) + BACKDATE_MS;
  const isAnnounced = formerCas.length === 0 || now - caIssuedAt >= ANNOUNCEMENT_MS;
  return isAnnounced && !isValid(serverCert, now, RENEW_SERVER_MS) ? reissue() : stored;
}

/** Whether the CA is valid and `caKey` is its private key. */
function canSign(
  ca: X509Certificate | undefined,
  { caKey }: StoredCertificate,
  now: number,
): ca is X509Certificate {
  return ca !== undefined && isValid(ca, now, 0) && hasPrivateKey(ca, caKey);
}

/** Issues a CA that is valid from the time `now`. */
function issueNewCa(now: number): KeyPair {
  return issueCa({ from: now - BACKDATE_MS, to: now + CA_VALIDITY_MS });
}

/** Issues a server certificate by the CA. The bundle contains the CA and the newest of the former ones. */
function issueCertificate(
  ca: KeyPair,
  formerCas: readonly X509Certificate[],
  { hosts, now }: { hosts: readonly string[]; now: number },
): StoredCertificate {
  const server = issueServerCertificate(ca, hosts, { from: now - BACKDATE_MS, to: now + SERVER_VALIDITY_MS });
  return { ...server, ca: bundleCas(ca.cert, formerCas, now), caKey: ca.key };
}

/** The bundle of the CA and, while it is valid, the newest of the former ones: it has signed the previous certificate. */
function bundleCas(ca: string, formerCas: readonly X509Certificate[], now: number): string {
  const valid = formerCas.slice(0, 1).filter((each) => isValid(each, now, 0));
  return [ca, ...valid.map(String)].map((each) => `${each.trim()}\n`).join("");
}

const validFromMs = (certificate: X509Certificate): number => certificate.validFromDate.getTime();

/** Whether a certificate is valid now and stays valid for `ms` more. */
function isValid(certificate: X509Certificate, now: number, ms: number): boolean {
  return validFromMs(certificate) <= now && certificate.validToDate.getTime() > now + ms;
}

/** Whether the certificate and one of the CAs that signed it are valid. */
function isSignedBy(serverCert: X509Certificate, cas: readonly X509Certificate[], now: number): boolean {
  if (!isValid(serverCert, now, 0)) return false;
  return cas.some((ca) => isValid(ca, now, 0) && serverCert.verify(ca.publicKey));
}

/** Whether `key` is the private key of the certificate; false for a malformed key. */
function hasPrivateKey(certificate: X509Certificate, key: string): boolean {
  return attempt(() => certificate.checkPrivateKey(createPrivateKey(key))) ?? false;
}

/** Whether the certificate is for all hosts. */
function coversHosts(serverCert: X509Certificate, hosts: readonly string[]): boolean {
  return hosts.every(
    (host) => (isIP(host) === 0 ? serverCert.checkHost(host) : serverCert.checkIP(host)) !== undefined,
  );
}
