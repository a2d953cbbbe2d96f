/** Which addresses a registry may send this program to. */

import { BlockList, isIP } from "node:net";

const PRIVATE = new BlockList();
for (const [net, bits] of [
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
] as const)
  PRIVATE.addSubnet(net, bits, "ipv4");
for (const [net, bits] of [
  ["::", 127],
  // Any of the networks above, translated.
  ["64:ff9b::", 96],
  ["fc00::", 7],
  ["fe80::", 10],
] as const)
  PRIVATE.addSubnet(net, bits, "ipv6");

/**
 * Why `url`, which the registry chose (the realm of a challenge, a redirect), must not be called; undefined if it may
 * be. A registry could otherwise make this program call addresses that only this machine reaches (server-side request
 * forgery), or downgrade it to plain text.
 */
export function refusedAddress(url: URL, registry: URL): string | undefined {
  if (url.protocol !== "https:" && url.protocol !== registry.protocol)
    return `${url.protocol}// is not allowed`;
  if (url.username !== "" || url.password !== "") return "the address contains credentials";
  if (url.host === registry.host) return undefined;
  const host = url.hostname.replace(/^\[|\]$/g, "");
  const isPrivate = /(?:^|\.)localhost\.?$/.test(host) || isPrivateAddress(host);
  return isPrivate ? "the address is private" : undefined;
}

function isPrivateAddress(host: string): boolean {
  const version = isIP(host);
  return version !== 0 && PRIVATE.check(host, version === 6 ? "ipv6" : "ipv4");
}
