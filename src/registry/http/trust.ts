/** Which addresses a registry may send this program to. */

import { BlockList, isIP } from "node:net";

const PRIVATE = new BlockList();
for (const [net, bits] of [
  ["0.0.0.0", 8],
  ["10.0.0.0", 8],
  ["100.64.0.0", 10],
  ["127.0.0.0", 8],
  ["169.254.0.0", 16],
  ["172.16.0.0", 12],
  ["192.168.0.0", 16],
] as const)
  PRIVATE.addSubnet(net, bits, "ipv4");
for (const [net, bits] of [
  ["::", 127],
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
