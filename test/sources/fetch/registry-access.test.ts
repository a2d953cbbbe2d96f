import { readdirSync } from "node:fs";
import { join } from "node:path";
import { expect, it, onTestFinished } from "vitest";

import type { KubeClient } from "../../../src/kube/index.ts";
import { describeProblem, ProblemError, type Problem } from "../../../src/base/model/index.ts";
import { NotVerifiedError, RegistryError } from "../../../src/sources/registry/index.ts";
import { BlobStore } from "../../../src/sources/disk/blob-store.ts";
import { RegistryAccess } from "../../../src/sources/fetch/registry-access.ts";
import { ContentFetcher } from "../../../src/sources/fetch/fetch-content.ts";
import type { SourceSpec } from "../../../src/sources/types.ts";
import { putBundle, putSimple, REPOSITORY } from "../registry/artifact/forge.ts";
import { hurried, keyPair, registryLab, tempDir, type Lab } from "../registry/artifact/lab.ts";

interface Given {
  /** By host, as the Secret has them. */
  readonly auths?: Readonly<Record<string, { username: string; password: string }>>;
  /** A Secret instead of the one with `auths`. */
  readonly secret?: object;
  readonly answered?: (code: string) => void;
}

/** A source whose registry is the first one, and the others are its mirrors. */
function accessTo(
  hosts: readonly [string, ...string[]],
  { auths, secret, answered = () => {} }: Given = {},
): RegistryAccess {
  const [registry, ...mirrors] = hosts.map((host) => ({ host, name: "modules" }));
  const spec = { registry, mirrors, plainHttp: true, secret: (auths ?? secret) && "login", ca: undefined };
  const data = { ".dockerconfigjson": base64(JSON.stringify({ auths })) };
  const stored = secret ?? { type: "kubernetes.io/dockerconfigjson", data };
  const metadata = { name: "login", namespace: "ops" };
  const client = { json: () => Promise.resolve({ metadata, ...stored }) } as unknown as KubeClient;
  const access = new RegistryAccess(
    { client, namespace: "ops", clock: hurried, env: {} },
    spec as unknown as SourceSpec,
    answered,
  );
  onTestFinished(() => access.close());
  return access;
}

const base64 = (text: string): string => Buffer.from(text).toString("base64");
const hostOf = ({ registry }: Lab): string => registry.host;
const calls = ({ registry }: Lab): number => registry.calls.splice(0).length;

/** Registries with the same artifact, all of which `first` has signed, and what fetches it from them. */
async function registries(count: number) {
  const labs: Lab[] = [];
  for (let index = 0; index < count; index += 1) labs.push(await registryLab({ hasReferrers: true }));
  const [first] = labs as [Lab, ...Lab[]];
  const digests = new Set<string>();
  for (const lab of labs) digests.add(await lab.push("1.4.2", { key: first.key }));
  expect(digests.size).toBe(1);
  const [digest = ""] = digests;
  labs.forEach(calls);
  const dir = tempDir();
  const store = new BlobStore(dir, []);
  await store.prepareDirectories();
  const client = {} as KubeClient;
  const options = { client, namespace: "ops", clock: hurried, env: {}, maxBytes: 1_000_000 };
  return {
    labs,
    digest,
    dir,
    fetch: (registry: RegistryAccess) =>
      new ContentFetcher(options, store).fetch(
        { name: "web", version: "1.4.2", digest },
        { registry, keys: first.signers },
      ),
  };
}

const ABSENT = "127.0.0.1:1";

it("a mirror that has everything is enough", async () => {
  const { labs, digest, fetch } = await registries(2);
  const [registry, mirror] = labs as [Lab, Lab];
  expect(await fetch(accessTo([ABSENT, hostOf(mirror)]))).toMatchObject({ digest });
  expect(calls(registry)).toBe(0);
});

it("a mirror that is away is passed over, once in a check", async () => {
  const { labs, fetch } = await registries(2);
  const [registry, mirror] = labs as [Lab, Lab];
  mirror.registry.failures = { status: 503, left: Infinity };
  const access = accessTo([hostOf(registry), hostOf(mirror)]);
  expect(await access.requestFromAny("web", (repository) => repository.resolveTag("1.4.2"))).toBeDefined();
  expect(calls(mirror)).toBe(3);
  await fetch(access);
  expect(calls(mirror)).toBe(0);
});

it("a registry that is away is asked for three modules, not for all of a source", async () => {
  const codes: string[] = [];
  const access = accessTo([ABSENT], { answered: (code) => codes.push(code) });
  const ask = (name: string) =>
    access.requestFromAny(name, (repository) => repository.resolveTag("stable")).catch(String);
  const first = await ask("a");
  for (const name of ["b", "c"]) expect(await ask(name)).not.toBe(first);
  const tries = codes.length;
  expect(await ask("d")).toBe(first);
  expect(codes.length).toBe(tries);
});

it("a registry that answers in between is asked for each module", async () => {
  const { labs } = await registries(1);
  const [{ registry }] = labs as [Lab];
  const access = accessTo([registry.host]);
  const ask = (name: string) =>
    access.requestFromAny(name, (repository) => repository.resolveTag("1.4.2")).catch(String);
  registry.instead = (line) => (line.includes("/web/") ? undefined : { status: 1000 });
  for (const name of ["a", "b", "web", "c", "d"]) await ask(name);
  expect(await ask("web")).toMatch(/^sha256:/);
});

it("a tag that a mirror does not have is asked for in the registry", async () => {
  const { labs, digest } = await registries(2);
  const [registry, mirror] = labs as [Lab, Lab];
  const access = accessTo([hostOf(registry), hostOf(mirror)]);
  const ask = (tag: string) => access.requestFromAny("web", (repository) => repository.resolveTag(tag));
  mirror.registry.manifests.delete(`${REPOSITORY}@1.4.2`);
  expect(await ask("1.4.2")).toBe(digest);
  expect(await ask("none")).toBeUndefined();
});

it("a mirror with other content is refused, whatever it serves", async () => {
  const { labs, digest, fetch } = await registries(2);
  const [registry, mirror] = labs as [Lab, Lab];
  const { manifests, blobs } = mirror.registry;
  const key = `${REPOSITORY}@${digest}`;
  const { bytes = Buffer.alloc(0), mediaType = "" } = manifests.get(key) ?? {};
  const layer = (JSON.parse(bytes.toString()) as { layers: { digest: string }[] }).layers[0]?.digest ?? "";
  blobs.set(layer, Buffer.from("other"));
  await expect(fetch(accessTo([ABSENT, hostOf(mirror)]))).rejects.toThrow(
    `registry ${hostOf(mirror)}: the blob ${layer} has other content`,
  );
  manifests.set(key, { bytes: Buffer.from(`${bytes.toString()} `), mediaType });
  await expect(fetch(accessTo([ABSENT, hostOf(mirror)]))).rejects.toThrow(
    `registry ${hostOf(mirror)}: the manifest ${digest} has other content`,
  );
  expect(await fetch(accessTo([hostOf(registry), hostOf(mirror)]))).toMatchObject({ digest });
});

it("a mirror without signatures is passed over; a refusal is final only if it is that of all", async () => {
  const { labs, digest, fetch } = await registries(2);
  const [registry, mirror] = labs as [Lab, Lab];
  const unsign = ({ registry: { manifests } }: Lab): void => {
    for (const key of manifests.keys())
      if (key !== `${REPOSITORY}@${digest}` && key !== `${REPOSITORY}@1.4.2`) manifests.delete(key);
  };
  unsign(mirror);
  await expect(fetch(accessTo([ABSENT, hostOf(mirror)]))).rejects.toThrow(RegistryError);
  expect(await fetch(accessTo([hostOf(registry), hostOf(mirror)]))).toMatchObject({ digest });
  const { labs: others, fetch: fetchOther } = await registries(2);
  for (const lab of others) unsign(lab);
  await expect(fetchOther(accessTo([hostOf(others[0] as Lab), hostOf(others[1] as Lab)]))).rejects.toThrow(
    NotVerifiedError,
  );
});

it("each host gets its own credentials, and no other", async () => {
  const { labs, fetch } = await registries(3);
  const [registry, mirror, other] = labs as [Lab, Lab, Lab];
  for (const lab of labs) lab.registry.auth = "basic";
  const header = (user: string): string => `Basic ${Buffer.from(`${user}:x`).toString("base64")}`;
  const auths = {
    [hostOf(registry)]: { username: "for-registry", password: "x" },
    [hostOf(mirror)]: { username: "for-mirror", password: "x" },
  };
  const hosts = [hostOf(registry), hostOf(mirror), hostOf(other)] as const;
  await expect(fetch(accessTo(hosts, { auths }))).rejects.toThrow("401");
  const sent = (lab: Lab): unknown[] => [
    ...new Set(lab.registry.calls.map(({ authorization }) => authorization)),
  ];
  expect(sent(registry)).toEqual([undefined, header("for-registry")]);
  expect(sent(mirror)).toEqual([undefined, header("for-mirror")]);
  expect(sent(other)).toEqual([undefined]);
});

const USER_DATA = { username: base64("user"), password: base64("x") };
const AUTHS = base64(JSON.stringify({ auths: { "127.0.0.1": { username: "user", password: "x" } } }));
const named = (host: string) => ({
  metadata: { name: "login", namespace: "ops", annotations: { "addon-operator.io/host": host } },
});

it("a user goes only to the host that its Secret names", async () => {
  const { labs, fetch } = await registries(2);
  const [registry, mirror] = labs as [Lab, Lab];
  for (const lab of labs) lab.registry.auth = "basic";
  const secret = { ...named(hostOf(mirror)), type: "kubernetes.io/basic-auth", data: USER_DATA };
  await expect(fetch(accessTo([hostOf(registry), hostOf(mirror)], { secret }))).rejects.toThrow("401");
  const sent = (lab: Lab): unknown[] => [
    ...new Set(lab.registry.calls.map(({ authorization }) => authorization)),
  ];
  expect(sent(registry)).toEqual([undefined]);
  expect(sent(mirror)).toEqual([undefined, `Basic ${base64("user:x")}`]);
});

it.each<[string, object, RegExp]>([
  ["Opaque with a user", { type: "Opaque", data: USER_DATA }, /^Secret login: is of type Opaque, not/],
  ["without a type", { data: USER_DATA }, /is of type Opaque/],
  ["Opaque with a docker config", { type: "Opaque", data: { ".dockerconfigjson": AUTHS } }, /Opaque/],
  ["of a token", { type: "kubernetes.io/service-account-token", data: USER_DATA }, /service-account-token/],
  ["of a helm release", { type: "helm.sh/release.v1", data: USER_DATA }, /helm\.sh\/release\.v1/],
  [
    "of basic-auth for no host",
    { type: "kubernetes.io/basic-auth", data: USER_DATA },
    /does not name the host of its user \(annotate it .* addon-operator\.io\/host=HOST\)$/,
  ],
  [
    "with a config that is none",
    { type: "kubernetes.io/dockerconfigjson", data: { ".dockerconfigjson": base64("swordfish") } },
    /^(?!.*swordfish).*has a docker config that cannot be read/s,
  ],
  ["with the entry of the other type", { type: "kubernetes.io/dockercfg", data: USER_DATA }, /docker config/],
])("what a Secret %s contains is sent to nobody", async (_, secret, message) => {
  const { labs, fetch } = await registries(1);
  const [lab] = labs as [Lab];
  lab.registry.auth = "basic";
  const error: unknown = await fetch(accessTo([hostOf(lab)], { secret })).catch((each: unknown) => each);
  expect(error instanceof ProblemError && describeProblem(error.problems[0] as Problem)).toMatch(message);
  expect(calls(lab)).toBe(0);
});

it.each(["other.example", "127.0.0.1", "*", "", "/", "*:*"])(
  "a user for %s is not one of 127.0.0.1:PORT",
  async (host) => {
    const { labs, fetch } = await registries(1);
    const [lab] = labs as [Lab];
    lab.registry.auth = "basic";
    const secret = { ...named(host), type: "kubernetes.io/basic-auth", data: USER_DATA };
    await expect(fetch(accessTo([hostOf(lab)], { secret }))).rejects.toThrow("401");
    expect(new Set(lab.registry.calls.map(({ authorization }) => authorization))).toEqual(
      new Set([undefined]),
    );
  },
);

it("signatures that do not count are not stored", async () => {
  const { labs, digest, dir, fetch } = await registries(1);
  const [lab] = labs as [Lab];
  const stored = (): number => readdirSync(join(dir, "blobs", "sha256")).length;
  lab.registry.manifests.delete(`${REPOSITORY}@${digest.replace(":", "-")}.sig`);
  for (const key of lab.registry.manifests.keys())
    if (key !== `${REPOSITORY}@${digest}`) lab.registry.manifests.delete(key);
  for (let index = 0; index < 9; index += 1) putBundle(lab.registry, { key: keyPair().privatePem, digest });
  putSimple(lab.registry, { key: keyPair().privatePem, digest });
  await expect(fetch(accessTo([hostOf(lab)]))).rejects.toThrow(NotVerifiedError);
  expect(stored()).toBe(0);
});
