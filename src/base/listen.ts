/** Listening of the servers, with IPv6 and without it. */

import type { ListenOptions, Server } from "node:net";

/** All addresses of this machine: those of IPv4 too, unless the system has been told otherwise. */
const ALL_ADDRESSES = "::";
const ALL_IPV4_ADDRESSES = "0.0.0.0";
/** Errors of a machine without IPv6. */
const NO_IPV6 = new Set(["EAFNOSUPPORT", "EADDRNOTAVAIL", "EINVAL"]);

/**
 * Starts to listen, and resolves when the server accepts connections. `::` means all addresses: on a machine without IPv6, the server
 * listens on those of IPv4. Throws if the address cannot be used.
 */
export async function listen(server: Server, options: ListenOptions): Promise<void> {
  try {
    await listenOnce(server, options);
  } catch (error) {
    if (options.host !== ALL_ADDRESSES || !NO_IPV6.has((error as NodeJS.ErrnoException).code ?? ""))
      throw error;
    await listenOnce(server, { ...options, host: ALL_IPV4_ADDRESSES });
  }
}

function listenOnce(server: Server, options: ListenOptions): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  server.once("error", reject);
  server.listen(options, resolve);
  return promise.finally(() => server.off("error", reject));
}
