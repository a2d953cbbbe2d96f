import { lookup } from "node:dns/promises";

import { LEASES, Lease, mergePatch, ownIdentity } from "../kube/index.ts";
import type { KubeClient } from "../kube/index.ts";
import { oneLine } from "../lib/index.ts";
import { startOnlyWhile } from "../process/index.ts";
import type { Base } from "./base.ts";
import { formatAddress, reachableIp } from "./leader-address.ts";
import { ADDRESS_ANNOTATION, leaderMirror } from "./leader-mirror.ts";
import type { Readiness } from "./leader-mirror.ts";

export interface LeadershipEvents {
  readonly onLost: (reason: string) => void;
}

/** The Lease that guards against a second operator on the same ConfigMap (README "Operation"). */
export class Leadership {
  readonly #base: Base;
  readonly #lease: Lease;
  readonly #name: string;
  readonly #client: KubeClient;
  readonly #leader: () => Promise<Readiness>;
  #leads = false;
  /** Everything is read that can be read before it leads. */
  #waits = false;

  constructor(base: Base, events: LeadershipEvents) {
    const { settings, client, clock, logger, namespace } = base;
    this.#base = base;
    this.#name = `addon-operator-${settings.configMap}`;
    this.#client = client.forLease();
    this.#leader = leaderMirror(base, this.#name);
    this.#lease = new Lease({
      client: this.#client,
      clock,
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
        onLost: events.onLost,
        onWaiting: (holder) =>
          logger.warn("Another operator works on this ConfigMap; waiting for its lease", { holder }),
      },
    });
    client.writeOnlyWhile(() => this.#lease.held);
  }

  /** Resolves when we may work. `port` is where we listen. */
  async acquire(port: number, signal: AbortSignal): Promise<void> {
    this.#waits = true;
    await this.#lease.acquire(signal);
    this.#leads = true;
    startOnlyWhile(() => this.#lease.held);
    if (this.#base.settings.ha) await this.#tellAddress(port);
  }

  /** False from the moment on from which another may work, even before `onLost` could be called. */
  get leads(): boolean {
    return this.#lease.held;
  }

  /** Gives the lease back; see {@link Lease.release}. */
  release(): Promise<void> {
    return this.#lease.release();
  }

  /** What a follower says to `/readyz`; undefined for the leader. */
  async mirrored(): Promise<Readiness | undefined> {
    if (this.#leads || !this.#base.settings.ha) return undefined;
    return this.#waits ? this.#leader() : { status: 500, text: "Modules are being read\n" };
  }

  async #tellAddress(port: number): Promise<void> {
    const { namespace, settings, logger } = this.#base;
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
