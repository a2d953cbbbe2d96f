import { expect, it, vi } from "vitest";

import { systemClock, threadCpuMs } from "../../../../src/base/index.ts";
import { parseJsonObject } from "../../../../src/sources/registry/manifest.ts";
import { sha256 } from "../../../support/registry.ts";
import { putBundle, REPOSITORY } from "../artifact/forge.ts";
import { keyPair, registryLab, type Lab } from "../artifact/lab.ts";

it("a search for signatures that takes too long is given up, and is no proof that there is none", async () => {
  const lab = await registryLab({ hasReferrers: true });
  const digest = await lab.push("1.4.2");
  lab.registry.manifests.delete(`${REPOSITORY}@${digest.replace(":", "-")}.sig`);
  expect(await lab.find()).toBeDefined();
  for (const key of lab.registry.manifests.keys())
    if (key !== `${REPOSITORY}@${digest}` && key !== `${REPOSITORY}@1.4.2`)
      lab.registry.manifests.delete(key);
  for (let index = 0; index < 9; index += 1) putBundle(lab.registry, { key: keyPair().privatePem, digest });
  let now = 0;
  using clock = vi.spyOn(systemClock, "monotonic").mockImplementation(() => (now += 30_000));
  const before = lab.registry.calls.length;
  await expect(lab.find()).rejects.toThrow(/cannot be verified now: .*the search takes too long/);
  expect(clock).toHaveBeenCalled();
  expect(lab.registry.calls.length - before).toBeLessThan(10);
});

const INDEX = { "content-type": "application/vnd.oci.image.index.v1+json" };
const indexOf = (manifests: readonly object[]) => ({
  status: 200,
  headers: INDEX,
  body: JSON.stringify({ schemaVersion: 2, mediaType: INDEX["content-type"], manifests }),
});

/** A module that is signed by a bundle only, and the descriptor of the bundle's manifest. */
async function signedByBundle(): Promise<{ lab: Lab; digest: string; bundle: object }> {
  const lab = await registryLab({ hasReferrers: true });
  const digest = await lab.push("1.4.2");
  lab.registry.manifests.delete(`${REPOSITORY}@${digest.replace(":", "-")}.sig`);
  const found = [...lab.registry.manifests].find(([, { bytes }]) => bytes.includes('"subject"'));
  const [key = "", { bytes, mediaType } = { bytes: Buffer.alloc(0), mediaType: "" }] = found ?? [];
  return { lab, digest, bundle: { mediaType, digest: key.split("@")[1], size: bytes.length } };
}

const BUNDLE = "application/vnd.dev.sigstore.bundle.v0.3+json";
const others = (count: number, more: object): object[] =>
  Array.from({ length: count }, (_, index) => ({
    mediaType: "application/vnd.oci.image.manifest.v1+json",
    digest: sha256(String(index)),
    size: 5,
    ...more,
  }));

it.each<[string, object]>([
  ["SBOMs", { artifactType: "application/spdx+json" }],
  [
    "attestations",
    {
      artifactType: BUNDLE,
      annotations: { "dev.sigstore.bundle.predicateType": "https://slsa.dev/provenance/v1" },
    },
  ],
])("a signature behind many %s is found", async (_, more) => {
  const { lab, bundle } = await signedByBundle();
  lab.registry.instead = (line) =>
    line.includes("/referrers/")
      ? indexOf([...others(1500, more), { ...bundle, artifactType: BUNDLE }])
      : undefined;
  expect((await lab.find()).verified).toMatchObject({ form: "bundle" });
  lab.registry.instead = (line) => (line.includes("/referrers/") ? indexOf(others(1500, more)) : undefined);
  await expect(lab.find()).rejects.toThrow(
    /referrers: 1500, but no signature; tag .*: none; tag .*\.sig: none$/,
  );
});

it("of many signatures, only some are read, and the error says so", async () => {
  const { lab } = await signedByBundle();
  lab.registry.instead = (line) =>
    line.includes("/referrers/") ? indexOf(others(60, { artifactType: BUNDLE })) : undefined;
  await expect(lab.find()).rejects.toThrow("referrers: 60 signatures, of which only 50 are read");
});

it.each<[string, { status: number; headers?: Record<string, string>; body?: string }]>([
  ["an empty list", indexOf([])],
  ["403", { status: 403 }],
  ["500", { status: 500 }],
  ["404", { status: 404 }],
  ["a page", { status: 200, headers: { "content-type": "text/html" }, body: "<html>" }],
])("a signature under the tag is found where the referrers API answers %s", async (_, answer) => {
  const { lab, digest, bundle } = await signedByBundle();
  lab.registry.instead = (line) => {
    if (line.includes("/referrers/")) return answer;
    return line.endsWith(digest.replace(":", "-")) ? indexOf([bundle]) : undefined;
  };
  expect((await lab.find()).verified).toMatchObject({ form: "bundle" });
});

it("a megabyte of brackets in place of a signature costs no time", () => {
  const half = 500_000;
  const deep = Buffer.from(`${"[".repeat(half)}${"]".repeat(half)}`);
  const wide = Buffer.from(`{"a":[${"[],".repeat(300_000)}1]}`);
  for (const bytes of [deep, wide, Buffer.from(`{"a":${deep.toString()}}`)]) {
    const start = threadCpuMs();
    expect(() => parseJsonObject(bytes)).toThrow(/more than|deeper/);
    expect(threadCpuMs() - start).toBeLessThan(50);
  }
  expect(parseJsonObject(Buffer.from(`{"a":"\\"${"[".repeat(1000)}"}`))).toBeDefined();
});
