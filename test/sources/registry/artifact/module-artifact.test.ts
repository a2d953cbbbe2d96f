import { readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";

import { simpleSigningTag, referrersTag } from "../../../../src/sources/registry/cosign/verify.ts";
import { packDirectory, RegistryError } from "../../../../src/sources/registry/index.ts";
import { sha256 } from "../../../support/registry.ts";
import { putBundle } from "./forge.ts";
import { keyPair, MODULE, moduleDir, registryLab, type Lab } from "./lab.ts";

const REPOSITORY = "modules/web";
type Manifest = Record<string, unknown> & { layers: Record<string, unknown>[] };

describe.each([true, false])("with the referrers API: %s", (hasReferrers) => {
  it("what is pushed is verified and unpacked", async () => {
    const lab = await registryLab({ hasReferrers });
    const digest = await lab.push();
    const found = await lab.find();
    expect(found).toMatchObject({ name: "web", version: "1.4.2", digest, verified: { form: "bundle" } });
    const dir = await lab.pull();
    expect(readFileSync(join(dir, "Chart.yaml"), "utf8")).toBe(MODULE["Chart.yaml"]);
    expect(statSync(join(dir, "hooks/start.sh")).mode & 0o777).toBe(0o755);
    expect(statSync(join(dir, "Chart.yaml")).mode & 0o777).toBe(0o644);
  });

  it("either form of signature is enough", async () => {
    const lab = await registryLab({ hasReferrers });
    const digest = await lab.push();
    removeBundles(lab, digest);
    expect((await lab.find()).verified?.form).toBe("simple signing");
  });

  it("a key that did not sign is refused, and both places are named", async () => {
    const lab = await registryLab({ hasReferrers });
    const digest = await lab.push();
    const wanted = new RegExp(
      `${digest} has no valid signature by key0.pub: .*\\(key .*not by one of the keys.*tag ${simpleSigningTag(digest)}`,
    );
    await expect(lab.find("web:1.4.2", [keyPair()])).rejects.toThrow(wanted);
    expect((await lab.find("web:1.4.2", [keyPair(), lab.key])).verified?.signer.source).toBe("key1.pub");
  });
});

/** Leaves simple signing as the only signature. */
function removeBundles({ registry }: Lab, digest: string): void {
  registry.manifests.delete(`${REPOSITORY}@${referrersTag(digest)}`);
  for (const [key, { bytes }] of registry.manifests)
    if (bytes.toString().includes("sigstore.bundle")) registry.manifests.delete(key);
}

function removeSimple({ registry }: Lab, digest: string): void {
  registry.manifests.delete(`${REPOSITORY}@${simpleSigningTag(digest)}`);
}

/** Changes the artifact itself, which then has no signature. */
async function tampered(change: (manifest: Manifest) => void): Promise<Lab> {
  const lab = await registryLab({ hasReferrers: true });
  await lab.push();
  lab.registry.replace(REPOSITORY, "1.4.2", (manifest) => change(manifest as Manifest));
  return lab;
}

/** An artifact that the key did sign, though it should not be accepted. */
async function signedOther(change: (manifest: Manifest) => void): Promise<Lab> {
  const lab = await tampered(change);
  const { signArtifact } = await import("../../../../src/sources/registry/cosign/sign.ts");
  const { readSigningKey } = await import("../../../../src/sources/registry/cosign/keys.ts");
  const place = lab.place("web:1.4.2");
  const stored = await place.repository.readManifest("1.4.2");
  if (stored === undefined) throw new Error("no manifest");
  const subject = { mediaType: stored.mediaType, digest: stored.digest, size: stored.bytes.length };
  const key = readSigningKey(lab.key.privatePem, "k", undefined);
  await signArtifact(place.repository, subject, { key, repositoryAddress: "x" });
  return lab;
}

describe("what is not as it was signed", () => {
  it.each<[string, (manifest: Manifest) => void]>([
    ["another layer", ({ layers }) => Object.assign(layers[0] ?? {}, { digest: sha256("x") })],
    ["another size", ({ layers }) => Object.assign(layers[0] ?? {}, { size: 1 })],
    ["another title", (manifest) => Object.assign(manifest, { annotations: {} })],
    ["one more space", (manifest) => Object.assign(manifest, { extra: " " })],
  ])("is refused: %s", async (_, change) => {
    const lab = await tampered(change);
    await expect(lab.find()).rejects.toThrow("has no valid signature");
  });

  it.each<[string, (manifest: Manifest) => void, string]>([
    ["two layers", ({ layers }) => void layers.push(layers[0] ?? {}), "it has 2 layers"],
    ["no layer", ({ layers }) => void layers.splice(0), "it has 0 layers"],
    [
      "a layer of another type",
      ({ layers }) => Object.assign(layers[0] ?? {}, { mediaType: "text/html" }),
      "text/html",
    ],
    [
      "a layer that is too large",
      ({ layers }) => Object.assign(layers[0] ?? {}, { size: 2 ** 40 }),
      "larger than 64 MiB",
    ],
    ["a plain image", (manifest) => void delete manifest["artifactType"], "not a module"],
    [
      "another module",
      (manifest) => Object.assign(manifest["annotations"] ?? {}, { "org.opencontainers.image.title": "db" }),
      'it is the module "db"',
    ],
    [
      "another version",
      (manifest) =>
        Object.assign(manifest["annotations"] ?? {}, { "org.opencontainers.image.version": "1.0.0" }),
      'its version is "1.0.0"',
    ],
    [
      "an index",
      (manifest) => Object.assign(manifest, { mediaType: "application/vnd.oci.image.index.v1+json" }),
      "not an image manifest",
    ],
  ])("is refused though it is signed: %s", async (_, change, message) => {
    const lab = await signedOther(change);
    await expect(lab.find()).rejects.toThrow(message);
  });

  it("a layer with other bytes is not unpacked", async () => {
    const lab = await registryLab({ hasReferrers: true });
    await lab.push();
    const { layer } = await lab.find();
    const bytes = Buffer.from(lab.registry.blobs.get(layer.digest) ?? "");
    bytes[20] = (bytes[20] ?? 0) ^ 1;
    lab.registry.blobs.set(layer.digest, bytes);
    await expect(lab.pull()).rejects.toThrow("other content");
    lab.registry.blobs.set(layer.digest, bytes.subarray(1));
    await expect(lab.pull()).rejects.toThrow("other content or another length");
    lab.registry.blobs.set(layer.digest, Buffer.concat([bytes, bytes]));
    await expect(lab.pull()).rejects.toThrow("other content or another length");
  });
});

describe("signatures that do not count", () => {
  const forms: [
    string,
    (lab: Lab, digest: string) => void,
    (lab: Lab, digest: string, other: string) => void,
  ][] = [
    ["bundle", removeSimple, useBundle],
    ["simple signing", removeBundles, useSimple],
  ];

  /** Offers the bundle of another digest for this one. */
  function useBundle({ registry }: Lab, digest: string, other: string): void {
    for (const { bytes, mediaType } of registry.manifests.values())
      if (bytes.toString().includes(other) && bytes.toString().includes("sigstore.bundle")) {
        const size = registry.manifests.get(`${REPOSITORY}@${digest}`)?.bytes.length ?? 0;
        const value = JSON.parse(bytes.toString()) as Record<string, unknown>;
        const changed = Buffer.from(JSON.stringify({ ...value, subject: { mediaType, digest, size } }));
        registry.manifests.set(`${REPOSITORY}@${sha256(changed)}`, { bytes: changed, mediaType });
      }
  }

  function useSimple({ registry }: Lab, digest: string, other: string): void {
    const stored = registry.manifests.get(`${REPOSITORY}@${simpleSigningTag(other)}`);
    if (stored !== undefined) registry.manifests.set(`${REPOSITORY}@${simpleSigningTag(digest)}`, stored);
  }

  it.each(forms)("a signature of another digest: %s", async (_, __, use) => {
    const lab = await registryLab({ hasReferrers: true });
    const other = await lab.push("1.0.0");
    const digest = await lab.push("1.4.2", { key: keyPair() });
    use(lab, digest, other);
    await expect(lab.find()).rejects.toThrow("it signs another digest");
  });

  it.each(forms)(
    "a list of signatures that cannot be read is no proof that there are none: %s",
    async (_, remove) => {
      const lab = await registryLab({ hasReferrers: false });
      const digest = await lab.push("1.4.2", { key: keyPair() });
      remove(lab, digest);
      const html = { bytes: Buffer.from("<html>"), mediaType: "text/html" };
      lab.registry.manifests.set(`${REPOSITORY}@${referrersTag(digest)}`, html);
      await expect(lab.find()).rejects.toThrow("cannot be verified now");
    },
  );

  it("an attestation of the same subject by the same key", async () => {
    const lab = await registryLab({ hasReferrers: true });
    const digest = await lab.push("1.4.2", { key: keyPair() });
    const by = { key: lab.key.privatePem, digest };
    const statement = (value: object): object => ({ ...value, predicateType: "https://spdx.dev/Document" });
    putBundle(lab.registry, by, { statement });
    await expect(lab.find()).rejects.toThrow("it is an attestation, not a signature");
    putBundle(lab.registry, by);
    expect((await lab.find()).verified?.form).toBe("bundle");
  });
});

describe("push", () => {
  it("makes the same artifact of the same files, on each machine", async () => {
    const [one, two] = await Promise.all([packDirectory(moduleDir()), packDirectory(moduleDir())]);
    expect(one.layer.equals(two.layer)).toBe(true);
    expect(one.diffId).toBe("sha256:437d123d8e340b879f57635b3d637307a4ea422ff0ab74c6ea2cfcf33ba0175f");
  });

  it("leaves .git out, and refuses names with control characters", async () => {
    const same = await packDirectory(moduleDir({ ...MODULE, ".git/config": "", "hooks/.GIT": "" }));
    expect(same.diffId).toBe((await packDirectory(moduleDir())).diffId);
    await expect(packDirectory(moduleDir({ ...MODULE, "templates/a\u001b[2J.yaml": "" }))).rejects.toThrow(
      "a\\u001b[2J.yaml: has a control character in its name",
    );
    await expect(packDirectory(moduleDir({ ...MODULE, "c:a": "" }))).rejects.toThrow(
      "c:a: has a name that begins as a drive does",
    );
  });

  it.each([
    [{ ".wh.a": "" }, ".wh.a: is a whiteout"],
    [{ "files/A": "", "files/a": "" }, "files/a: occurs twice"],
    [{ "a\\b": "" }, "has a character that is not allowed"],
  ])("does not pack what could not be unpacked: %j", async (files, message) => {
    await expect(packDirectory(moduleDir({ ...MODULE, ...files }))).rejects.toThrow(message);
  });

  it("repeats nothing, and replaces no version", async () => {
    const lab = await registryLab({ hasReferrers: true });
    const dir = moduleDir();
    await lab.push("1.4.2", { dir });
    const calls = lab.registry.calls.length;
    await lab.push("1.4.2", { dir });
    expect(lab.registry.calls.slice(calls).filter(({ line }) => line.startsWith("P"))).toEqual([]);
    await expect(
      lab.push("1.4.2", { dir: moduleDir({ ...MODULE, "values.yaml": "web: {}" }) }),
    ).rejects.toThrow("versions are not replaced");
  });

  it.each([
    ["the index", (line: string) => !line.endsWith(".sig"), false],
    ["the manifest", (line: string) => line.endsWith(".sig"), true],
  ])("says that %s of signatures cannot be read", async (_, isIt, hasReferrers) => {
    const lab = await registryLab({ hasReferrers });
    lab.registry.instead = (line) =>
      line.startsWith("GET") && line.includes("/manifests/sha256-") && isIt(line)
        ? { status: 200, body: "{" }
        : undefined;
    const error = await lab.push("1.4.2").catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(RegistryError);
    expect(String(error)).toMatch(/the tag sha256-.*, which has the signatures, cannot be read/);
  });

  it("names the version only when it is signed", async () => {
    const lab = await registryLab({ hasReferrers: true });
    await lab.push();
    const lines = lab.registry.calls.map(({ line }) => line).filter((line) => line.startsWith("PUT"));
    expect(lines.at(-1)).toBe(`PUT /v2/${REPOSITORY}/manifests/1.4.2`);
  });

  it("a channel is a tag that moves, and needs no key", async () => {
    const lab = await registryLab({ hasReferrers: true });
    await lab.push("1.0.0");
    const digest = await lab.push("1.4.2+build.5");
    await lab.tag("web:1.0.0", "stable");
    expect(await lab.find("web:stable")).toMatchObject({ version: "1.0.0" });
    await lab.tag("web:1.4.2_build.5", "stable");
    expect(await lab.find("web:stable")).toMatchObject({ version: "1.4.2+build.5", digest });
  });
});

describe("the registry", () => {
  it.each(["basic", "bearer"] as const)("is answered when it asks for %s credentials", async (auth) => {
    const lab = await registryLab({ auth, hasReferrers: true });
    await lab.push();
    await lab.find();
    const challenged = lab.registry.calls.filter(({ authorization }) => authorization === undefined);
    // A token is for one scope, reading or writing.
    expect(challenged).toHaveLength(auth === "basic" ? 1 : 2);
  });

  it("cannot name a token server on a private address", async () => {
    const lab = await registryLab({ auth: "bearer", realm: "http://169.254.169.254/token" });
    await expect(lab.push()).rejects.toThrow(
      "names the token server 169.254.169.254: the address is private",
    );
  });

  it("cannot redirect to a private address, and gets no credentials sent elsewhere", async () => {
    const lab = await registryLab({ hasReferrers: true });
    await lab.push();
    lab.registry.redirectTo = "http://169.254.169.254/latest";
    await expect(lab.find()).rejects.toThrow("leads to 169.254.169.254: the address is private");
  });

  it("is called again after transient failures, three times at most", async () => {
    const lab = await registryLab({ hasReferrers: true });
    await lab.push();
    lab.registry.failures = { status: 503, left: 2 };
    expect(await lab.find()).toMatchObject({ version: "1.4.2" });
    lab.registry.failures = { status: 503, left: 3 };
    await expect(lab.find()).rejects.toThrow("GET /v2/modules/web/manifests/1.4.2: 503");
    lab.registry.failures = { status: 429, left: 1, retryAfter: "3600" };
    await expect(lab.find()).rejects.toThrow("429; the registry limits requests");
  });

  it("may cut a blob: nothing is unpacked", async () => {
    const lab = await registryLab({ hasReferrers: true });
    await lab.push();
    const found = await lab.find();
    lab.registry.cutAfter = 10;
    const { unpackModule } = await import("../../../../src/sources/registry/index.ts");
    const { tempDir } = await import("./lab.ts");
    const dir = join(tempDir(), "web");
    await expect(unpackModule(lab.place("web").repository, found, dir)).rejects.toThrow("other side closed");
    expect(statSync(dir, { throwIfNoEntry: false })).toBeUndefined();
  });

  it("is asked five times for a module that is signed with a bundle", async () => {
    const lab = await registryLab({ hasReferrers: true });
    await lab.push();
    const before = lab.registry.calls.length;
    await lab.pull();
    expect(lab.registry.calls.length - before).toBe(5);
  });
});
