/** Leader election: one operator at a time works on a ConfigMap; followers wait, and report the readiness of the leader. */

import { lookup } from "node:dns/promises";

import {
  createLogger,
  oneLine,
  shareCalls,
  countSleepTime,
  type Clock,
  type LogSink,
} from "../../lib/index.ts";
import { startWatchdog, type Children } from "../../process/index.ts";
import type { KubeAccess, KubeClient } from "../client/client.ts";
import { get, mergePatch } from "../client/verbs.ts";
import { LEASES, type LeaseObject } from "../resources.ts";
import { formatAddress, parseAddress, reachableIp, type Address } from "./address.ts";
import { queryLeader, type LeaderAnswer } from "./query-leader.ts";
import { ownIdentity } from "./lease-lock.ts";
import { Lease } from "./lease.ts";

interface LeadershipOptions extends KubeAccess {
  readonly sink: LogSink;
  readonly children: Pick<Children, "startOnlyWhile">;
  readonly settings: LeaseSettings;
  /** The startWatchdog kills the process this long after the lease is lost. */
  readonly expireMs: number;
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
 * Elects one leader for each ConfigMap by a Lease. The client writes only while this process holds the Lease by its own
 * monotonic clock; a follower starts hooks only for their `--config`. After the Lease is lost, no process is started,
 * `onLost` ends the running ones, and `expireMs` later the startWatchdog, which needs no event loop, kills the operator.
 */
export class Leadership {
  readonly #options: LeadershipOptions;
  readonly #lease: Lease;
  readonly #name: string;
  readonly #client: KubeClient;
  readonly #leader: () => Promise<Readiness>;
  readonly #watchdog = startWatchdog();
  #hasLed = false;
  #holder: string | undefined;
  /** A follower that has read everything in advance. */
  #isWarm = false;

  constructor(options: LeadershipOptions) {
    const { settings, client, clock, logger, namespace, expireMs } = options;
    this.#options = options;
    this.#name = leaseNameOf(settings.configMap);
    this.#client = client.forLease();
    this.#leader = leaderMirror({ ...this.#location, clock, pod: settings.pod }, this.#name);
    this.#lease = new Lease({
      client: this.#client,
      clock: countSleepTime(clock),
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
        onHeld: (ms) => this.#expireAfter(ms + expireMs),
        onLost: (reason) => {
          this.#expireAfter(expireMs);
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

  /** Resolves when this process leads. `port` is the HTTP port. */
  async acquire(port: number, signal: AbortSignal): Promise<void> {
    this.#isWarm = true;
    if (this.#watchdog === undefined)
      this.#options.logger.warn("There is no startWatchdog here: a busy operator may outlive its lease");
    await this.#lease.acquire(signal);
    this.#hasLed = true;
    this.#options.children.startOnlyWhile(() => this.#lease.held);
    if (this.#options.settings.ha) await this.#publishAddress(port);
  }

  /** False from the renew deadline on, even before `onLost` is called. */
  get leads(): boolean {
    return this.#lease.held;
  }

  /** The leader, while this process is a follower. */
  get leader(): string | undefined {
    return this.#hasLed ? undefined : this.#holder;
  }

  /** See {@link Lease.release}. */
  async release(): Promise<void> {
    if (!this.#lease.held) return;
    await this.#lease.release();
    this.#watchdog?.disarm();
  }

  /** Works also while the event loop is blocked. */
  #expireAfter(ms: number): void {
    const { sink, clock } = this.#options;
    const at = { ...clock, now: () => clock.now() + ms };
    const write = (line: string): void => this.#watchdog?.expireAfter(ms, line.trimEnd());
    const finalStatus = createLogger({ ...sink, clock: at, write });
    finalStatus.error(
      "The lease is lost and not all processes have ended in time; killing the operator and its children",
    );
  }

  /** The response of a follower to `/readyz`; undefined for the leader. Before it knows the leader, it is not ready. */
  async mirrored(): Promise<Readiness | undefined> {
    if (this.#hasLed || !this.#options.settings.ha) return undefined;
    if (!this.#isWarm) return { status: 500, text: "Modules are being read\n" };
    return this.#holder === undefined ? { status: 500, text: "Waiting for the lease\n" } : this.#leader();
  }

  /**
   * The response of the leader at a path of its HTTP port, or of another `port`. Rejects if the leader cannot be reached;
   * without `--ha` it does not publish its address.
   */
  async query(path: string, port?: number): Promise<LeaderAnswer> {
    const { address } = await leaderOf(this.#location, this.#name);
    if (address === undefined) throw new Error(`Lease ${this.#name} has no address that a follower accepts`);
    return queryLeader({ ...address, port: port ?? address.port }, path, this.#options.clock);
  }

  /** The address that the leader publishes; undefined if there is none that a follower accepts. */
  async address(): Promise<Address | undefined> {
    return (await leaderOf(this.#location, this.#name)).address;
  }

  get #location(): LeaseLocation {
    const { client, namespace, settings } = this.#options;
    const ownIp = async (): Promise<string> => reachableIp((await lookup(settings.listenAddress)).address);
    return { client, namespace, ownIp };
  }

  async #publishAddress(port: number): Promise<void> {
    const { namespace, logger } = this.#options;
    try {
      const ip = await this.#location.ownIp();
      const body = { metadata: { annotations: { [ADDRESS_ANNOTATION]: formatAddress({ ip, port }) } } };
      await mergePatch(this.#client, { resource: LEASES, namespace, name: this.#name }, { body });
    } catch (error) {
      logger.warn(
        "The Lease cannot be annotated with the address of the leader; followers do not become ready",
        {
          error: oneLine(error),
        },
      );
    }
  }
}

/** Annotation of the Lease: the HTTP address of its holder. */
const ADDRESS_ANNOTATION = "addon-operator.io/address";

const TIMEOUT_MS = 3000;
/** A follower queries the API server and the leader at most this often. */
const CACHE_MS = 1000;

/** A response to `/readyz`. */
interface Readiness {
  readonly status: number;
  readonly text: string;
}

/** Where a Lease is, and who reads it. */
interface LeaseLocation {
  readonly client: KubeClient;
  readonly namespace: string;
  /** The address at which other Pods reach this process. */
  readonly ownIp: () => Promise<string>;
}

interface MirrorOptions extends LeaseLocation {
  readonly clock: Clock;
  /** Name of this Pod. */
  readonly pod?: string | undefined;
}

/**
 * Readiness of a follower: that of the leader, unless the leader is of another revision. Otherwise a rolling update
 * could never replace a leader that is not ready.
 */
export function leaderMirror(options: MirrorOptions, lease: string): () => Promise<Readiness> {
  return shareCalls(options.clock, CACHE_MS, async () => {
    try {
      return await readinessOf(options, lease);
    } catch (error) {
      return { status: 500, text: `The leader cannot be reached: ${oneLine(error)}\n` };
    }
  });
}

async function readinessOf(options: MirrorOptions, lease: string): Promise<Readiness> {
  const { holder, address } = await leaderOf(options, lease);
  if (isOtherRevision(options.pod ?? "", holder))
    return { status: 200, text: "Waiting for the lease; the leader is of another revision\n" };
  if (address === undefined || holder === "") return { status: 500, text: "No leader is elected\n" };
  return (await statusOf(address, options.clock)) === 200
    ? { status: 200, text: "Waiting for the lease; the leader is ready\n" }
    : { status: 500, text: "The leader is not ready\n" };
}

/** Name of the Lease that guards a ConfigMap. */
export function leaseNameOf(configMap: string): string {
  return `addon-operator-${configMap}`;
}

async function leaderOf({ client, namespace, ownIp }: LeaseLocation, name: string) {
  const target = { resource: LEASES, namespace, name };
  const { metadata, spec } = await get<LeaseObject>(client, target, { timeoutMs: TIMEOUT_MS });
  return {
    holder: spec?.holderIdentity?.split("/")[0] ?? "",
    address: parseAddress(metadata.annotations?.[ADDRESS_ANNOTATION] ?? "", await ownIp()),
  };
}

/** Whether two Pods belong to different revisions of one Deployment; their names are `<deployment>-<hash>-<random>`. */
export function isOtherRevision(own: string, other: string): boolean {
  const [mine, theirs] = [own, other].map((name) => /^(.+)-([a-z0-9]{6,10})-[a-z0-9]{5}$/.exec(name));
  return mine != null && theirs != null && mine[1] === theirs[1] && mine[2] !== theirs[2];
}

/** The HTTP status; the body is not read. */
async function statusOf(address: Address, clock: Clock): Promise<number> {
  const { status, body } = await queryLeader(address, "/readyz", clock);
  body.destroy();
  return status;
}
