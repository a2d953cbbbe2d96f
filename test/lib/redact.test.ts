import { describe, expect, it } from "vitest";

import { looksSecret, redactText, redactValues } from "../../src/lib/index.ts";
import type { Json } from "../../src/model/index.ts";

const HIDDEN = /^<redacted:sha256:[0-9a-f]{8}>$/;

describe("looksSecret", () => {
  it.each([
    "password",
    "dbPassword",
    "DB_PASSWORD",
    "passwd",
    "passphrase",
    "secret",
    "clientSecret",
    "token",
    "authToken",
    "apiKey",
    "api-key",
    "APIKEY",
    "tlsKey",
    "ca.key",
    "key",
    "tls.crt",
    "caCert",
    "certificate",
    "credentials",
    "dsn",
    "databaseDSN",
    "privateKey",
    "dbpassword",
    "accesstoken",
    "kubeconfig",
    "basicAuth",
    "secretAccessKey",
    "sshPrivateKeyPem",
    "cookieSecret",
  ])("hides %s", (key) => {
    expect(looksSecret(key)).toBe(true);
  });

  it.each([
    "replicas",
    "image",
    "publicKeyName",
    "secretName",
    "tokenTTL",
    "keyName",
    "passwordLength",
    "host",
    "certManager",
    "certIssuer",
    "secretRef",
    "keepAlive",
    "monkey",
    "keyboard",
    "enabledModules",
    "publicKey",
  ])("shows %s", (key) => {
    expect(looksSecret(key)).toBe(false);
  });
});

describe("redactValues", () => {
  const hide = (value: Json, paths: readonly string[] = []): Json => redactValues(value, new Set(paths));

  it("hides values under secret keys at any depth and keeps the rest", () => {
    const value = hide({ a: [{ password: "p", user: "u" }], tls: { key: "k", ttl: 5 }, on: true });
    expect(value).toEqual({
      a: [{ password: expect.stringMatching(HIDDEN), user: "u" }],
      tls: { key: expect.stringMatching(HIDDEN), ttl: 5 },
      on: true,
    });
  });

  it("hides everything below a secret key", () => {
    expect(hide({ credentials: { user: "u", pin: 1234, list: ["x"], on: false } })).toEqual({
      credentials: {
        user: expect.stringMatching(HIDDEN),
        pin: expect.stringMatching(HIDDEN),
        list: [expect.stringMatching(HIDDEN)],
        on: false,
      },
    });
  });

  it("hides what the schema names, items of lists and members of maps included", () => {
    const value = { a: { b: "x" }, list: [{ pin: "1" }, { pin: "2" }], "o/p": "q" };
    expect(hide(value, ["/a/b", "/list/*/pin", "/o~1p"])).toEqual({
      a: { b: expect.stringMatching(HIDDEN) },
      list: [{ pin: expect.stringMatching(HIDDEN) }, { pin: expect.stringMatching(HIDDEN) }],
      "o/p": expect.stringMatching(HIDDEN),
    });
  });

  it("gives the same stand-in for the same text, and another one for another", () => {
    const { a, b, c } = hide({ a: { token: "1" }, b: { token: "1" }, c: { token: "2" } }) as Record<
      string,
      Json
    >;
    expect(a).toEqual(b);
    expect(a).not.toEqual(c);
  });

  it("hides long strings, PEM blocks and user info in URLs wherever they stand", () => {
    const pem = "-----BEGIN RSA PRIVATE KEY-----\nabc\n-----END RSA PRIVATE KEY-----";
    const shown = JSON.stringify(
      hide({ a: "x".repeat(257), b: `x ${pem} y`, c: "https://me:pw@host/path", d: "x".repeat(256) }),
    );
    expect(shown).not.toContain("abc");
    expect(shown).not.toContain("me:pw");
    expect(shown).toContain("@host/path");
    expect(shown).not.toContain("x".repeat(257));
    expect(shown).toContain("x".repeat(256));
  });
});

describe("redactText", () => {
  it("takes PEM blocks and user info out of free text", () => {
    const text = "cannot reach postgres://app:s3cret@db:5432/x\n-----BEGIN CERTIFICATE-----\nMIIB\n(cut)";
    const shown = redactText(text);
    expect(shown).not.toContain("s3cret");
    expect(shown).not.toContain("MIIB");
    expect(shown).toContain("@db:5432/x");
  });

  it("leaves other text alone", () => {
    expect(redactText("see https://example.com/a@b for more")).toBe("see https://example.com/a@b for more");
  });
});
