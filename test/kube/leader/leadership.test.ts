import { createServer } from "node:http";
import type { IncomingMessage, ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import type { NetworkInterfaceInfo } from "node:os";
import { expect, onTestFinished, test } from "vitest";

import { formatAddress, parseAddress, findReachableIp } from "../../../src/kube/leader/leader-port.ts";
import { isOtherRevision, createReadinessReader } from "../../../src/kube/leader/leadership.ts";
import { fake } from "../fixture.ts";
import { until } from "../../support/until.ts";

const LEASE = "/apis/coordination.k8s.io/v1/namespaces/ops/leases/guard";

const v4 = (address: string, internal = false): NetworkInterfaceInfo => ({
  address,
  internal,
  family: "IPv4",
  netmask: "255.0.0.0",
  mac: "00:00:00:00:00:00",
  cidr: null,
});
const v6 = (address: string): NetworkInterfaceInfo => ({
  ...v4(address),
  family: "IPv6",
  scopeid: 0,
});
const lo = [v4("127.0.0.1", true)];

test.each([
  { what: "the address it listens on", listen: "10.1.2.3", eth0: [v4("10.9.9.9")], found: "10.1.2.3:80" },
  { what: "an IPv6 one, in brackets", listen: "fd00::1", eth0: [], found: "[fd00::1]:80" },
  { what: "IPv4 first", listen: "0.0.0.0", eth0: [v6("fd00::2"), v4("10.0.0.2")], found: "10.0.0.2:80" },
  { what: "IPv6 alone", listen: "::", eth0: [v6("fe80::1"), v6("fd00::2")], found: "[fd00::2]:80" },
  { what: "itself without a network", listen: "0.0.0.0", eth0: [], found: "127.0.0.1:80" },
])("followers reach the leader at $what", ({ listen, eth0, found }) => {
  const address = { ip: findReachableIp(listen, { lo, eth0 }), port: 80 };
  expect(formatAddress(address)).toBe(found);
  expect(parseAddress(found, address.ip)).toEqual(address);
});

test.each([
  "http://10.0.0.2:80/readyz",
  "10.0.0.2:80/admin",
  "10.0.0.2",
  "10.0.0.2:0",
  "10.0.0.2:65536",
  "10.0.0.256:80",
  "010.0.0.2:80",
  "167772162:80",
  "user@10.0.0.2:80",
  "localhost:80",
  "[fd00::2%eth0]:80",
  "[fd00::2]:80 ",
  "fd00::2:80",
  "[10.0.0.2]:80",
  "169.254.169.254:80",
  "[fe80::1]:80",
  "[::ffff:169.254.169.254]:80",
  "[::ffff:a9fe:a9fe]:80",
  "",
])("nobody is asked at %j", (text) => {
  expect(parseAddress(text, "127.0.0.1")).toBeUndefined();
});

test.each(["127.0.0.1:80", "127.1.2.3:80", "0.0.0.0:80", "[::1]:80", "[::]:80", "[::ffff:7f00:1]:80"])(
  "a loopback address is accepted only by a follower whose own is one: %j",
  (text) => {
    expect(parseAddress(text, "10.0.0.3")).toBeUndefined();
    expect(parseAddress(text, "fd00::3")).toBeUndefined();
    expect(parseAddress(text, "127.0.0.1")).toBeDefined();
    expect(parseAddress(text, "::1")).toBeDefined();
  },
);

test.each([
  ["another revision", "op-6f5d8c9b7d-abcde", "op-7b9c4d5f66-fghij", true],
  ["the same", "op-6f5d8c9b7d-abcde", "op-6f5d8c9b7d-fghij", false],
  ["another Deployment", "op-6f5d8c9b7d-abcde", "other-7b9c4d5f66-fghij", false],
  ["no Pod of a Deployment", "machine", "op-7b9c4d5f66-fghij", false],
])("a leader of %s", (...[, own, other, expected]) => {
  expect(isOtherRevision(own, other)).toBe(expected);
});

type Answer = (request: IncomingMessage, response: ServerResponse) => void;

/** A follower, the API server with the Lease, and a leader that answers as told. */
async function pageState(answer: Answer, ownIp = "127.0.0.1") {
  const { api, client, clock } = await fake();
  const requested: string[] = [];
  const leader = createServer((request, response) => {
    requested.push(`${request.method ?? ""} ${request.url ?? ""}`);
    answer(request, response);
  });
  await new Promise<void>((resolve) => leader.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => {
    leader.closeAllConnections();
    leader.close();
  });
  const publish = (address: string, holderIdentity = "a/1/2/3/4"): void => {
    const metadata = { annotations: { "addon-operator.io/address": address } };
    api.on(`GET ${LEASE}`, { json: { metadata, spec: { holderIdentity } } });
  };
  const { port } = leader.address() as AddressInfo;
  publish(`127.0.0.1:${port}`);
  const mirror = createReadinessReader({
    client,
    clock,
    namespace: "ops",
    name: "guard",
    pod: "op-6f5d8c9b7d-abcde",
    ownIp: () => Promise.resolve(ownIp),
  });
  return { api, clock, requested, publish, port, mirror };
}

test("however often a follower is asked, it asks once a second", async () => {
  let status = 200;
  const { api, clock, requested, mirror } = await pageState((_, response) =>
    response.writeHead(status).end("fine"),
  );
  const answers = await Promise.all(Array.from({ length: 50 }, mirror));
  expect(new Set(answers.map((each) => each.status))).toEqual(new Set([200]));
  status = 500;
  await clock.advance(999);
  expect((await mirror()).status).toBe(200);
  expect(api.requests).toHaveLength(1);
  expect(requested).toEqual(["GET /readyz"]);
  await clock.advance(1);
  expect((await mirror()).status).toBe(500);
  expect(requested).toEqual(["GET /readyz", "GET /readyz"]);
});

test("a follower with a network is not sent to its own loopback", async () => {
  const { requested, mirror } = await pageState((_, response) => response.end(), "10.0.0.3");
  expect(await mirror()).toEqual({ status: 500, text: "No leader is elected\n" });
  expect(requested).toEqual([]);
});

test("what is no bare address is not followed", async () => {
  const { requested, publish, port, mirror } = await pageState((_, response) => response.end());
  publish(`http://127.0.0.1:${port}/readyz`);
  expect(await mirror()).toEqual({ status: 500, text: "No leader is elected\n" });
  expect(requested).toEqual([]);
});

test.each([
  ["of another revision", "op-7b9c4d5f66-fghij/1/2/3/4", 200],
  ["that gave the lease back", "", 500],
])("a leader %s is not asked", async (_, holder, status) => {
  const { requested, publish, port, mirror } = await pageState((_request, response) => response.end());
  publish(`127.0.0.1:${port}`, holder);
  expect((await mirror()).status).toBe(status);
  expect(requested).toEqual([]);
});

test("a leader that never answers is given three seconds, one that never ends is not read", async () => {
  let silent = true;
  let left = false;
  const { clock, requested, mirror } = await pageState((_, response) => {
    if (silent) return;
    response.on("close", () => (left = true)).write("and so on");
  });
  const answer = mirror();
  await until(() => requested.length === 1);
  await clock.advance(3000);
  expect((await answer).text).toBe("The leader cannot be reached: no answer in time\n");
  silent = false;
  await clock.advance(1000);
  expect((await mirror()).status).toBe(200);
  await until(() => left);
});
