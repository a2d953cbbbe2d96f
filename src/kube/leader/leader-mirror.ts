/** The answer of a follower to `/readyz`, and the address at which it asks its leader. */

import { request } from "node:http";
import { isIPv4, isIPv6 } from "node:net";
import { networkInterfaces } from "node:os";

import type { KubeClient } from "../client/client.ts";
import { LEASES } from "../discovery/resources.ts";
import { get } from "../client/verbs.ts";
import { oneLine, shareAnswer } from "../../lib/index.ts";
import type { Clock } from "../../lib/index.ts";
import type { LeaseObject } from "../objects.ts";

/** Annotation of the Lease: where to ask its holder whether it is ready. */
export const ADDRESS_ANNOTATION = "addon-operator.io/address";

const LIMIT_MS = 3000;
/** However often a follower is asked, it asks the API server and the leader once a second at most. */
const GOOD_MS = 1000;

/** An answer to `/readyz`. */
export interface Readiness {
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

async function leaderOf({ client, namespace }: MirrorOptions, name: string) {
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
function statusOf({ ip, port }: Address, clock: Clock): Promise<number> {
  return new Promise((resolve, reject) => {
    const sent = request({ host: ip, port, path: "/readyz", agent: false }, (answer) => {
      resolve(answer.statusCode ?? 0);
      sent.destroy();
    });
    const limit = clock.setTimer(LIMIT_MS, () => void sent.destroy(new Error("no answer in time")));
    sent.on("error", reject).on("close", () => limit.cancel());
    sent.end();
  });
}

/** Where a leader listens. */
interface Address {
  readonly ip: string;
  readonly port: number;
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
