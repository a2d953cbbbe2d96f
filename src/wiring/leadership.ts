import { get as ask } from "node:http";
import { networkInterfaces } from "node:os";

import { LEASES, Lease, get, mergePatch, ownIdentity } from "../kube/index.ts";
import { oneLine } from "../lib/index.ts";
import type { JsonObject } from "../model/index.ts";
import { startOnlyWhile } from "../process/index.ts";
import type { Base } from "./base.ts";

/** Annotation of the Lease: where its holder can be asked whether it is ready. */
const URL_ANNOTATION = "addon-operator.io/url";
const MIRROR_TIMEOUT_MS = 3000;

interface Held extends JsonObject {
  readonly metadata: { annotations?: Record<string, string> };
  readonly spec?: { holderIdentity?: string };
}

export interface LeadershipEvents {
  readonly onLost: (reason: string) => void;
}

/** The Lease that guards against a second operator on the same ConfigMap (README "Operation"). */
export class Leadership {
  readonly #base: Base;
  readonly #lease: Lease;
  readonly #name: string;
  #leads = false;
  /** Everything is read that can be read before it leads. */
  #waits = false;

  constructor(base: Base, events: LeadershipEvents) {
    const { settings, client, clock, logger, namespace } = base;
    this.#base = base;
    this.#name = `addon-operator-${settings.configMap}`;
    this.#lease = new Lease({
      client,
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

  /**
   * What a follower says to `/readyz`: what its leader says; undefined for the leader. The trouble of a leader of an
   * earlier revision is not its own: else a rolling update could never replace a leader that is not ready.
   */
  async mirrored(): Promise<{ status: number; text: string } | undefined> {
    const { settings } = this.#base;
    if (this.#leads || !settings.ha) return undefined;
    if (!this.#waits) return { status: 500, text: "Modules are being read\n" };
    try {
      const { url, holder } = await this.#leader();
      if (url === undefined || holder === "") return { status: 500, text: "No leader is elected\n" };
      if (isOtherRevision(settings.pod ?? "", holder))
        return { status: 200, text: "Waiting for the lease; the leader is of another revision\n" };
      return (await statusOf(url)) === 200
        ? { status: 200, text: "Waiting for the lease; the leader is ready\n" }
        : { status: 500, text: "The leader is not ready\n" };
    } catch (error) {
      return { status: 500, text: `The leader cannot be asked: ${oneLine(error)}\n` };
    }
  }

  async #leader(): Promise<{ url: string | undefined; holder: string }> {
    const { client, namespace } = this.#base;
    const target = { resource: LEASES, namespace, name: this.#name };
    const { metadata, spec } = await get<Held>(client, target, { timeoutMs: MIRROR_TIMEOUT_MS });
    return {
      url: metadata.annotations?.[URL_ANNOTATION],
      holder: spec?.holderIdentity?.split("/")[0] ?? "",
    };
  }

  async #tellAddress(port: number): Promise<void> {
    const { client, namespace, settings, logger } = this.#base;
    const body = {
      metadata: {
        annotations: { [URL_ANNOTATION]: `http://${addressOf(settings.listenAddress)}:${port}/readyz` },
      },
    };
    try {
      await mergePatch(client, { resource: LEASES, namespace, name: this.#name }, { body });
    } catch (error) {
      logger.warn("The lease could not be annotated; followers will not become ready", {
        error: oneLine(error),
      });
    }
  }
}

/** Whether two Pods belong to different revisions of one Deployment; their names are `<deployment>-<hash>-<random>`. */
export function isOtherRevision(own: string, other: string): boolean {
  const [mine, theirs] = [own, other].map((name) => /^(.+)-([a-z0-9]{6,10})-[a-z0-9]{5}$/.exec(name));
  return mine != null && theirs != null && mine[1] === theirs[1] && mine[2] !== theirs[2];
}

function statusOf(url: string): Promise<number> {
  return new Promise((resolve, reject) => {
    const sent = ask(url, { timeout: MIRROR_TIMEOUT_MS }, (answer) => {
      answer.resume();
      resolve(answer.statusCode ?? 0);
    });
    sent.on("timeout", () => sent.destroy(new Error("no answer in time")));
    sent.on("error", reject);
  });
}

/** An address that others can reach: the one we listen on, or the first of this machine, IPv4 before IPv6. */
export function addressOf(listen: string, interfaces = networkInterfaces()): string {
  if (listen !== "0.0.0.0" && listen !== "::") return inUrl(listen);
  const all = Object.values(interfaces).flatMap((each) => each ?? []);
  const usable = all.filter(({ internal, address }) => !internal && !address.startsWith("fe80:"));
  const own = usable.find(({ family }) => family === "IPv4") ?? usable[0];
  return inUrl(own?.address ?? "127.0.0.1");
}

function inUrl(address: string): string {
  return address.includes(":") ? `[${address}]` : address;
}
