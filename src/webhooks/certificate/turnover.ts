/** Replaces the certificate of the server in an order in which no client refuses it. */

import { X509Certificate } from "node:crypto";

import type { Clock } from "../../lib/index.ts";
import type { Certificate } from "./certificate.ts";

interface TurnoverOptions {
  readonly clock: Pick<Clock, "now" | "monotonic">;
  /** A new CA is trusted so long before a certificate of it is presented: other replicas read it later. */
  readonly delayMs: number;
  /** The CA before is trusted so long afterwards: other replicas still present a certificate of it. */
  readonly keepMs: number;
}

/** What a replica does with the certificates that it has found so far. */
interface Turn {
  /** The CAs that clients must trust, the newest first. */
  readonly trusted: string;
  readonly presented: Certificate;
}

/** Which certificate is presented and which CAs are trusted, while certificates and CAs change. */
export class Turnover {
  readonly #options: TurnoverOptions;
  #presented: Certificate | undefined;
  /** A CA that is trusted and has not been presented, since then. */
  #announced: { readonly ca: string; readonly since: number } | undefined;
  #former: readonly { readonly ca: string; readonly until: number }[] = [];

  constructor(options: TurnoverOptions) {
    this.#options = options;
  }

  /** What to do now that this certificate was found. */
  take(found: Certificate): Turn {
    const { clock, keepMs } = this.#options;
    const now = clock.monotonic();
    const before = this.#presented ?? found;
    if (before.ca === found.ca) this.#presented = found;
    else if (this.#mayPresent(found, before, now)) {
      this.#presented = found;
      this.#former = [{ ca: before.ca, until: now + keepMs }, ...this.#former];
    }
    const presented = this.#presented ?? found;
    this.#former = this.#former.filter(({ until }) => until > now);
    const trusted = new Set([found.ca, presented.ca, ...this.#former.map(({ ca }) => ca)]);
    return { trusted: [...trusted].join("\n"), presented };
  }

  /** Whether the new CA was announced long enough, or the previous certificate is not valid any more. */
  #mayPresent({ ca }: Certificate, before: Certificate, now: number): boolean {
    const { clock, delayMs } = this.#options;
    if (this.#announced?.ca !== ca) this.#announced = { ca, since: now };
    const end = Date.parse(new X509Certificate(before.cert).validTo);
    return now - this.#announced.since >= delayMs || end <= clock.now();
  }
}
