import { lookup } from "node:dns/promises";

import { LEASES, Lease, mergePatch, ownIdentity } from "../kube/index.ts";
import type { KubeClient } from "../kube/index.ts";
import { createLogger, oneLine, wakeful } from "../lib/index.ts";
import { startOnlyWhile, watchdog } from "../process/index.ts";
import { LEASE_GRACE_MS } from "../config.ts";
import type { Base } from "./base.ts";
import { formatAddress, reachableIp } from "./leader-address.ts";
import { ADDRESS_ANNOTATION, leaderMirror } from "./leader-mirror.ts";
import type { Readiness } from "./leader-mirror.ts";

/** Who has lost the lease ends in order, its children first; what is left then ends without being asked. */
export const CHILDREN_GRACE_MS = LEASE_GRACE_MS - 1000;
const BITE_MS = LEASE_GRACE_MS - 500;

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
  readonly #watchdog = watchdog();
  #leads = false;
  /** Everything is read that can be read before it leads. */
  #waits = false;

  constructor(base: Base, events: LeadershipEvents) {
    const { settings, client, logger, namespace } = base;
    this.#base = base;
    this.#name = `addon-operator-${settings.configMap}`;
    this.#client = client.forLease();
    this.#leader = leaderMirror(base, this.#name);
    this.#lease = new Lease({
      client: this.#client,
      clock: wakeful(base.clock),
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
        onHeld: (ms) => this.#biteAfter(ms + BITE_MS),
        onLost: (reason) => {
          this.#biteAfter(BITE_MS);
          events.onLost(reason);
        },
        onWaiting: (holder) =>
          logger.warn("Another operator works on this ConfigMap; waiting for its lease", { holder }),
      },
    });
    client.writeOnlyWhile(() => this.#lease.held);
  }

  /** Resolves when we may work. `port` is where we listen. */
  async acquire(port: number, signal: AbortSignal): Promise<void> {
    this.#waits = true;
    if (this.#watchdog === undefined)
      this.#base.logger.warn("There is no watchdog here: a busy operator may outlive its lease");
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
  async release(): Promise<void> {
    if (!this.#lease.held) return;
    await this.#lease.release();
    this.#watchdog?.calm();
  }

  /** Whatever the event loop is doing. */
  #biteAfter(ms: number): void {
    const { sink, clock } = this.#base;
    const at = { ...clock, now: () => clock.now() + ms };
    const write = (line: string): void => this.#watchdog?.biteAfter(ms, line.trimEnd());
    const lastWords = createLogger({ ...sink, clock: at, write });
    lastWords.error("The lease is lost and not all has ended in time; killing what is left, and myself");
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
