/** Leadership: one operator at a time works on a ConfigMap; the others wait, and answer as it does. */

import { lookup } from "node:dns/promises";
import { isIPv4, isIPv6 } from "node:net";
import { networkInterfaces } from "node:os";

import { createLogger, oneLine, shareAnswer, wakeful, type Clock, type LogSink } from "../../lib/index.ts";
import { startOnlyWhile, watchdog } from "../../process/index.ts";
import type { KubeAccess, KubeClient } from "../client/client.ts";
import { get, mergePatch } from "../client/request.ts";
import { LEASES, type LeaseObject } from "../resources.ts";
import { askLeader, type Address, type LeaderAnswer } from "./ask-leader.ts";
import { ownIdentity } from "./lease-object.ts";
import { Lease } from "./lease.ts";

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

  /**
   * What the leader answers at a path of its HTTP port. Rejects where it cannot be asked: without `--ha` nobody knows where
   * it listens. `port` is another port of the leader's.
   */
  async ask(path: string, port?: number): Promise<LeaderAnswer> {
    const { client, clock, namespace } = this.#options;
    const { address } = await leaderOf({ client, namespace }, this.#name);
    if (address === undefined) throw new Error(`Lease ${this.#name} has no address of it`);
    return askLeader({ ...address, port: port ?? address.port }, path, clock);
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

/** Annotation of the Lease: where to ask its holder whether it is ready. */
const ADDRESS_ANNOTATION = "addon-operator.io/address";

const LIMIT_MS = 3000;
/** However often a follower is asked, it asks the API server and the leader once a second at most. */
const GOOD_MS = 1000;

/** An answer to `/readyz`. */
interface Readiness {
  readonly status: number;
  readonly text: string;
}

interface MirrorOptions {
  readonly client: KubeClient;
  readonly clock: Clock;
  readonly namespace: string;
  /** Name of this Pod. */
  readonly pod?: string | undefined;
}

/**
 * A follower answers `/readyz` as its leader does, unless the leader is of an earlier revision: else a rolling
 * update could never replace a leader that is not ready.
 */
export function leaderMirror(options: MirrorOptions, lease: string): () => Promise<Readiness> {
  return shareAnswer(options.clock, GOOD_MS, async () => {
    try {
      return await ask(options, lease);
    } catch (error) {
      return { status: 500, text: `The leader cannot be asked: ${oneLine(error)}\n` };
    }
  });
}

async function ask(options: MirrorOptions, lease: string): Promise<Readiness> {
  const { holder, address } = await leaderOf(options, lease);
  if (isOtherRevision(options.pod ?? "", holder))
    return { status: 200, text: "Waiting for the lease; the leader is of another revision\n" };
  if (address === undefined || holder === "") return { status: 500, text: "No leader is elected\n" };
  return (await statusOf(address, options.clock)) === 200
    ? { status: 200, text: "Waiting for the lease; the leader is ready\n" }
    : { status: 500, text: "The leader is not ready\n" };
}

async function leaderOf({ client, namespace }: Pick<MirrorOptions, "client" | "namespace">, name: string) {
  const target = { resource: LEASES, namespace, name };
  const { metadata, spec } = await get<LeaseObject>(client, target, { timeoutMs: LIMIT_MS });
  return {
    holder: spec?.holderIdentity?.split("/")[0] ?? "",
    address: parseAddress(metadata.annotations?.[ADDRESS_ANNOTATION] ?? ""),
  };
}

/** Whether two Pods belong to different revisions of one Deployment; their names are `<deployment>-<hash>-<random>`. */
export function isOtherRevision(own: string, other: string): boolean {
  const [mine, theirs] = [own, other].map((name) => /^(.+)-([a-z0-9]{6,10})-[a-z0-9]{5}$/.exec(name));
  return mine != null && theirs != null && mine[1] === theirs[1] && mine[2] !== theirs[2];
}

/** The status alone: the body is not read. */
async function statusOf(address: Address, clock: Clock): Promise<number> {
  const { status, body } = await askLeader(address, "/readyz", clock);
  body.destroy();
  return status;
}

/** An address that others can reach: the listen address, or the first one of this machine, IPv4 before IPv6. */
export function reachableIp(listen: string, interfaces = networkInterfaces()): string {
  if (listen !== "0.0.0.0" && listen !== "::") return listen;
  const all = Object.values(interfaces).flatMap((each) => each ?? []);
  const usable = all.filter(({ internal, address }) => !internal && !address.startsWith("fe80:"));
  const own = usable.find(({ family }) => family === "IPv4") ?? usable[0];
  return own?.address ?? "127.0.0.1";
}

/** `10.0.0.2:9650` or `[fd00::2]:9650`. */
export function formatAddress({ ip, port }: Address): string {
  return isIPv6(ip) ? `[${ip}]:${port}` : `${ip}:${port}`;
}

/**
 * Reads what `formatAddress` wrote. Only bare addresses are accepted, no names or paths, so that whoever may write
 * the Lease cannot send followers elsewhere.
 */
export function parseAddress(text: string): Address | undefined {
  const parts = /^(?:\[([0-9a-f:.]{2,45})\]|([0-9.]{7,15})):([1-9][0-9]{0,4})$/i.exec(text);
  const [, v6 = "", v4 = "", digits] = parts ?? [];
  const port = Number(digits);
  if (!(port <= 65_535)) return undefined;
  if (isIPv6(v6)) return { ip: v6, port };
  return isIPv4(v4) ? { ip: v4, port } : undefined;
}
