/** The address of a leader: how it is published in the Lease, and which addresses followers accept. */

import { BlockList, isIP, isIPv6 } from "node:net";
import { networkInterfaces } from "node:os";

/** Where a leader listens. */
export interface Address {
  readonly ip: string;
  readonly port: number;
}

/** An address that other Pods reach: the listen address, or the first one of this machine, IPv4 before IPv6. */
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

/** Where clouds serve credentials. */
const LINK_LOCAL = new BlockList();
LINK_LOCAL.addSubnet("169.254.0.0", 16, "ipv4");
LINK_LOCAL.addSubnet("fe80::", 10, "ipv6");

/** Addresses of this machine; an unspecified address connects to it too. */
const LOOPBACK = new BlockList();
LOOPBACK.addSubnet("127.0.0.0", 8, "ipv4");
LOOPBACK.addSubnet("0.0.0.0", 8, "ipv4");
LOOPBACK.addAddress("::1", "ipv6");
LOOPBACK.addAddress("::", "ipv6");

/** IPv6 notation of an IPv4 address counts as that address. */
function isIn(list: BlockList, ip: string): boolean {
  return list.check(ip, isIPv6(ip) ? "ipv6" : "ipv4");
}

/**
 * Reads what `formatAddress` wrote. An account that may write the Lease must not redirect followers to other hosts (SSRF): only bare
 * addresses are accepted, no names or paths, no link-local address, and a loopback address only if the address of this
 * process, `ownIp`, is one too, as in development.
 */
export function parseAddress(text: string, ownIp: string): Address | undefined {
  const parts = /^(?:\[([0-9a-f:.]{2,45})\]|([0-9.]{7,15})):([1-9][0-9]{0,4})$/i.exec(text);
  const [, v6, v4, digits] = parts ?? [];
  const [ip, version] = v6 === undefined ? [v4 ?? "", 4] : [v6, 6];
  const port = Number(digits);
  if (!(port <= 65_535) || isIP(ip) !== version || isIn(LINK_LOCAL, ip)) return undefined;
  return isIn(LOOPBACK, ip) && !isIn(LOOPBACK, ownIp) ? undefined : { ip, port };
}
