/** Leadership: one operator at a time works on a ConfigMap. */

import { lookup } from "node:dns/promises";

import { LEASES } from "../discovery/resources.ts";
import { Lease } from "./lease.ts";
import { mergePatch } from "../client/verbs.ts";
import { ownIdentity } from "./identity.ts";
import type { KubeAccess, KubeClient } from "../client/client.ts";
import { createLogger, oneLine, wakeful } from "../../lib/index.ts";
import type { LogSink } from "../../lib/index.ts";
import { startOnlyWhile, watchdog } from "../../process/index.ts";
import { ADDRESS_ANNOTATION, formatAddress, leaderMirror, reachableIp } from "./leader-mirror.ts";
import type { Readiness } from "./leader-mirror.ts";

interface LeadershipOptions extends KubeAccess {
  readonly sink: LogSink;
  readonly settings: LeaseSettings;
  /** This long after the lease is lost the process is killed, whatever still runs in it. */
  readonly biteMs: number;
  readonly onLost: (reason: string) => void;
}

interface LeaseSettings {
  readonly configMap: string;
  readonly pod?: string | undefined;
  readonly ha: boolean;
  readonly listenAddress: string;
  readonly leaseDurationMs: number;
  readonly leaseRenewMs: number;
  readonly leaseRetryMs: number;
}

/**
 * The Lease that guards against a second operator on the same ConfigMap, and what it means to hold it. Only while it is
 * held, by this process's own clock, does the client write; before, hooks are started for their `--config` alone. Once it
 * is lost, nothing is started any more, what runs is ended (`onLost`), and `biteMs` later the watchdog, which needs no
 * event loop, kills what is left, this process too.
 */
export class Leadership {
  readonly #options: LeadershipOptions;
  readonly #lease: Lease;
  readonly #name: string;
  readonly #client: KubeClient;
  readonly #leader: () => Promise<Readiness>;
  readonly #watchdog = watchdog();
  #hasLed = false;
  #holder: string | undefined;
  /** Reads everything that can be read before this process leads. */
  #waits = false;

  constructor(options: LeadershipOptions) {
    const { settings, client, clock, logger, namespace, biteMs } = options;
    this.#options = options;
    this.#name = `addon-operator-${settings.configMap}`;
    this.#client = client.forLease();
    this.#leader = leaderMirror({ client, clock, namespace, pod: settings.pod }, this.#name);
    this.#lease = new Lease({
      client: this.#client,
      clock: wakeful(clock),
      logger,
      namespace,
      name: this.#name,
      identity: ownIdentity(settings.pod),
      times: {
        durationMs: settings.leaseDurationMs,
        renewDeadlineMs: settings.leaseRenewMs,
        retryMs: settings.leaseRetryMs,
      },
      events: {
        onHeld: (ms) => this.#biteAfter(ms + biteMs),
        onLost: (reason) => {
          this.#biteAfter(biteMs);
          options.onLost(reason);
        },
        onWaiting: (holder) => {
          this.#holder = holder;
          logger.warn("Another operator works on this ConfigMap; waiting for its lease", { holder });
        },
      },
    });
    client.writeOnlyWhile(() => this.#lease.held);
  }

  /** Resolves when this process may work. `port` is the HTTP port. */
  async acquire(port: number, signal: AbortSignal): Promise<void> {
    this.#waits = true;
    if (this.#watchdog === undefined)
      this.#options.logger.warn("There is no watchdog here: a busy operator may outlive its lease");
    await this.#lease.acquire(signal);
    this.#hasLed = true;
    startOnlyWhile(() => this.#lease.held);
    if (this.#options.settings.ha) await this.#tellAddress(port);
  }

  /** False from the moment when another process may work, even before `onLost` could be called. */
  get leads(): boolean {
    return this.#lease.held;
  }

  /** Who leads while this process waits for the lease. */
  get leader(): string | undefined {
    return this.#hasLed ? undefined : this.#holder;
  }

  /** Gives the lease back; see {@link Lease.release}. */
  async release(): Promise<void> {
    if (!this.#lease.held) return;
    await this.#lease.release();
    this.#watchdog?.calm();
  }

  /** Works whatever the event loop is doing. */
  #biteAfter(ms: number): void {
    const { sink, clock } = this.#options;
    const at = { ...clock, now: () => clock.now() + ms };
    const write = (line: string): void => this.#watchdog?.biteAfter(ms, line.trimEnd());
    const lastWords = createLogger({ ...sink, clock: at, write });
    lastWords.error("The lease is lost and not all has ended in time; killing what is left, and myself");
  }

  /** The answer of a follower to `/readyz`; undefined for the leader. */
  async mirrored(): Promise<Readiness | undefined> {
    if (this.#hasLed || !this.#options.settings.ha) return undefined;
    return this.#waits ? this.#leader() : { status: 500, text: "Modules are being read\n" };
  }

  async #tellAddress(port: number): Promise<void> {
    const { namespace, settings, logger } = this.#options;
    try {
      const ip = reachableIp((await lookup(settings.listenAddress)).address);
      const body = { metadata: { annotations: { [ADDRESS_ANNOTATION]: formatAddress({ ip, port }) } } };
      await mergePatch(this.#client, { resource: LEASES, namespace, name: this.#name }, { body });
    } catch (error) {
      logger.warn("The lease could not be annotated; followers will not become ready", {
        error: oneLine(error),
      });
    }
  }
}
