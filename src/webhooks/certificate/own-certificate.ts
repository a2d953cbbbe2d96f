/** The certificate that the operator issues for itself and keeps in a Secret, which all replicas share. */

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
import { formatDuration } from "../../lib/index.ts";
import { certificateFrom, certificatesIn, type Certificate, type CertificateSource } from "./certificate.ts";
import { issueCa, issueServer, type KeyPair } from "./issue.ts";

const DAY_MS = 86_400_000;
const CA_MS = 3650 * DAY_MS;
const SERVER_MS = 90 * DAY_MS;
/** Certificates are valid a day before they are issued: clocks differ. */
const EARLY_MS = DAY_MS;
/** A new CA is announced, and a certificate replaced, so long before the old one ends. */
const RENEW_CA_MS = 365 * DAY_MS;
const RENEW_SERVER_MS = 30 * DAY_MS;
/** A new CA signs nothing before API servers have had this time to learn of it. */
const ANNOUNCED_MS = 3_600_000;
/** Others may delete or change the Secret: so soon it is repaired, and not more often. */
const CHECK_MS = 180_000;
/** Two replicas conflict once; a third try serves a third replica. */
const TRIES = 4;
/** A clock that is off by more is reported. */
const SKEW_MS = 300_000;

export interface OwnCertificateOptions extends KubeAccess {
  /** Name of the Secret in the operator's namespace. */
  readonly secret: string;
  /** Names and addresses of the server. */
  readonly hosts: readonly string[];
  /** Whether this process may write: a follower only reads. */
  readonly mayWrite: () => boolean;
}

/** What the Secret stores. `ca` begins with the newest CA, whose key is `caKey`. */
export interface Stored extends Certificate {
  readonly caKey: string;
}

/**
 * The certificate in the Secret; issues it if it is missing, invalid, for other hosts, or close to its end. A new CA is
 * added to the bundle first and signs only later, so that no call fails when one replaces the other. Of replicas that
 * write at once one wins, and the others read. The time is the API server's, which checks the certificates.
 */
export class OwnCertificate implements CertificateSource {
  readonly checkMs = CHECK_MS;
  readonly #options: OwnCertificateOptions;
  #reportedSkew = false;

  constructor(options: OwnCertificateOptions) {
    this.#options = options;
  }

  /** Undefined for a follower before the leader has written it. Throws ApiError, ConnectionError. */
  read(): Promise<Certificate | undefined> {
    const isSuperseded = (error: unknown): boolean => isConflict(error) || isAlreadyExists(error);
    return retryConflicts(TRIES, () => this.#readOnce(), isSuperseded);
  }

  async #readOnce(): Promise<Certificate | undefined> {
    const { client, namespace, secret: name, mayWrite, logger } = this.#options;
    const found = await get<Secret>(client, { resource: SECRETS, namespace, name }).catch(ignoreNotFound);
    const stored = found === undefined ? undefined : storedIn(found);
    if (!mayWrite()) return stored && { ...stored, peerCa: stored.ca };
    const next = renewed(stored, this.#options.hosts, await this.#serverTime());
    if (next === stored) return { ...next, peerCa: next.ca };
    await this.#write(next, found);
    const { validTo } = new X509Certificate(next.cert);
    const before = { found: found !== undefined, valid: stored !== undefined };
    logger.info("A certificate of the webhook server is issued", { secret: name, validTo, ...before });
    return { ...next, peerCa: next.ca };
  }

  async #write(next: Stored, before: Secret | undefined): Promise<void> {
    const { client, namespace, secret: name } = this.#options;
    const texts = { "tls.crt": next.cert, "tls.key": next.key, "ca.crt": next.ca, "ca.key": next.caKey };
    const data = Object.fromEntries(
      Object.entries(texts).map(([key, text]) => [key, Buffer.from(text).toString("base64")]),
    );
    const target = { resource: SECRETS, namespace };
    const metadata = { name, namespace, labels: MANAGED_BY_OPERATOR };
    if (before === undefined)
      await create(client, target, { body: { apiVersion: "v1", kind: "Secret", metadata, data } });
    else await replace(client, { ...target, name }, { body: { ...before, data } });
  }

  /** The time of the API server: that of an object that it does not store. */
  async #serverTime(): Promise<number> {
    const { client, namespace, clock, logger } = this.#options;
    const metadata = { generateName: "addon-operator-time-", namespace };
    const body = { apiVersion: "v1", kind: "Secret", metadata };
    const answer = await create<Secret>(client, { resource: SECRETS, namespace }, { body, dryRun: true });
    const time = Date.parse(String(answer.metadata.creationTimestamp));
    const skew = Math.abs(time - clock.now());
    if (!(skew > SKEW_MS) || this.#reportedSkew) return time;
    this.#reportedSkew = true;
    const difference = formatDuration(skew);
    logger.warn("The clock of this machine differs from that of the API server; set it", { difference });
    return time;
  }
}

/** Undefined if the Secret does not contain what was stored. */
function storedIn({ data = {} }: Secret): Stored | undefined {
  const text = (key: string): string => Buffer.from(data[key] ?? "", "base64").toString();
  try {
    const certificate = certificateFrom(
      { cert: text("tls.crt"), key: text("tls.key"), ca: text("ca.crt") },
      "the Secret",
    );
    return { ...certificate, caKey: text("ca.key") };
  } catch {
    return undefined;
  }
}

/** What is to be stored at the time `now` (ms since the epoch): `stored` itself if it is still good. */
export function renewed(stored: Stored | undefined, hosts: readonly string[], now: number): Stored {
  const [newest, ...older] = stored === undefined ? [] : certificatesIn(stored.ca);
  if (stored === undefined || !canSign(newest, stored, now)) return issued(newCa(now), [], { hosts, now });
  const leaf = new X509Certificate(stored.cert);
  const reissued = (): Stored =>
    issued({ cert: newest.toString(), key: stored.caKey }, older, { hosts, now });
  if (!isFor(leaf, hosts) || !isSignedBy(leaf, [newest, ...older], now)) return reissued();
  if (!isValid(newest, now, RENEW_CA_MS)) {
    const ca = newCa(now);
    return { ...stored, ca: bundle(ca.cert, [newest], now), caKey: ca.key };
  }
  const isAnnounced = older.length === 0 || now - startOf(newest) - EARLY_MS >= ANNOUNCED_MS;
  return isAnnounced && !isValid(leaf, now, RENEW_SERVER_MS) ? reissued() : stored;
}

/** Whether the CA is valid, and its key is there. */
function canSign(ca: X509Certificate | undefined, { caKey }: Stored, now: number): ca is X509Certificate {
  return ca !== undefined && isValid(ca, now, 0) && isKeyOf(ca, caKey);
}

function newCa(now: number): KeyPair {
  return issueCa({ from: now - EARLY_MS, to: now + CA_MS });
}

function issued(
  ca: KeyPair,
  older: readonly X509Certificate[],
  { hosts, now }: { hosts: readonly string[]; now: number },
): Stored {
  const server = issueServer(ca, hosts, { from: now - EARLY_MS, to: now + SERVER_MS });
  return { ...server, ca: bundle(ca.cert, older, now), caKey: ca.key };
}

/** The CA and the older one, while that is valid. */
function bundle(ca: string, older: readonly X509Certificate[], now: number): string {
  const valid = older.slice(0, 1).filter((each) => isValid(each, now, 0));
  return [ca, ...valid.map(String)].map((each) => `${each.trim()}\n`).join("");
}

const startOf = (certificate: X509Certificate): number => certificate.validFromDate.getTime();

/** Whether a certificate is valid now, and will be for `ms` more. */
function isValid(certificate: X509Certificate, now: number, ms: number): boolean {
  return startOf(certificate) <= now && certificate.validToDate.getTime() > now + ms;
}

function isSignedBy(leaf: X509Certificate, cas: readonly X509Certificate[], now: number): boolean {
  if (!isValid(leaf, now, 0)) return false;
  return cas.some((ca) => isValid(ca, now, 0) && leaf.verify(ca.publicKey));
}

function isKeyOf(certificate: X509Certificate, key: string): boolean {
  try {
    return certificate.checkPrivateKey(createPrivateKey(key));
  } catch {
    return false;
  }
}

function isFor(leaf: X509Certificate, hosts: readonly string[]): boolean {
  return hosts.every((host) => (isIP(host) === 0 ? leaf.checkHost(host) : leaf.checkIP(host)) !== undefined);
}
