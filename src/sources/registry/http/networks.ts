/** Networks of IP addresses. */

import { BlockList, isIP } from "node:net";

/** Creates a set of networks, such as `["10.0.0.0", 8]`. */
export function toNetworks(networks: readonly (readonly [address: string, bits: number])[]): BlockList {
  const list = new BlockList();
  for (const [address, bits] of networks) list.addSubnet(address, bits, familyOf(address));
  return list;
}

export const LOOPBACK = toNetworks([
  ["127.0.0.0", 8],
  ["::1", 128],
]);

/** Whether `host` is an IP address in one of the networks; false for names. */
export function containsHost(networks: BlockList, host: string): boolean {
  return isIP(host) !== 0 && networks.check(host, familyOf(host));
}

/** The host of a URL, an IPv6 address without brackets. */
export function getHost({ hostname }: URL): string {
  return hostname.replace(/^\[|\]$/g, "");
}

function familyOf(address: string): "ipv4" | "ipv6" {
  return isIP(address) === 6 ? "ipv6" : "ipv4";
}
