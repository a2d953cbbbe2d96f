import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";

import { expect, test } from "vitest";

import { compatible } from "../../scripts/setup/versions.mjs";
import { RELEASE } from "../../src/config/settings/version.ts";

const root = join(import.meta.dirname, "../..");
const read = (path: string): string => readFileSync(join(root, path), "utf8");
const readme = read("README.md");
const minor = (version: string): string => version.split(".").slice(0, 2).join(".");

test("the badges are true", () => {
  const badges = [...readme.matchAll(/!\[[^\]]*\]\(([^)]*\/badge[./][^)]*)\)/g)].map(([, url = ""]) =>
    decodeURIComponent(url),
  );
  const { license } = JSON.parse(read("package.json")) as { license: string };
  const { oldest, newest } = compatible;
  expect(badges).toEqual([
    "../../actions/workflows/ci.yaml/badge.svg",
    `https://img.shields.io/badge/version-${RELEASE}-blue`,
    `https://img.shields.io/badge/Kubernetes-${minor(oldest)}–${minor(newest)}-blue`,
    "https://img.shields.io/badge/helm-3 | 4-blue",
    `https://img.shields.io/badge/license-${license.replace("-", "--")}-blue`,
  ]);
  expect(existsSync(join(root, ".github/workflows/ci.yaml"))).toBe(true);
});

test("says of Kubernetes what the tests of compatibility run", () => {
  const { oldest, previous, newest } = compatible;
  expect(readme).toContain(`supports Kubernetes ${minor(oldest)} to ${minor(newest)},`);
  expect(readme).toContain(
    `tests run on Kubernetes ${minor(oldest)}, ${minor(previous)}, and ${minor(newest)}.`,
  );
});

test("leads with what a release publishes, then with a clone and a developer's first minutes", () => {
  const order = [
    "cosign verify ghcr.io/",
    "gh attestation verify oci://ghcr.io/",
    "helm install addon-operator oci://ghcr.io/",
    "docker build ",
    "helm install addon-operator charts/addon-operator ",
    "\nnpm run demo\nnpm test\n",
  ];
  const places = order.map((text) => readme.indexOf(text));
  expect(places).toEqual(places.filter((place) => place >= 0).toSorted((a, b) => a - b));
});

test("is read in four minutes", () => {
  expect(readme.split(/\s+/).length).toBeLessThan(900);
});
