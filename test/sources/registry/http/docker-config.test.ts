import { expect, it } from "vitest";

import { findLogin } from "../../../../src/sources/registry/http/docker-config.ts";

const login = (auths: object, host: string, name = "team/app"): string | undefined =>
  findLogin(JSON.stringify({ auths }), { host, name })?.username;
const user = (username: string): object => ({ username, password: "p" });

it.each([
  ["an equal host", { "a.example.com": user("u") }, "a.example.com", "u"],
  ["another port", { "a.example.com": user("u") }, "a.example.com:5000", undefined],
  ["a scheme and /v1/", { "https://a.example.com/v1/": user("u") }, "a.example.com", "u"],
  ["a glob of one label", { "*.example.com": user("u") }, "a.example.com", "u"],
  ["a glob of two labels", { "*.example.com": user("u") }, "a.b.example.com", undefined],
  ["a prefix of the path", { "a.example.com/team": user("u") }, "a.example.com", "u"],
  ["part of a segment", { "a.example.com/te": user("u") }, "a.example.com", undefined],
  ["the longest key", { "a.example.com": user("u"), "a.example.com/team": user("v") }, "a.example.com", "v"],
  ["Docker Hub", { "https://index.docker.io/v1/": user("u") }, "registry-1.docker.io", "u"],
  ["a foreign host", { "b.example.com": user("u") }, "a.example.com", undefined],
])("finds the login for %s", (...[, auths, host, expected]) => {
  expect(login(auths, host)).toBe(expected);
});

it("reads auth with a colon in the password, and files without auths", () => {
  const auth = Buffer.from("u:a:b").toString("base64");
  expect(findLogin(JSON.stringify({ "a.io": { auth } }), { host: "a.io", name: "n" })).toEqual({
    username: "u",
    password: "a:b",
  });
});
