/** Decides to which addresses a registry may send this program. */

import { BlockList, isIP } from "node:net";

/** Networks that are not public: only this machine, its cluster or its cloud reach them. */
const PRIVATE_NETWORKS = new BlockList();
for (const [address, bits] of [
  ["0.0.0.0", 8],
  ["10.0.0.0", 8],
  ["100.64.0.0", 10],
  ["127.0.0.0", 8],
  // Services of a cloud for its own machines, outside of the private networks.
  ["168.63.129.16", 32],
  ["169.254.0.0", 16],
  ["172.16.0.0", 12],
  ["192.0.0.0", 24],
  ["192.168.0.0", 16],
  ["198.18.0.0", 15],
  // Multicast, and what is not assigned.
  ["224.0.0.0", 3],
  ["::", 127],
  // Any of the networks above, translated.
  ["64:ff9b::", 96],
  ["fc00::", 7],
  ["fe80::", 10],
] as const)
  PRIVATE_NETWORKS.addSubnet(address, bits, isIP(address) === 6 ? "ipv6" : "ipv4");

/**
 * Explains why `url`, which the registry chose (the realm of a challenge, or a redirect), must not be called; returns
 * undefined if it may be called. A registry could otherwise make this program call addresses that only this machine
 * reaches (server-side request forgery), or downgrade it to plain text.
 */
export function explainRefusedAddress(url: URL, registry: URL): string | undefined {
  if (url.protocol !== "https:" && url.protocol !== registry.protocol)
    return `${url.protocol}// is not allowed`;
  if (url.username !== "" || url.password !== "") return "the address contains credentials";
  if (url.host === registry.host) return undefined;
  const host = url.hostname.replace(/^\[|\]$/g, "");
  const isPrivate = /(?:^|\.)localhost\.?$/.test(host) || isPrivateAddress(host);
  return isPrivate ? "the address is private" : undefined;
}

/** Whether `host` is an IP address in a private network; false for names. */
function isPrivateAddress(host: string): boolean {
  const version = isIP(host);
  return version !== 0 && PRIVATE_NETWORKS.check(host, version === 6 ? "ipv6" : "ipv4");
}
