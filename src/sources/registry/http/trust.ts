/** Decides to which addresses a registry may send this program. */

import { lookup } from "node:dns/promises";
import { isIP, type BlockList } from "node:net";

import { containsHost, getHost, LOOPBACK, toNetworks } from "./networks.ts";

/** Networks of a site. A registry that is in such a network may also name others there. */
const SITE_NETWORKS = toNetworks([
  ["10.0.0.0", 8],
  ["100.64.0.0", 10],
  ["172.16.0.0", 12],
  ["192.168.0.0", 16],
  ["fc00::", 7],
]);
/** All networks that are not public: only this machine, its cluster or its cloud reach them. */
const PRIVATE_NETWORKS = toNetworks([
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
  // Addresses of IPv4 in IPv6: compatible ones, translated ones (NAT64), Teredo, and 6to4. They lead to any network above.
  ["::", 96],
  ["64:ff9b::", 96],
  ["64:ff9b:1::", 48],
  ["2001::", 32],
  ["2002::", 16],
  ["fc00::", 7],
  ["fe80::", 10],
  ["fec0::", 10],
  ["ff00::", 8],
]);

/**
 * Checks addresses that a registry chose: the realm of a challenge, or a redirect. A registry could otherwise make this
 * program call addresses that only this machine reaches (server-side request forgery), or downgrade it to plain text.
 */
export class AddressGuard {
  readonly #registry: URL;
  readonly #resolve: (host: string) => Promise<readonly string[]>;
  #registryAddresses: Promise<readonly string[]> | undefined;

  constructor(registry: URL, resolve = resolveHost) {
    this.#registry = registry;
    this.#resolve = resolve;
  }

  /** Explains why `url` must not be called; undefined if it may be called. */
  async explainRefusal(url: URL): Promise<string | undefined> {
    if (url.protocol !== "https:" && url.protocol !== this.#registry.protocol) return explainProtocol(url);
    if (url.username !== "" || url.password !== "") return "the address contains credentials";
    if (url.host === this.#registry.host) return undefined;
    const address = toAddress(url);
    if (address === undefined || !containsHost(PRIVATE_NETWORKS, address)) return undefined;
    const network = [SITE_NETWORKS, LOOPBACK].find((each) => containsHost(each, address));
    if (network === undefined) return "the address is private";
    return (await this.#isRegistryIn(network))
      ? undefined
      : "the address is private, and the registry's is not";
  }

  /** Whether all addresses of the registry are in a network. */
  async #isRegistryIn(network: BlockList): Promise<boolean> {
    const literal = toAddress(this.#registry);
    this.#registryAddresses ??=
      literal === undefined ? this.#resolve(this.#registry.hostname) : Promise.resolve([literal]);
    const addresses = await this.#registryAddresses;
    return addresses.length > 0 && addresses.every((each) => containsHost(network, each));
  }
}

/**
 * Explains why a registry with TLS may not lead to another protocol. The digest proves the content of a blob, but on plain HTTP anyone on
 * the way reads private content, and the signature in the URL, with which everyone can get it.
 */
function explainProtocol({ protocol }: URL): string {
  if (protocol !== "http:") return `${protocol}// is not allowed`;
  return "a registry with TLS may not lead to plain HTTP, where others could read the content; give its storage TLS, or let the registry send blobs itself";
}

/** The IP address in a URL, or that of localhost; undefined for another name. */
function toAddress(url: URL): string | undefined {
  const host = getHost(url);
  if (/(?:^|\.)localhost\.?$/.test(host)) return "127.0.0.1";
  return isIP(host) === 0 ? undefined : host;
}

/** Resolves the name of the registry; empty if that fails, for example because only a proxy can. */
async function resolveHost(host: string): Promise<readonly string[]> {
  const found = await lookup(host, { all: true }).catch(() => []);
  return found.map(({ address }) => address);
}
