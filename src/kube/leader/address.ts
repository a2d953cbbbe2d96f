/** The address of a leader, for its followers. */

import { isIPv4, isIPv6 } from "node:net";
import { networkInterfaces } from "node:os";

/** Where a leader listens. */
export interface Address {
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
