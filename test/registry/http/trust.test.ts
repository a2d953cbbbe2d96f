import { expect, it } from "vitest";

import { explainRefusedAddress } from "../../../src/registry/http/trust.ts";

const REGISTRY = new URL("https://registry.example.com/");
const refused = (url: string, registry = REGISTRY): string | undefined =>
  explainRefusedAddress(new URL(url), registry);

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
  "https://localhost/",
  "https://localhost./",
  "https://a.localhost/",
  "https://registry.example.com.localhost/",
])("%s is refused", (url) => {
  expect(refused(url)).toMatch(/^(?!.*secret)./);
});

it.each([
  "https://storage.example.com/a",
  "https://registry.example.com:444/",
  "https://9.9.9.9/",
  "https://[2001:db8::1]/",
])("%s may be called", (url) => {
  expect(refused(url)).toBeUndefined();
});

it("a registry on a private address may name itself, without TLS only where it has none", () => {
  const local = new URL("http://127.0.0.1:5000/");
  expect(refused("http://127.0.0.1:5000/blobs", local)).toBeUndefined();
  expect(refused("http://127.0.0.1:5001/blobs", local)).toBe("the address is private");
  expect(refused("http://registry.example.com/blobs")).toBe("http:// is not allowed");
});
