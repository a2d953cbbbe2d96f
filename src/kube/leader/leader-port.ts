/** The HTTP port of the leader: its address in the Lease, which addresses followers accept, and their requests. */

import { request, type IncomingMessage } from "node:http";
import { BlockList, isIP, isIPv6 } from "node:net";
import { networkInterfaces } from "node:os";

import { callIfLate, type Clock } from "../../base/index.ts";

/** IP address and port of a leader's HTTP server. */
export interface Address {
  readonly ip: string;
  readonly port: number;
}

/**
 * Finds an address at which other Pods reach this process: the listen address or, if the process listens on all addresses,
 * the first one of this machine, IPv4 before IPv6.
 */
export function findReachableIp(listen: string, interfaces = networkInterfaces()): string {
  if (listen !== "0.0.0.0" && listen !== "::") return listen;
  const addresses = Object.values(interfaces).flatMap((each) => each ?? []);
  // Neither loopback nor link-local addresses.
  const reachable = addresses.filter(({ internal, address }) => !internal && !address.startsWith("fe80:"));
  const chosen = reachable.find(({ family }) => family === "IPv4") ?? reachable[0];
  return chosen?.address ?? "127.0.0.1";
}

/** Formats an address for the Lease: `10.0.0.2:9650` or `[fd00::2]:9650`. */
export function formatAddress({ ip, port }: Address): string {
  return isIPv6(ip) ? `[${ip}]:${port}` : `${ip}:${port}`;
}

const MAX_PORT = 65_535;
/** Link-local addresses: clouds serve credentials at them. */
const LINK_LOCAL = new BlockList();
LINK_LOCAL.addSubnet("169.254.0.0", 16, "ipv4");
LINK_LOCAL.addSubnet("fe80::", 10, "ipv6");

/** Addresses of this machine; an unspecified address connects to it too. */
const LOOPBACK = new BlockList();
LOOPBACK.addSubnet("127.0.0.0", 8, "ipv4");
LOOPBACK.addSubnet("0.0.0.0", 8, "ipv4");
LOOPBACK.addAddress("::1", "ipv6");
LOOPBACK.addAddress("::", "ipv6");

/** Whether a block list contains an address. An IPv4 address in IPv6 notation counts as the IPv4 address. */
function isInBlockList(list: BlockList, ip: string): boolean {
  return list.check(ip, isIPv6(ip) ? "ipv6" : "ipv4");
}

/**
 * Parses an address that `formatAddress` wrote; undefined if followers must not connect to it. An account that may write the Lease must
 * not redirect followers to other hosts (SSRF): accepts only bare addresses, no names or paths, no link-local address, and a loopback
 * address only if the address of this process, `ownIp`, is a loopback address too, as in development.
 */
export function parseAddress(text: string, ownIp: string): Address | undefined {
  // `[IPv6]:port` or `IPv4:port`; `isIP` checks the address.
  const parts = /^(?:\[([0-9a-f:.]{2,45})\]|([0-9.]{7,15})):([1-9][0-9]{0,4})$/i.exec(text);
  if (parts === null) return undefined;
  const [, v6, v4] = parts;
  const ip = v6 ?? v4 ?? "";
  const port = Number(parts[3]);
  const isValidIp = isIP(ip) === (v6 === undefined ? 4 : 6);
  if (!isValidIp || port > MAX_PORT || isInBlockList(LINK_LOCAL, ip)) return undefined;
  const isForeignLoopback = isInBlockList(LOOPBACK, ip) && !isInBlockList(LOOPBACK, ownIp);
  return isForeignLoopback ? undefined : { ip, port };
}

/** The response of a leader. The caller reads or destroys the body. */
export interface LeaderAnswer {
  readonly status: number;
  readonly contentType: string | undefined;
  readonly body: IncomingMessage;
}

/** Header of requests that a follower forwards: the receiver answers them itself, so that two replicas never forward to each other. */
export const FOLLOWER_HEADER = "x-addon-operator-follower";

/** Time limit until the headers of the response. */
const TIMEOUT_MS = 3000;

/** Requests a path from the HTTP server of the leader, which answers itself and does not forward the request. Rejects if no response arrives in time. */
export function queryLeader({ ip, port }: Address, path: string, clock: Clock): Promise<LeaderAnswer> {
  const headers = { [FOLLOWER_HEADER]: "true" };
  const clientRequest = request({ host: ip, port, path, headers, agent: false });
  const answer = new Promise<LeaderAnswer>((resolve, reject) => {
    clientRequest.on("error", reject).on("response", (body) => {
      resolve({ status: body.statusCode ?? 0, contentType: body.headers["content-type"], body });
    });
  });
  clientRequest.end();
  const giveUp = (): void => void clientRequest.destroy(new Error("no answer in time"));
  return callIfLate(clock, TIMEOUT_MS, giveUp, answer);
}
