import { readFileSync } from "node:fs";
import { createServer } from "node:net";

const LOWEST = 10_000;
/** Each process takes its ports from as many as this, by its id: processes that look at one time find different ones. */
const SHARE = 128;
let taken = 0;

/**
 * So many free TCP ports of the loopback interface, all different. They lie below the range from which the system serves
 * those who ask for any port: what listens there later finds it free, and finds it free again after a restart.
 */
export async function freePorts(count) {
  const ports = [];
  for (let tries = 0; ports.length < count; tries += 1) {
    const free = await bound(tries < SHARE ? next() : 0);
    if (free !== undefined && !ports.includes(free)) ports.push(free);
  }
  return ports;
}

/** The next port of this process; 0, any, where the system gives away almost all ports. */
function next() {
  const shares = Math.floor((lowestGiven() - LOWEST) / SHARE);
  if (shares < 1) return 0;
  return LOWEST + (process.pid % shares) * SHARE + (taken++ % SHARE);
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
function bound(port) {
  return new Promise((resolve) => {
    const server = createServer();
    server.once("error", () => resolve(undefined));
    server.listen(port, "127.0.0.1", () => {
      const { port: got } = server.address();
      server.close(() => resolve(got));
    });
  });
}
