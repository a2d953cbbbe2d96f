import { readFileSync } from "node:fs";
import { createServer } from "node:net";

const LOWEST = 10_000;
/** Each process takes its ports from a share of as many as this: processes that look at one time find different ones. */
const SHARE = 128;
let ownShare;
let taken = 0;

/**
 * So many free TCP ports of the loopback interface, all different. They lie below the range from which the system serves
 * those who ask for any port: what listens there later finds it free, and finds it free again after a restart.
 */
export async function freePorts(count) {
  const ports = [];
  ownShare ??= claimShare(process.pid);
  const first = await ownShare;
  for (let tries = 0; ports.length < count; tries += 1) {
    const isShared = first !== undefined && tries < SHARE;
    const free = await bound(isShared ? first + 1 + (taken++ % (SHARE - 1)) : 0);
    if (free !== undefined && !ports.includes(free)) ports.push(free);
  }
  return ports;
}

/**
 * The first port of a share that no other process has claimed, from share number `start` on; undefined where the system gives away almost all
 * ports. This process listens at that port from now on, so that others choose another share.
 */
export async function claimShare(start) {
  const shares = Math.floor((lowestGiven() - LOWEST) / SHARE);
  for (let tries = 0; tries < shares; tries += 1) {
    const first = LOWEST + ((start + tries) % shares) * SHARE;
    const server = await listen(first);
    if (server !== undefined) {
      server.unref();
      return first;
    }
  }
  return undefined;
}

/** The lowest port that the system gives to clients, and to servers that ask for any. */
function lowestGiven() {
  try {
    return Number.parseInt(readFileSync("/proc/sys/net/ipv4/ip_local_port_range", "utf8"), 10);
  } catch {
    return 32_768;
  }
}

/** The port, which was free a moment ago; undefined if it is in use. 0 = any. */
async function bound(port) {
  const server = await listen(port);
  if (server === undefined) return undefined;
  const { port: got } = server.address();
  await new Promise((resolve) => void server.close(resolve));
  return got;
}

/** A server at the port; undefined if it is in use. */
function listen(port) {
  return new Promise((resolve) => {
    const server = createServer();
    server.once("error", () => resolve(undefined));
    server.listen(port, "127.0.0.1", () => resolve(server));
  });
}
