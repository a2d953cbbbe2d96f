import { existsSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";

import { tools } from "../../../scripts/setup/tools.mjs";
import { UsageError } from "../../../src/config/settings/config.ts";
import { ProblemError } from "../../../src/base/model/index.ts";
import { putBundle } from "../../sources/registry/artifact/forge.ts";
import { keyPair, MODULE, moduleDir, tempDir } from "../../sources/registry/artifact/lab.ts";
import { ISSUER, ownSigstore, SUBJECT } from "../../sources/registry/cosign/own-sigstore.ts";
import { runOffline } from "../../support/command-line.ts";
import { fakeRegistry, PASSWORD, USER, type FakeRegistry, type Switches } from "../../support/registry.ts";

interface Bench {
  readonly registry: FakeRegistry;
  readonly target: string;
  readonly key: string;
  readonly pub: string;
  readonly calls: () => number;
  readonly source: (...words: readonly string[]) => Promise<{ code: number; text: string }>;
}

/** What `main.ts` makes of an error. */
function told(run: Promise<{ code: number; text: string }>): Promise<{ code: number; text: string }> {
  return run.catch((error: unknown) => {
    if (error instanceof UsageError || error instanceof ProblemError)
      return { code: error instanceof UsageError ? 2 : 1, text: error.message };
    throw error;
  });
}

const FILES = {
  ...MODULE,
  "hooks/start.sh":
    '#!/bin/sh\n[ "$1" = --config ] && printf "configVersion: v1\\nonStartup: 1\\n"\nexit 0\n',
};
const webDir = (change: Record<string, string> = {}): string => moduleDir({ ...FILES, ...change });

/** A registry, keys in files, and the command `source` with an empty home directory. */
async function bench(switches: Switches = {}): Promise<Bench> {
  const registry = await fakeRegistry({ hasReferrers: true, ...switches });
  const [dir, { privatePem, publicPem }] = [tempDir(), keyPair()];
  const [key, pub] = [join(dir, "ci.key"), join(dir, "ci.pub")];
  writeFileSync(key, privatePem);
  writeFileSync(pub, publicPem);
  mkdirSync(join(dir, ".docker"));
  const auth = Buffer.from(`${USER}:${PASSWORD}`).toString("base64");
  writeFileSync(join(dir, ".docker/config.json"), JSON.stringify({ auths: { [registry.host]: { auth } } }));
  return {
    registry,
    target: `oci://${registry.host}/modules`,
    key,
    pub,
    calls: () => registry.calls.length,
    source: async (...words) =>
      told(runOffline("source", [...words, "--plain-http"], { HOME: dir, PATH: process.env["PATH"] })),
  };
}

it("a module whose chart needs values of the ConfigMap is pushed with --values", async () => {
  const { source, target } = await bench();
  const template = `apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\ndata: {a: "{{ required "no host" .Values.web.host }}"}\n`;
  const dir = webDir({ "templates/x.yaml": template });
  const push = ["push", dir, target, "--unsigned", "--helm-bin", tools().helm];
  expect(await source(...push)).toMatchObject({
    code: 1,
    text: expect.stringMatching(/no host \(.*lint and source push have --values FILE\)\nnothing is pushed/),
  });
  const values = join(tempDir(), "values.yaml");
  writeFileSync(values, "web: {host: example}\n");
  expect(await source(...push, "--values", values, "--kube-version", "1.36.0")).toMatchObject({ code: 0 });
});

it("a module is pushed, its channel moved, and pulled by both", async () => {
  const { source, target, key, pub } = await bench({ auth: "basic" });
  const pushed = await source("push", webDir(), target, "--key", key, "--tag", "edge");
  expect(pushed).toMatchObject({
    code: 0,
    text: expect.stringMatching(/web:1\.4\.2\nsha256:.*pushed and signed/) as string,
  });
  const again = await source("push", webDir(), target, "--key", key);
  expect(again).toMatchObject({ code: 0, text: expect.stringContaining("already there") as string });
  const digest = /sha256:[0-9a-f]{64}/.exec(pushed.text)?.[0] ?? "";
  expect(await source("tag", `${target}/web:edge`, "stable")).toEqual({
    code: 0,
    text: `stable names ${digest}\n`,
  });
  for (const reference of ["web:1.4.2", "web:edge", "web:stable", `web@${digest}`]) {
    const dir = join(tempDir(), "new/010-web");
    const { code, text } = await source("pull", `${target}/${reference}`, dir, "--key", pub);
    expect({ code, text }).toMatchObject({
      code: 0,
      text: expect.stringContaining(`${digest}: signed by ${pub} (bundle)`) as string,
    });
    expect(readFileSync(join(dir, "Chart.yaml"), "utf8")).toBe(MODULE["Chart.yaml"]);
    expect(statSync(join(dir, "hooks/start.sh")).mode & 0o111).toBe(0o111);
  }
});

it("says what is wrong with a line that names too much, too little, or the other key", async () => {
  const { source, target, key, pub, calls } = await bench();
  const dir = webDir();
  const wrong: readonly (readonly [words: readonly string[], said: string])[] = [
    [["pull", `${target}/web`, join(tempDir(), "web"), "--key", pub], "names no version (add a version"],
    [["tag", `${target}/web`, "stable"], "names no version"],
    [["push", dir, target, "--key", pub], "contains a public key (use the private key"],
    [["push", join(dir, ".."), target, "--key", key], "has no Chart.yaml (name the directory of one module"],
  ];
  for (const [words, said] of wrong)
    expect(await source(...words)).toMatchObject({
      code: 1,
      text: expect.stringContaining(said) as string,
    });
  expect(calls()).toBe(0);
  const { text } = await source("push", dir, `${target}/web`, "--key", key);
  expect(text).toContain("note: TARGET ends with the name of the module");
  expect(text).toContain("modules/web/web:1.4.2");
});

it("nothing is unpacked that the key did not sign", async () => {
  const { source, target, key } = await bench();
  await source("push", webDir(), target, "--key", key);
  const [dir, pub] = [tempDir(), join(tempDir(), "other.pub")];
  writeFileSync(pub, keyPair().publicPem);
  const { code, text } = await source("pull", `${target}/web:1.4.2`, join(dir, "web"), "--key", pub);
  expect(code).toBe(1);
  expect(text).toContain(`has no valid signature by ${pub}`);
  expect(readdirSync(dir)).toEqual([]);
});

it("an unsigned module is pushed and pulled only where the line says so", async () => {
  const { source, target, pub, key, calls } = await bench();
  const dir = join(tempDir(), "web");
  for (const words of [
    ["push", webDir(), target],
    ["push", webDir(), target, "--unsigned", "--key", key],
    ["pull", `${target}/web:1.4.2`, dir],
    ["pull", `${target}/web:1.4.2`, dir, "--unsigned", "--key", pub],
  ])
    expect(await source(...words)).toMatchObject({
      code: 2,
      text: expect.stringContaining("--unsigned") as string,
    });
  expect(calls()).toBe(0);
  expect((await source("push", webDir(), target, "--unsigned")).text).toContain("pushed without a signature");
  expect((await source("pull", `${target}/web:1.4.2`, dir, "--key", pub)).code).toBe(1);
  expect((await source("pull", `${target}/web:1.4.2`, dir, "--unsigned")).text).toContain("not verified");
});

it.each<[string, (at: Bench) => readonly string[], string]>([
  [
    "a target with a tag",
    ({ target, key }) => ["push", webDir(), `${target}:1`, "--key", key],
    "has a tag or digest",
  ],
  ["a target of http", ({ key }) => ["push", webDir(), "http://a/b", "--key", key], "write oci://HOST/NAME"],
  [
    "a module with an error",
    ({ target, key }) => ["push", webDir({ "values.yaml": "web: [" }), target, "--key", key],
    "nothing is pushed",
  ],
  [
    "a module without version",
    ({ target, key }) => [
      "push",
      moduleDir({ "hooks/start.sh": FILES["hooks/start.sh"] }),
      target,
      "--key",
      key,
    ],
    "set --version",
  ],
  [
    "a version that YAML reads as a number",
    ({ target, key }) => [
      "push",
      webDir({ "Chart.yaml": "apiVersion: v2\nname: web\nversion: 1.2\n" }),
      target,
      "--key",
      key,
    ],
    "has no version",
  ],
  ["a key that is missing", ({ target, key }) => ["push", webDir(), target, "--key", `${key}x`], "ci.keyx"],
  ["the public key", ({ target, pub }) => ["push", webDir(), target, "--key", pub], "ci.pub"],
  ["a tag with a slash", ({ target }) => ["tag", `${target}/web:1.4.2`, "a/b"], "is no tag"],
  [
    "a version that does not exist",
    ({ target, pub }) => ["pull", `${target}/web:9`, join(tempDir(), "a"), "--key", pub],
    "is not found, or the credentials do not show it",
  ],
  [
    "a directory with files",
    ({ target, pub }) => ["pull", `${target}/web:1`, webDir(), "--key", pub],
    "is not empty",
  ],
])("%s is one clear error, and nothing is stored", async (_, words, message) => {
  const at = await bench();
  const { code, text } = await at.source(...words(at));
  expect(code).toBe(1);
  expect(text).toContain(message);
  expect(text).not.toMatch(/ at .*\.ts:|PRIVATE KEY-----\n/);
});

it("a broken login file is named", async () => {
  const { target, pub } = await bench();
  const home = tempDir();
  mkdirSync(join(home, ".docker"));
  writeFileSync(join(home, ".docker/config.json"), "{");
  const words = ["pull", `${target}/web:1`, join(home, "a"), "--key", pub, "--plain-http"];
  const { code, text } = await told(runOffline("source", words, { HOME: home }));
  expect(code).toBe(1);
  expect(text).toContain(join(home, ".docker/config.json"));
  expect(existsSync(join(home, "a"))).toBe(false);
});

it("a module that an identity has signed is pulled with it and the trusted root", async () => {
  const { source, target, registry } = await bench();
  const { text } = await source("push", webDir(), target, "--unsigned");
  const sigstore = ownSigstore();
  putBundle(registry, { key: { sigstore }, digest: /sha256:[0-9a-f]{64}/.exec(text)?.[0] ?? "" });
  const dir = tempDir();
  const [identity, other, root] = ["ci.identity", "other.identity", "root.json"].map((name) =>
    join(dir, name),
  );
  writeFileSync(identity ?? "", `issuer: ${ISSUER}\nsubject: ${SUBJECT}\n`);
  writeFileSync(other ?? "", `issuer: ${ISSUER}\nsubject: someone\n`);
  writeFileSync(root ?? "", sigstore.trustedRoot());
  const pull = (...flags: (string | undefined)[]) =>
    source("pull", `${target}/web:1.4.2`, join(dir, "010-web"), ...flags.map(String));
  expect((await pull("--identity", identity)).text).toContain("needs a trusted root, which is missing");
  expect((await pull("--trusted-root", root)).text).toContain("--identity FILE with --trusted-root FILE");
  expect((await pull("--identity", other, "--trusted-root", root)).text).toContain("no identity allows that");
  expect(existsSync(join(dir, "010-web"))).toBe(false);
  const pulled = await pull("--identity", identity, "--trusted-root", root);
  expect(pulled).toMatchObject({ code: 0 });
  expect(pulled.text).toContain(`signed by ${identity} (bundle)`);
});
