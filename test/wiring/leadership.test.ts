import type { NetworkInterfaceInfo } from "node:os";
import { expect, test } from "vitest";

import { addressOf, isOtherRevision } from "../../src/wiring/leadership.ts";

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
  { what: "the address it listens on", listen: "10.1.2.3", eth0: [v4("10.9.9.9")], found: "10.1.2.3" },
  { what: "an IPv6 one, in brackets", listen: "fd00::1", eth0: [], found: "[fd00::1]" },
  { what: "IPv4 first", listen: "0.0.0.0", eth0: [v6("fd00::2"), v4("10.0.0.2")], found: "10.0.0.2" },
  { what: "IPv6 alone", listen: "::", eth0: [v6("fe80::1"), v6("fd00::2")], found: "[fd00::2]" },
  { what: "itself without a network", listen: "0.0.0.0", eth0: [], found: "127.0.0.1" },
])("followers reach the leader at $what", ({ listen, eth0, found }) => {
  expect(addressOf(listen, { lo, eth0 })).toBe(found);
});

test.each([
  ["another revision", "op-6f5d8c9b7d-abcde", "op-7b9c4d5f66-fghij", true],
  ["the same", "op-6f5d8c9b7d-abcde", "op-6f5d8c9b7d-fghij", false],
  ["another Deployment", "op-6f5d8c9b7d-abcde", "other-7b9c4d5f66-fghij", false],
  ["no Pod of a Deployment", "machine", "op-7b9c4d5f66-fghij", false],
])("a leader of %s", (...[, own, other, expected]) => {
  expect(isOtherRevision(own, other)).toBe(expected);
});
