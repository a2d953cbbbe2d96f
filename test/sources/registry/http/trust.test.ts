import { expect, it } from "vitest";

import { AddressGuard } from "../../../../src/sources/registry/http/trust.ts";

/** Why a registry at `addresses` must not name a URL. */
const refused = (
  url: string,
  registry = "https://registry.example.com/",
  addresses: readonly string[] = ["203.0.113.5"],
): Promise<string | undefined> =>
  new AddressGuard(new URL(registry), () => Promise.resolve(addresses)).explainRefusal(new URL(url));

it.each([
  "http://storage.example.com/a",
  "ftp://storage.example.com/a",
  "https://user:secret@storage.example.com/",
  "https://user@registry.example.com/",
  "https://127.0.0.1/",
  "https://2130706433/",
  "https://0x7f.1/",
  "https://0.0.0.0/",
  "https://10.1.2.3/",
  "https://100.64.0.1/",
  "https://172.31.255.255/",
  "https://192.168.0.1/",
  "https://169.254.169.254/latest/meta-data",
  "https://168.63.129.16/",
  "https://192.0.0.192/",
  "https://198.18.0.1/",
  "https://255.255.255.255/",
  "https://[64:ff9b::169.254.169.254]/",
  "https://[::1]/",
  "https://[::]/",
  "https://[::ffff:169.254.169.254]/",
  "https://[fd00::1]/",
  "https://[fe80::1]/",
  "https://[fec0::1]/",
  "https://[ff02::1]/",
  "https://[::10.1.2.3]/",
  "https://[2002:0a01:0203::1]/",
  "https://[2002:a9fe:a9fe::]/",
  "https://[2001:0:a9fe:a9fe::1]/",
  "https://[64:ff9b:1::10.1.2.3]/",
  "https://localhost/",
  "https://localhost./",
  "https://a.localhost/",
  "https://registry.example.com.localhost/",
])("%s is refused", async (url) => {
  expect(await refused(url)).toMatch(/^(?!.*secret)./);
});

it.each([
  "https://storage.example.com/a",
  "https://registry.example.com:444/",
  "https://9.9.9.9/",
  "https://[2001:db8::1]/",
])("%s may be called", async (url) => {
  expect(await refused(url)).toBeUndefined();
});

it("a registry on a private address may name itself, without TLS only where it has none", async () => {
  const local = "http://127.0.0.1:5000/";
  expect(await refused("http://127.0.0.1:5000/blobs", local)).toBeUndefined();
  expect(await refused("http://127.0.0.1:5001/blobs", local)).toBeUndefined();
  expect(await refused("http://10.0.0.1/blobs", local)).toContain("the address is private");
  expect(await refused("http://registry.example.com/blobs")).toBe(
    "a registry with TLS may not lead to plain HTTP, where others could read the content; give its storage TLS, or let the registry send blobs itself",
  );
  expect(await refused("ftp://registry.example.com/blobs")).toBe("ftp:// is not allowed");
});

const SITE = ["https://10.2.3.4/", "https://192.168.1.1:9000/", "https://[fd00::2]/", "https://100.64.0.1/"];
const NEVER = [
  "https://127.0.0.1/",
  "https://localhost/",
  "https://169.254.169.254/latest/meta-data",
  "https://168.63.129.16/",
  "https://192.0.0.192/",
  "https://[fe80::1]/",
  "https://[2002:0a01:0203::1]/",
  "http://10.2.3.4/",
];

it.each<[string, string, readonly string[]]>([
  ["an address", "https://10.1.2.3:5000/", []],
  ["an IPv6 address", "https://[fd00::1]/", []],
  ["a name", "https://harbor.corp/", ["10.1.2.3"]],
  ["a name of several addresses", "https://harbor.corp/", ["10.1.2.3", "fd00::1"]],
])(
  "a registry of a site, by %s, may name others of the site, and nothing else",
  async (...[, url, found]) => {
    for (const each of SITE) expect(await refused(each, url, found)).toBeUndefined();
    for (const each of NEVER) expect(await refused(each, url, found)).toBeDefined();
  },
);

it.each<[string, readonly string[]]>([
  ["is public", ["203.0.113.5"]],
  ["is partly public", ["10.1.2.3", "203.0.113.5"]],
  ["cannot be resolved", []],
])("a registry that %s may name nothing of a site", async (_, found) => {
  for (const each of [...SITE, ...NEVER.slice(1)])
    expect(await refused(each, "https://registry.example.com/", found)).toBeDefined();
});
