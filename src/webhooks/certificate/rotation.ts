/** Decides when the server presents a new certificate and which CAs clients trust, so that no client refuses the server. */

import { X509Certificate } from "node:crypto";

import type { Clock } from "../../lib/index.ts";
import type { Certificate } from "./certificate.ts";

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

/** Remembers presented and announced certificates, to decide at each reading which to present and which CAs to trust. */
export class CertificateRotation {
  readonly #options: RotationOptions;
  #presented: Certificate | undefined;
  /** A new CA that clients trust before the server presents its certificate, and since when. */
  #announcedCa: { readonly ca: string; readonly since: number } | undefined;
  #formerCas: readonly { readonly ca: string; readonly until: number }[] = [];

  constructor(options: RotationOptions) {
    this.#options = options;
  }

  /** Decides for the certificate that was read now. Presents it at once if its CA has not changed. */
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
