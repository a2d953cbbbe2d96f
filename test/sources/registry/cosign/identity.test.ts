import { describe, expect, it } from "vitest";

import { readIdentity, readTrustedRoot } from "../../../../src/sources/registry/index.ts";
import { ISSUER, ownSigstore, SUBJECT } from "./own-sigstore.ts";

const root = readTrustedRoot(ownSigstore().trustedRoot(), "trusted_root.json");
const read = (text: string, trusted: typeof root | undefined = root) =>
  readIdentity(text, "ci.identity", trusted);

it("an identity compares whole texts", () => {
  const exact = read(`issuer: ${ISSUER}\nsubject: ${SUBJECT}\n`);
  expect(exact.matches(ISSUER, SUBJECT)).toBe(true);
  expect(exact.matches(`${ISSUER}/`, SUBJECT)).toBe(false);
  expect(exact.matches(ISSUER, SUBJECT.toUpperCase())).toBe(false);
  const dots = read("issuer: https://a.example\nsubject: me@example\n");
  expect(dots.matches("https://axexample", "me@example")).toBe(false);
  const pattern = read("issuerPattern: https://a\nsubjectPattern: 'a|ab'\n");
  expect(pattern.matches("https://a", "ab")).toBe(true);
  for (const subject of ["abc", "cab", "ab\n", "\nab"])
    expect(pattern.matches("https://a", subject)).toBe(false);
  const lines = read("issuerPattern: '(?m)^https://a$'\nsubject: x\n");
  expect(lines.matches("https://evil\nhttps://a", "x")).toBe(false);
});

it("a pattern takes time in proportion to the text", () => {
  const { matches } = read("issuer: a\nsubjectPattern: (a*)*b\n");
  expect(matches("a", "a".repeat(100_000))).toBe(false);
});

it("the hint changes with everything that decides", () => {
  const other = readTrustedRoot(ownSigstore().trustedRoot(), "trusted_root.json");
  const hints = [
    read("issuer: a\nsubject: b\n"),
    read("issuer: a\nsubject: c\n"),
    read("issuerPattern: a\nsubject: b\n"),
    read("issuer: a\nsubject: b\n", other),
  ].map(({ hint }) => hint);
  expect(new Set(hints).size).toBe(4);
});

describe("an identity", () => {
  it.each([
    ["", "issuer: must be set, or else issuerPattern, and not both"],
    ["issuer: a\n", "subject: must be set, or else subjectPattern, and not both"],
    ["issuer: a\nissuerPattern: a\nsubject: b\n", "issuer: must be set, or else issuerPattern, and not both"],
    ["issuer: a\nsubject: ''\n", "subject: must be a text"],
    ["issuer: a\nsubject: 7\n", "subject: must be a text"],
    ["issuer: a\nsubject: b\nSubject: c\n", "Subject: is no key of an identity"],
    ["issuer: a\nsubjectPattern: '(?=a)'\n", "subjectPattern: is no pattern in the syntax of RE2"],
    ["issuer: a\nsubjectPattern: 'a)|(?:b'\n", "subjectPattern: is no pattern in the syntax of RE2"],
    ["- a\n", "must be a map"],
    ["a: [\n", "not valid YAML"],
  ])("is refused: %j", (text, message) => {
    expect(() => read(text)).toThrow(`ci.identity: `);
    expect(() => read(text)).toThrow(message);
  });

  it("needs a trusted root", () => {
    expect(() => readIdentity("issuer: a\nsubject: b\n", "ci.identity", undefined)).toThrow(
      "ci.identity: issuer: needs a trusted root, which is missing (add one; use a trusted_root.json of Sigstore",
    );
  });
});

it.each([
  ["<html>", "cannot be read"],
  ["[]", "cannot be read: it is not a JSON object"],
  ["{}", "is not a trusted root"],
  [
    ownSigstore().trustedRoot((json) => ({ ...json, certificateAuthorities: [] })),
    "has no certificate authority",
  ],
  [
    ownSigstore().trustedRoot((json) => ({ ...json, tlogs: [] })),
    "has neither a transparency log nor a timestamp authority",
  ],
  [
    ownSigstore().trustedRoot((json) => ({ ...json, ctlogs: [{ publicKey: { validFor: {} } }] })),
    "has an authority or a log without validFor.start",
  ],
])("a trusted root is refused for a reason: %#", (text, message) => {
  expect(() => readTrustedRoot(text, "trusted_root.json")).toThrow(`trusted_root.json: ${message}`);
});
