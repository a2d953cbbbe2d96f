/**
 * Leader election by a Lease: one operator at a time works on a ConfigMap. With `--ha`, the other replicas are followers: they wait for the Lease,
 * and report the readiness of the leader, which publishes its HTTP address in an annotation of the Lease.
 */

import { lookup } from "node:dns/promises";

import {
  createLogger,
  oneLine,
  shareCalls,
  countSleepTime,
  type Clock,
  type LogSink,
} from "../../base/index.ts";
import { startWatchdog, type Children } from "../../base/process/index.ts";
import type { KubeAccess, KubeClient } from "../client/client.ts";
import { get } from "../client/verbs.ts";
import { LEASES, type LeaseObject } from "../resources.ts";
import { readOwnIdentity } from "./identity.ts";
import { formatAddress, parseAddress, findReachableIp, queryLeader } from "./leader-port.ts";
import type { Address, LeaderAnswer } from "./leader-port.ts";
import { Lease } from "./lease.ts";

interface LeadershipOptions extends KubeAccess {
  readonly sink: LogSink;
  readonly children: Pick<Children, "startOnlyWhile">;
  readonly settings: LeaseSettings;
  /** The watchdog kills the process this long after the lease is lost. */
  readonly expireMs: number;
  /** The Lease cannot be read or written, with reason and remedy; undefined = it can again. */
  readonly report: { leaseIssueChanged(issue: string | undefined): void };
  /** Called when the lease is lost: end everything that must not run beside the next leader. */
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
 * monotonic clock; a follower starts hooks only to read their configuration. After the Lease is lost, no process is started,
 * `onLost` ends the running ones, and `expireMs` later a watchdog process, which needs no event loop, kills the operator.
 */
export class Leadership {
  readonly #options: LeadershipOptions;
  readonly #lease: Lease;
  readonly #location: LeaseLocation;
  readonly #readLeaderReadiness: () => Promise<Readiness>;
  readonly #watchdog = startWatchdog();
  /** This process leads or has led: it is no follower any more. */
  #wasElected = false;
  /** Identity of the leader that this process waits for. */
  #holder: string | undefined;
  /** The modules are read: this process can lead at once. */
  #isPrepared = false;

  /** Sets up the Lease, and lets the client write only while this process holds it. Sends nothing yet. */
  constructor(options: LeadershipOptions) {
    const { settings, client, clock, logger, namespace, expireMs } = options;
    this.#options = options;
    const name = leaseNameOf(settings.configMap);
    const ownIp = async (): Promise<string> =>
      findReachableIp((await lookup(settings.listenAddress)).address);
    this.#location = { client, namespace, name, ownIp };
    this.#readLeaderReadiness = createReadinessReader({ ...this.#location, clock, pod: settings.pod });
    this.#lease = new Lease({
      client: client.forLease(),
      // The Lease expires also while this machine is suspended.
      clock: countSleepTime(clock),
      logger,
      namespace,
      name,
      identity: readOwnIdentity(settings.pod),
      times: {
        durationMs: settings.leaseDurationMs,
        renewDeadlineMs: settings.leaseRenewMs,
        retryMs: settings.leaseRetryMs,
      },
      events: {
        onHeld: (ms) => this.#armWatchdog(ms + expireMs),
        onLost: (reason) => {
          this.#armWatchdog(expireMs);
          options.onLost(reason);
        },
        onFailing: (issue) => options.report.leaseIssueChanged(issue),
        onWaiting: (holder) => {
          this.#holder = holder;
          logger.warn("Another operator works on this ConfigMap; waiting for its lease", { holder });
        },
      },
    });
    client.writeOnlyWhile(() => this.#lease.isHeld);
  }

  /**
   * Call it when the modules are read. Waits for the Lease; resolves when this process leads. From then on, child processes start only while
   * it leads. With `--ha`, publishes the address of the HTTP `port`.
   */
  async acquire(port: number, signal: AbortSignal): Promise<void> {
    this.#isPrepared = true;
    if (this.#watchdog === undefined)
      this.#options.logger.warn(
        "This machine has no watchdog for the operator: a busy operator may outlive its lease",
      );
    const { settings, children } = this.#options;
    const address = async (): Promise<string> => formatAddress({ ip: await this.#location.ownIp(), port });
    await this.#lease.acquire(signal, settings.ha ? { [ADDRESS_ANNOTATION]: await address() } : {});
    this.#wasElected = true;
    children.startOnlyWhile(() => this.#lease.isHeld);
  }

  /** Whether this process leads. False from the renew deadline on, even before `onLost` is called. */
  get isLeader(): boolean {
    return this.#lease.isHeld;
  }

  /** Identity of the leader, while this process is a follower. */
  get leaderIdentity(): string | undefined {
    return this.#wasElected ? undefined : this.#holder;
  }

  /** Releases the Lease, so that the next leader need not wait, and disarms the watchdog. */
  async release(): Promise<void> {
    if (!this.#lease.isHeld) return;
    await this.#lease.release();
    this.#watchdog?.disarm();
  }

  /**
   * Sets the watchdog process to kill the operator after `ms`, unless this method is called again before. The watchdog works also while the
   * event loop is blocked. It only copies the final log line, so the line is formatted here.
   */
  #armWatchdog(ms: number): void {
    const { sink, clock } = this.#options;
    // The line carries the time at which the watchdog writes it.
    const expiryClock = { ...clock, now: () => clock.now() + ms };
    const write = (line: string): void => this.#watchdog?.expireAfter(ms, line.trimEnd());
    const expiryLogger = createLogger({ ...sink, clock: expiryClock, write });
    expiryLogger.error(
      "The lease is lost and not all processes have ended in time; killing the operator and its children",
    );
  }

  /**
   * The response of a follower to `/readyz`; undefined if this process answers for itself, as the leader or without `--ha`. A follower that
   * does not know the leader is not ready.
   */
  async getFollowerReadiness(): Promise<Readiness | undefined> {
    if (this.#wasElected || !this.#options.settings.ha) return undefined;
    if (!this.#isPrepared) return { status: 500, text: "Modules are being read\n" };
    if (this.#holder === undefined) return { status: 500, text: "Waiting for the lease\n" };
    return this.#readLeaderReadiness();
  }

  /**
   * Requests a path from the HTTP port of the leader, or from another `port`. Rejects if the leader cannot be reached;
   * without `--ha` the leader does not publish its address.
   */
  async requestFromLeader(path: string, port?: number): Promise<LeaderAnswer> {
    const address = await this.address();
    if (address === undefined)
      throw new Error(`Lease ${this.#location.name} has no address that a follower accepts`);
    return queryLeader({ ...address, port: port ?? address.port }, path, this.#options.clock);
  }

  /** Reads the address that the leader publishes; undefined if there is none that a follower accepts. */
  async address(): Promise<Address | undefined> {
    return (await readLeader(this.#location)).address;
  }
}

/** Annotation of the Lease: the HTTP address of its holder. */
const ADDRESS_ANNOTATION = "addon-operator.io/address";

const LEASE_READ_TIMEOUT_MS = 3000;
/** A follower queries the API server and the leader at most this often. */
const CACHE_MS = 1000;

/** A response to `/readyz`. */
interface Readiness {
  readonly status: number;
  readonly text: string;
}

/** How to read a Lease, and the own address. */
interface LeaseLocation {
  readonly client: KubeClient;
  readonly namespace: string;
  readonly name: string;
  /** The address at which other Pods reach this process. */
  readonly ownIp: () => Promise<string>;
}

interface ReadinessOptions extends LeaseLocation {
  readonly clock: Clock;
  readonly pod?: string | undefined;
}

/**
 * Creates a function that returns the readiness of a follower: that of the leader, so that a Deployment counts as ready only if the leader
 * works. A follower of another revision is ready at once: otherwise a rolling update could never replace a leader that is not ready.
 * Callers within CACHE_MS share an answer.
 */
export function createReadinessReader(options: ReadinessOptions): () => Promise<Readiness> {
  return shareCalls(options.clock, CACHE_MS, async () => {
    try {
      return await readReadiness(options);
    } catch (error) {
      return { status: 500, text: `The leader cannot be reached: ${oneLine(error)}\n` };
    }
  });
}

/**
 * Reads the Lease and requests `/readyz` from its holder. Rejects if the API server or the holder cannot be reached. The holder is not
 * asked if it belongs to another revision of the Deployment: a rolling update replaces it only after this Pod is ready.
 */
async function readReadiness(options: ReadinessOptions): Promise<Readiness> {
  const { holder, address } = await readLeader(options);
  if (isOtherRevision(options.pod ?? "", holder))
    return { status: 200, text: "Waiting for the lease; the leader is of another revision\n" };
  if (address === undefined || holder === "") return { status: 500, text: "No leader is elected\n" };
  const { status, body } = await queryLeader(address, "/readyz", options.clock);
  body.destroy();
  return status === 200
    ? { status: 200, text: "Waiting for the lease; the leader is ready\n" }
    : { status: 500, text: "The leader is not ready\n" };
}

/** Name of the Lease that guards a ConfigMap. */
export function leaseNameOf(configMap: string): string {
  return `addon-operator-${configMap}`;
}

/** Reads the Pod or host name of the leader (empty = none) and its address (undefined = none that a follower accepts) from the Lease. */
async function readLeader({ client, namespace, name, ownIp }: LeaseLocation) {
  const target = { resource: LEASES, namespace, name };
  const { metadata, spec } = await get<LeaseObject>(client, target, { timeoutMs: LEASE_READ_TIMEOUT_MS });
  return {
    holder: spec?.holderIdentity?.split("/")[0] ?? "",
    address: parseAddress(metadata.annotations?.[ADDRESS_ANNOTATION] ?? "", await ownIp()),
  };
}

const POD_NAME = /^(.+)-([a-z0-9]{6,10})-[a-z0-9]{5}$/;

/** Whether two Pods belong to different revisions of one Deployment, by their names: `<deployment>-<hash of the revision>-<random>`. */
export function isOtherRevision(own: string, other: string): boolean {
  const [, ownDeployment, ownHash] = POD_NAME.exec(own) ?? [];
  const [, otherDeployment, otherHash] = POD_NAME.exec(other) ?? [];
  return ownHash !== undefined && ownDeployment === otherDeployment && ownHash !== otherHash;
}
