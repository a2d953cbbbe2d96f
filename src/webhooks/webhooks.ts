/** Webhooks of the operator: server, certificate, routes and registration in one object. */

import type { KubeAccess, WatchHub } from "../kube/index.ts";
import { Timers, oneLine } from "../lib/index.ts";
import type { Certificate, CertificateSource } from "./certificate/certificate.ts";
import { Turnover } from "./certificate/turnover.ts";
import { LeaderCalls, type LeaderAddress } from "./follower.ts";
import { Registrar } from "./registration/registrar.ts";
import type { WebhookTarget } from "./registration/wanted.ts";
import { ReviewError, admission, conversion } from "./review.ts";
import type { AdmissionHandler, ConversionHandler, ReviewHandler } from "./review.ts";
import type { WebhookLimits } from "./limits.ts";
import { WebhookServer, type WebhookReport } from "./server.ts";

export interface WebhooksOptions extends KubeAccess {
  readonly hub: WatchHub;
  readonly listen: { readonly address: string; readonly port: number };
  readonly clientCa?: string | undefined;
  readonly limits?: Partial<WebhookLimits>;
  readonly source: CertificateSource;
  /** Other replicas read the same certificate, and present it too. */
  readonly hasReplicas: boolean;
  /** Begin of the names of what is registered. */
  readonly name: string;
  readonly target: WebhookTarget;
  /** The leader, while this process is a follower. */
  readonly leader: () => Promise<LeaderAddress | undefined>;
  readonly onRequest: (report: WebhookReport) => void;
  readonly onIssues: (issues: readonly string[]) => void;
  readonly failed: (error: unknown) => void;
}

const RETRY_MS = 5000;
/** API servers learn of a new CA within this time, before a certificate of it is presented. */
const ANNOUNCE_MS = 10_000;

/**
 * Serves webhooks and registers them. A follower passes reviews on to the leader. The certificate is read again from time
 * to time; before a new one is presented, what is registered trusts its CA.
 */
export class Webhooks {
  readonly registrar: Registrar;
  readonly #options: WebhooksOptions;
  readonly #routes = new Map<string, ReviewHandler>();
  readonly #timers: Timers<"check">;
  readonly #leader: LeaderCalls;
  readonly #turnover: Turnover;
  #server: WebhookServer | undefined;
  /** The one that is presented, with all CAs that are trusted. */
  #certificate: Certificate | undefined;
  #checked: Promise<void> = Promise.resolve();
  #isLeader = false;
  #isClosed = false;
  #lastError: string | undefined;

  constructor(options: WebhooksOptions) {
    this.#options = options;
    this.#timers = new Timers(options.clock);
    this.registrar = new Registrar(options);
    const { clock, leader: find, source, target } = options;
    const [delayMs, keepMs] = options.hasReplicas
      ? [2 * source.checkMs, 5 * source.checkMs]
      : [ANNOUNCE_MS, source.checkMs];
    this.#turnover = new Turnover({ clock, delayMs, keepMs });
    this.#leader = new LeaderCalls({ clock, find, host: serverName(target) });
  }

  /** The port of the server; 0 before it listens. */
  get port(): number {
    return this.#server?.port ?? 0;
  }

  /** Starts to listen as soon as there is a certificate, and follows its changes. Throws if the port cannot be used. */
  async open(): Promise<void> {
    await this.#check();
  }

  /** This process leads now: it issues certificates if it has to, answers by itself, and registers. */
  async lead(): Promise<void> {
    this.#isLeader = true;
    await this.#check();
  }

  /** Answers admission reviews at a path. Returns the end of that. */
  route(path: string, handler: AdmissionHandler): () => void {
    return this.#route(path, admission(handler));
  }

  /** Answers conversion reviews at a path. Returns the end of that. */
  routeConversion(path: string, handler: ConversionHandler): () => void {
    return this.#route(path, conversion(handler));
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    this.#timers.close();
    this.registrar.close();
    this.#leader.close();
    await this.#server?.close();
  }

  #route(path: string, handler: ReviewHandler): () => void {
    this.#routes.set(path, handler);
    return () => {
      if (this.#routes.get(path) === handler) this.#routes.delete(path);
    };
  }

  #find(path: string, isForwarded: boolean): ReviewHandler | undefined {
    // A replica that takes this one for the leader must not get its own request back.
    if (this.#isLeader || isForwarded) return this.#routes.get(path);
    return (request, signal) => this.#forward(path, request, signal);
  }

  async #forward(path: string, ...[request, signal]: Parameters<ReviewHandler>): ReturnType<ReviewHandler> {
    const certificate = this.#certificate;
    try {
      if (certificate === undefined) throw new Error("there is no certificate yet");
      return await this.#leader.ask({ path, request, signal }, certificate);
    } catch (error) {
      throw new ReviewError(
        `this operator is a follower, and its leader does not answer: ${oneLine(error)}`,
        503,
      );
    }
  }

  /** Reads the certificate and applies a change of it, one reading after the other. Throws only if the port cannot be used. */
  #check(): Promise<void> {
    this.#checked = this.#checked.catch(() => {}).then(() => this.#checkOnce());
    return this.#checked;
  }

  /** Plans the next reading, too. */
  async #checkOnce(): Promise<void> {
    const { source, logger } = this.#options;
    let delay = source.checkMs;
    try {
      const found = await source.read();
      if (found === undefined) delay = RETRY_MS;
      else if (!(await this.#apply(found))) delay = Math.min(delay, ANNOUNCE_MS);
      this.#lastError = undefined;
    } catch (error) {
      if (isListenError(error)) throw error;
      delay = RETRY_MS;
      const text = oneLine(error);
      if (text !== this.#lastError)
        logger.warn("The certificate of the webhook server cannot be read or renewed", { error: text });
      this.#lastError = text;
    }
    if (!this.#isClosed)
      this.#timers.set("check", delay, () => void this.#check().catch(this.#options.failed));
  }

  /** False while a new certificate waits until its CA is known. */
  async #apply(found: Certificate): Promise<boolean> {
    const { listen, logger } = this.#options;
    const { trusted, presented } = this.#turnover.take(found);
    const isOther = this.#certificate !== undefined && this.#certificate.cert !== presented.cert;
    if (this.#isLeader) {
      this.registrar.start(trusted);
      if (isOther) await this.registrar.flush();
    }
    this.#certificate = { ...presented, ca: trusted };
    const isPresented = presented.cert === found.cert;
    if (this.#server !== undefined) {
      if (isOther) this.#server.use(presented);
      return isPresented;
    }
    this.#server = await WebhookServer.listen(
      { ...this.#options, ...listen, find: (path, isForwarded) => this.#find(path, isForwarded) },
      presented,
    );
    logger.info("Webhooks are served", { address: listen.address, port: this.#server.port });
    return isPresented;
  }
}

/** The name of the server in its certificate. */
export function serverName(target: WebhookTarget): string {
  if ("url" in target) return new URL(target.url).hostname.replace(/^\[|\]$/g, "");
  return `${target.service.name}.${target.service.namespace}.svc`;
}

function isListenError(error: unknown): boolean {
  return error instanceof Error && (error as NodeJS.ErrnoException).syscall === "listen";
}
