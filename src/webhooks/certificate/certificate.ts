/** Certificates of the webhook server as PEM: reads those that another program issues, and decides when to present a new one. */

import { X509Certificate, createPrivateKey } from "node:crypto";
import { readFile } from "node:fs/promises";
import { join } from "node:path";

import { SECRETS, get } from "../../kube/index.ts";
import type { KubeAccess, Secret } from "../../kube/index.ts";
import { oneLine, type Clock } from "../../base/index.ts";
import { ProblemError } from "../../base/model/index.ts";

/** The server's certificate and key, and the CAs by which the API server verifies it; all PEM. */
export interface Certificate {
  readonly cert: string;
  readonly key: string;
  readonly ca: string;
  /** CAs that sign certificates of this operator's replicas only. Clients with such a certificate may always connect. */
  readonly peerCa?: string;
}

/** Where the certificate comes from. */
export interface CertificateSource {
  /** Time between two readings, in ms. */
  readonly checkMs: number;
  /** Undefined if there is none yet. Throws if it cannot be read or is invalid. */
  read(): Promise<Certificate | undefined>;
}

/** The files of a Secret of type kubernetes.io/tls, with the CA that cert-manager adds. */
const FILES = { cert: "tls.crt", key: "tls.key", ca: "ca.crt" } as const;

/** Time between two readings of a certificate of another program, which renews it long before its end. */
const CHECK_MS = 60_000;

/** Reads the certificate from a directory with `tls.crt`, `tls.key` and `ca.crt`, such as a mounted Secret. */
export function mountedCertificateSource(dir: string): CertificateSource {
  return {
    checkMs: CHECK_MS,
    async read() {
      const text = (name: string): Promise<string> => readFile(join(dir, name), "utf8");
      const [cert, key, ca] = await Promise.all([text(FILES.cert), text(FILES.key), text(FILES.ca)]);
      return checkCertificate({ cert, key, ca }, dir);
    },
  };
}

/** Reads the certificate from a Secret that another program such as cert-manager writes. */
export function secretCertificateSource({ client, namespace }: KubeAccess, name: string): CertificateSource {
  return {
    checkMs: CHECK_MS,
    async read() {
      return readTlsSecret(await get<Secret>(client, { resource: SECRETS, namespace, name }));
    },
  };
}

/** Reads the certificate in a Secret of type kubernetes.io/tls. Throws ProblemError if it is invalid. */
export function readTlsSecret(secret: Secret): Certificate {
  const text = (key: string): string => Buffer.from(secret.data?.[key] ?? "", "base64").toString();
  const texts = { cert: text(FILES.cert), key: text(FILES.key), ca: text(FILES.ca) };
  return checkCertificate(texts, `Secret ${secret.metadata.name}`);
}

/** Returns the texts if they are certificates and a key that belongs to `cert`. Throws ProblemError, which names `location`. */
function checkCertificate(texts: Omit<Certificate, "peerCa">, location: string): Certificate {
  for (const part of ["cert", "key", "ca"] as const) {
    try {
      if (part === "key") checkKey(texts);
      else if (parseCertificates(texts[part]).length === 0) throw new Error("it contains no certificate");
    } catch (error) {
      const remedy = `write tls.crt, tls.key and ca.crt as PEM`;
      throw new ProblemError({ file: location, key: FILES[part], message: oneLine(error), remedy });
    }
  }
  return texts;
}

/** Throws if the key does not belong to the certificate. */
function checkKey({ cert, key }: Pick<Certificate, "cert" | "key">): void {
  if (new X509Certificate(cert).checkPrivateKey(createPrivateKey(key))) return;
  throw new Error(`it is not the key of the certificate in ${FILES.cert}`);
}

/** Parses the certificates of a PEM bundle. Throws if one is malformed. */
export function parseCertificates(bundle: string): X509Certificate[] {
  const parts = bundle.split(/(?<=-----END CERTIFICATE-----)/).filter((part) => part.includes("-----BEGIN"));
  return parts.map((part) => new X509Certificate(part));
}

interface RotationOptions {
  readonly clock: Pick<Clock, "now" | "monotonic">;
  /** How long clients trust a new CA before the server presents a certificate that it signed: other replicas read the CA later. */
  readonly delayMs: number;
  /** How long clients still trust the previous CA: other replicas may still present a certificate that it signed. */
  readonly keepMs: number;
}

/** The decision for the certificates read so far. */
interface RotationState {
  /** The CAs that clients must trust, the newest first. */
  readonly trusted: string;
  readonly presented: Certificate;
}

/**
 * Remembers presented and announced certificates, to decide at each reading which to present and which CAs to trust, so that no client
 * refuses the server.
 */
export class CertificateRotation {
  readonly #options: RotationOptions;
  #presented: Certificate | undefined;
  /** A new CA that clients trust before the server presents its certificate, and since when. */
  #announcedCa: { readonly ca: string; readonly since: number } | undefined;
  #formerCas: readonly { readonly ca: string; readonly until: number }[] = [];

  constructor(options: RotationOptions) {
    this.#options = options;
  }

  /**
   * Decides for the certificate that was read now. The server presents it at once if its CA has not changed, else once
   * clients trust the new CA. Clients trust the former CA for `keepMs` longer.
   */
  applyCertificate(found: Certificate): RotationState {
    const { clock, keepMs } = this.#options;
    const now = clock.monotonic();
    const before = this.#presented ?? found;
    if (before.ca === found.ca) this.#presented = found;
    else if (this.#mayPresent(found, before, now)) {
      this.#presented = found;
      this.#formerCas = [{ ca: before.ca, until: now + keepMs }, ...this.#formerCas];
    }
    const presented = this.#presented ?? found;
    this.#formerCas = this.#formerCas.filter(({ until }) => until > now);
    const trusted = new Set([found.ca, presented.ca, ...this.#formerCas.map(({ ca }) => ca)]);
    return { trusted: [...trusted].join("\n"), presented };
  }

  /** Whether a certificate with a new CA may be presented: clients trust the CA long enough, or the previous certificate has expired. */
  #mayPresent({ ca }: Certificate, before: Certificate, now: number): boolean {
    const { clock, delayMs } = this.#options;
    if (this.#announcedCa?.ca !== ca) this.#announcedCa = { ca, since: now };
    const end = Date.parse(new X509Certificate(before.cert).validTo);
    return now - this.#announcedCa.since >= delayMs || end <= clock.now();
  }
}
