import { randomBytes } from "node:crypto";

import { expect, test } from "vitest";

import { SecretWords, placeholderOf } from "../../../src/base/index.ts";

const KEY = `-----BEGIN KEY-----\n${randomBytes(600)
  .toString("base64url")
  .match(/.{1,64}/g)
  ?.join("\n")}\n-----END KEY-----\n`;

test.each([
  ["winter", "the password winter is wrong"],
  ["winter", "winter"],
  ["winter", 'msg="winter"'],
  ["correct horse battery", "no user has correct horse battery!"],
  ["hunter2", "postgres://app:hunter2@db/app"],
  ["4711", "pin=4711,"],
  ["$ecret", "it is $ecret"],
  ["winter", `data: ${Buffer.from("winter").toString("base64")}`],
  ["a winter's day", `data: ${Buffer.from("a winter's day\n").toString("base64")}`],
  ["a/b c", "https://x/?q=a%2Fb%20c"],
  ['say "hi"', String.raw`{"text": "say \"hi\""}`],
])("of a program that knows it, %j is hidden in %j", (secret, text) => {
  const shown = new SecretWords([secret]).hide(text);
  expect(shown).toContain(placeholderOf(secret));
  expect(shown.length).toBeGreaterThan(0);
  expect(shown.replaceAll(placeholderOf(secret), "")).not.toContain(secret);
});

test.each([
  ["web", "website, cobweb and web2"],
  ["no", "there is no user"],
  ["true", "it is true"],
  ["", "anything"],
])("%j hides nothing in %j", (secret, text) => {
  expect(new SecretWords([secret]).hide(text)).toBe(text);
});

test("each line of a text in base64 is hidden, however it is wrapped, and each line of the text itself", () => {
  const words = new SecretWords([KEY]);
  const encoded = Buffer.from(KEY).toString("base64");
  for (const width of [76, 64])
    for (const line of encoded.match(new RegExp(`.{1,${width}}`, "g")) ?? [])
      expect(words.hide(`> ${line}`).replace(placeholderOf(KEY), "").replace(/=+$/, "")).toBe(
        line.length < 12 ? `> ${line}` : "> ",
      );
  for (const line of KEY.trim().split("\n")) expect(words.hide(line)).toBe(placeholderOf(KEY));
});

test("each line of a text in hex is hidden, as xxd -p wraps it, and a text in one line", () => {
  const words = new SecretWords([KEY]);
  const bytes = Buffer.from(KEY);
  for (const encoded of [bytes.toString("hex"), bytes.toString("hex").toUpperCase()]) {
    expect(words.hide(`data: ${encoded};`)).toBe(`data: ${placeholderOf(KEY)};`);
    for (const line of encoded.match(/.{1,60}/g) ?? [])
      expect(words.hide(line)).toBe(line.length < 8 ? line : placeholderOf(KEY));
  }
  const word = new SecretWords(["winter"]);
  const digits = Buffer.from("winter\n").toString("hex");
  expect(word.hide(`${digits} ${digits.toUpperCase()}\n77696e746f72`)).toBe(
    `${placeholderOf("winter")} ${placeholderOf("winter")}\n77696e746f72`,
  );
});

test("of two secrets that begin alike, the longer one is hidden", () => {
  const words = new SecretWords(["winter", "winter is coming"]);
  expect(words.hide("winter is coming, winter")).toBe(
    `${placeholderOf("winter is coming")}, ${placeholderOf("winter")}`,
  );
});

test("where too many secrets begin alike, every word that begins so is hidden; of too many, the whole text", () => {
  const alike = new SecretWords(Array.from({ length: 100 }, (_, index) => `aaa${index}`));
  expect(alike.hide("it says aaab and aab")).toMatch(/^it says <redacted:\w+> and aab$/);
  const many = new SecretWords(Array.from({ length: 6000 }, (_, index) => `secret ${index}`));
  expect([many.hide("it says hello"), many.hide("")]).toEqual(["(hidden)", ""]);
});
