import { EventEmitter } from "node:events";
import type { Server } from "node:net";

import { expect, it } from "vitest";

import { listen } from "../../src/base/index.ts";

/** A server on a machine on which these hosts cannot be used. Records the hosts that it was to listen on. */
function serverWithout(unusable: Readonly<Record<string, string>>) {
  const hosts: string[] = [];
  const server = Object.assign(new EventEmitter(), {
    listen({ host }: { host: string }, resolve: () => void) {
      hosts.push(host);
      const code = unusable[host];
      if (code === undefined) resolve();
      else server.emit("error", Object.assign(new Error(code), { code }));
    },
  });
  return { hosts, server: server as unknown as Server };
}

it.each([
  ["a machine with IPv6", {}, ["::"]],
  ["a kernel without IPv6", { "::": "EAFNOSUPPORT" }, ["::", "0.0.0.0"]],
  ["IPv6 that is switched off", { "::": "EADDRNOTAVAIL" }, ["::", "0.0.0.0"]],
])("listens on all addresses of %s", async (_what, unusable, tried) => {
  const { server, hosts } = serverWithout(unusable);
  await listen(server, { host: "::", port: 9650 });
  expect(hosts).toEqual(tried);
  expect(server.listenerCount("error")).toBe(0);
});

it.each([
  ["::", "EADDRINUSE"],
  ["::1", "EADDRNOTAVAIL"],
])("of %s, reports %s", async (host, code) => {
  const { server, hosts } = serverWithout({ [host]: code });
  await expect(listen(server, { host, port: 9650 })).rejects.toThrow(code);
  expect(hosts).toEqual([host]);
});
