/** The webhooks of the operator: combines server, certificate, routes and registration. */

import type { Address } from "../kube/index.ts";
import { oneLine } from "../base/index.ts";
import { Loop } from "../runtime/index.ts";
import { CertificateRotation, type Certificate, type CertificateSource } from "./certificate/certificate.ts";
import { LeaderClient } from "./follower.ts";
import { Registrar, type RegistrarOptions } from "./registration/registrar.ts";
import type { WebhookTarget } from "./registration/admission-objects.ts";
import { wrapAdmissionHandler, wrapConversionHandler } from "./review.ts";
import type { AdmissionHandler, ConversionHandler, ReviewHandler } from "./review.ts";
import { WebhookServer, type ServerOptions, type WebhookReport } from "./server.ts";

export interface WebhooksOptions
  extends RegistrarOptions, Pick<ServerOptions, "clientCa" | "limits" | "onError"> {
  readonly report: WebhookReport;
  readonly listen: { readonly address: string; readonly port: number };
  readonly source: CertificateSource;
  /** Whether other replicas read and present the same certificate. */
  readonly hasReplicas: boolean;
  /** Reads the leader's address while this process is a standby. */
  readonly findLeader: () => Promise<Address | undefined>;
}

const RETRY_MS = 5000;
/** How long a new CA is registered before the server presents a certificate that it signed: API servers cache webhooks. */
const CA_ANNOUNCEMENT_MS = 10_000;

/**
 * Serves webhooks and registers them at the API server. A standby forwards reviews to the leader. The certificate is read
 * again from time to time; before the server presents a new one, the registered webhooks trust its CA.
 */
export class Webhooks {
  readonly registrar: Registrar;
  readonly #options: WebhooksOptions;
  readonly #routes = new Map<string, ReviewHandler>();
  /** Reads the certificate. */
  readonly #loop: Loop;
  readonly #leaderClient: LeaderClient;
  readonly #rotation: CertificateRotation;
  #server: WebhookServer | undefined;
  /** The presented certificate; its `ca` contains all trusted CAs. */
  #certificate: Certificate | undefined;
  #isLeader = false;
  #isOpen = false;
  #lastError: string | undefined;

  constructor(options: WebhooksOptions) {
    this.#options = options;
    this.registrar = new Registrar(options);
    const { clock, findLeader, onError, source, target } = options;
    this.#loop = new Loop({
      clock,
      run: () => this.#readCertificate(),
      retry: RETRY_MS,
      onError: (error) => {
        if (this.#isOpen) onError(error);
      },
    });
    const { checkMs } = source;
    // Clients trust a new CA for `delayMs` before the server presents a certificate of it, and the former CA for `keepMs` after
    // that. Other replicas read the certificate up to `checkMs` later, each with a delay of its own.
    this.#rotation = options.hasReplicas
      ? new CertificateRotation({ clock, delayMs: 2 * checkMs, keepMs: 5 * checkMs })
      : new CertificateRotation({ clock, delayMs: CA_ANNOUNCEMENT_MS, keepMs: checkMs });
    this.#leaderClient = new LeaderClient({ clock, findLeader, host: serverName(target) });
  }

  /** The port of the server; 0 before it listens. */
  get port(): number {
    return this.#server?.port ?? 0;
  }

  /** Starts to listen as soon as there is a certificate, and watches for its changes. Throws if the port cannot be used. */
  async open(): Promise<void> {
    await this.#loop.flush();
    this.#isOpen = true;
  }

  /** Call it when this process becomes the leader: from then on it issues due certificates, answers reviews itself, and registers webhooks. */
  async becomeLeader(): Promise<void> {
    this.#isLeader = true;
    await this.#loop.flush();
  }

  /** Answers admission reviews at a path with this handler. Returns a function that removes the route. */
  addAdmissionRoute(path: string, handler: AdmissionHandler): () => void {
    return this.#addRoute(path, wrapAdmissionHandler(handler));
  }

  /** Answers conversion reviews at a path with this handler. Returns a function that removes the route. */
  addConversionRoute(path: string, handler: ConversionHandler): () => void {
    return this.#addRoute(path, wrapConversionHandler(handler));
  }

  async close(): Promise<void> {
    this.#loop.close();
    this.registrar.close();
    this.#leaderClient.close();
    await this.#server?.close();
  }

  /** Serves reviews at a path. The result ends that, unless another handler has replaced this one. */
  #addRoute(path: string, handler: ReviewHandler): () => void {
    this.#routes.set(path, handler);
    return () => {
      if (this.#routes.get(path) === handler) this.#routes.delete(path);
    };
  }

  /** Finds the handler for a path: the leader's own, or one that forwards to the leader. */
  #findHandler(path: string, isForwarded: boolean): ReviewHandler | undefined {
    // A replica that believes this one to be the leader must not get its own request back.
    if (this.#isLeader || isForwarded) return this.#routes.get(path);
    return (request, signal) =>
      this.#leaderClient.forwardReview({ path, request, signal }, this.#certificate);
  }

  /**
   * Reads and applies a changed certificate, and logs a new error. Returns the time until the next read: soon after an error, or while a
   * certificate of a new CA waits until API servers know this CA. Throws only if the port cannot be used, which ends the start.
   */
  async #readCertificate(): Promise<number> {
    const { source, logger } = this.#options;
    try {
      const found = await source.read();
      const isPresented = found !== undefined && (await this.#applyCertificate(found));
      this.#lastError = undefined;
      // A standby finds none until the leader has issued one.
      if (found === undefined) return RETRY_MS;
      return isPresented ? source.checkMs : Math.min(source.checkMs, CA_ANNOUNCEMENT_MS);
    } catch (error) {
      if (isListenError(error)) throw error;
      const text = oneLine(error);
      if (text !== this.#lastError)
        logger.warn("The certificate of the webhook server cannot be read or renewed", { error: text });
      this.#lastError = text;
      return RETRY_MS;
    }
  }

  /** Registers, presents and trusts the CAs of `found`. Returns false while the server must not present `found` yet. */
  async #applyCertificate(found: Certificate): Promise<boolean> {
    const { listen, logger } = this.#options;
    const { trusted, presented } = this.#rotation.applyCertificate(found);
    const isReplaced = this.#certificate !== undefined && this.#certificate.cert !== presented.cert;
    if (this.#isLeader) {
      this.registrar.registerWithCa(trusted);
      // The registered webhooks must trust the CA before the server presents its certificate.
      if (isReplaced) await this.registrar.flush();
    }
    this.#certificate = { ...presented, ca: trusted };
    const isPresented = presented.cert === found.cert;
    if (this.#server !== undefined) {
      if (isReplaced) this.#server.useCertificate(presented);
      return isPresented;
    }
    const findHandler = this.#findHandler.bind(this);
    this.#server = await WebhookServer.listen({ ...this.#options, ...listen, findHandler }, presented);
    logger.info("Webhooks are served", { address: listen.address, port: this.#server.port });
    return isPresented;
  }
}

/** The host name of the server as it must be in the certificate: of the URL, or of the Service. */
export function serverName(target: WebhookTarget): string {
  if ("url" in target) return new URL(target.url).hostname.replace(/^\[|\]$/g, "");
  return `${target.service.name}.${target.service.namespace}.svc`;
}

/** Whether the error means that the port cannot be used. */
function isListenError(error: unknown): boolean {
  return error instanceof Error && (error as NodeJS.ErrnoException).syscall === "listen";
}
