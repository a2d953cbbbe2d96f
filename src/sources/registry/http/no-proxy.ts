/** Decides which addresses are called without a proxy: as Go programs, such as helm and the kubelet, read `NO_PROXY`. */

import { isIP } from "node:net";
import { domainToASCII } from "node:url";

import { containsHost, getHost, LOOPBACK, toNetworks } from "./networks.ts";

/** One entry of `NO_PROXY`. */
type Entry = (host: string, port: string) => boolean;

const DEFAULT_PORTS: Readonly<Record<string, string>> = { "http:": "80", "https:": "443" };
/** Ends an address in the form `HOST:PORT` or `[IPV6]:PORT`; an IPv6 address without brackets has no port. */
const WITH_PORT = /^(?:\[([^\][]*)\]|([^:]*)):(\d*)$/;

/**
 * Whether `url` is called without a proxy. `noProxy` is a list of addresses, networks (CIDR), and domains with or without a
 * dot or `*.` before them, each with or without a port; `*` means all. Loopback addresses are never called through a proxy.
 */
export function isWithoutProxy(url: URL, noProxy: string): boolean {
  const host = getHost(url);
  if (host === "localhost" || containsHost(LOOPBACK, host)) return true;
  const port = url.port === "" ? (DEFAULT_PORTS[url.protocol] ?? "") : url.port;
  return noProxy.split(",").some((text) => parseEntry(text.trim().toLowerCase())?.(host, port) === true);
}

/** Parses an entry; undefined for one that is empty. */
function parseEntry(text: string): Entry | undefined {
  if (text === "*") return () => true;
  const network = parseNetwork(text);
  if (network !== undefined) return network;
  const [, ipv6, otherHost = text, entryPort = ""] = WITH_PORT.exec(text) ?? [];
  const matchesHost = parseHost(ipv6 ?? otherHost);
  return matchesHost && ((host, port) => matchesHost(host) && (entryPort === "" || entryPort === port));
}

/** Parses the address or the domain of an entry; undefined for one that is empty. */
function parseHost(text: string): ((host: string) => boolean) | undefined {
  if (isIP(text) !== 0) {
    const addresses = toNetworks([[text, isIP(text) === 6 ? 128 : 32]]);
    return (host) => containsHost(addresses, host);
  }
  const domain = text.replace(/^\*?\./, "");
  if (domain === "") return undefined;
  const name = domainToASCII(domain) || domain;
  const includesItself = domain === text;
  return (host) => host.endsWith(`.${name}`) || (includesItself && host === name);
}

/** Parses `ADDRESS/BITS`; undefined for anything else. */
function parseNetwork(text: string): Entry | undefined {
  const [, address = "", bits = ""] = /^([^/]+)\/(\d{1,3})$/.exec(text) ?? [];
  const version = isIP(address);
  if (version === 0 || Number(bits) > (version === 6 ? 128 : 32)) return undefined;
  const networks = toNetworks([[address, Number(bits)]]);
  // For a BlockList, a network of IPv6 also contains addresses of IPv4.
  return (host) => isIP(host) === version && containsHost(networks, host);
}
