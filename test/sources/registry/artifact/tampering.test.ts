/** A module that somebody has tampered with on the registry: whatever it is, nothing of it is unpacked. */

import { createHash, generateKeyPairSync, sign } from "node:crypto";
import { readdirSync } from "node:fs";
import { dirname, join } from "node:path";
import { Unpack } from "tar";
import { afterEach, beforeEach, describe, expect, it, vi, type MockInstance } from "vitest";

import { referrersTag, simpleSigningTag } from "../../../../src/sources/registry/cosign/verify.ts";
import { readIdentity, readTrustedRoot, unpackModule } from "../../../../src/sources/registry/index.ts";
import { putManifest, sha256, type FakeRegistry } from "../../../support/registry.ts";
import {
  BUNDLE,
  encoded,
  putBundle,
  putSimple,
  REPOSITORY,
  SIMPLE,
  type BundleChanges,
  type By,
  type SimpleChanges,
} from "./forge.ts";
import { ISSUER, ownSigstore, SUBJECT } from "../cosign/own-sigstore.ts";
import { keyPair, MODULE, moduleDir, registryLab, tempDir, type Lab } from "./lab.ts";

/** Calls that unpack something. */
let unpacked: MockInstance;
beforeEach(() => void (unpacked = vi.spyOn(Unpack.prototype, "write")));
afterEach(() => unpacked.mockRestore());

type Form = "bundle" | "simple signing";
type Members = Record<string, unknown>;
type Manifest = Members & { layers: Members[]; annotations: Members };

/** A module on a registry with one signature, in one of the forms. */
interface Scene {
  readonly lab: Lab;
  readonly registry: FakeRegistry;
  readonly form: Form;
  readonly digest: string;
  readonly layer: string;
  /** Who has signed. */
  readonly by: By;
  /** Signs a digest in the form of this scene. */
  readonly sign: (digest: string, key?: By) => void;
}

/** Makes certificates of one identity count, and no key. */
function trustIdentity(lab: Lab): By {
  const sigstore = ownSigstore();
  const root = readTrustedRoot(sigstore.trustedRoot(), "trusted_root.json");
  const text = `issuer: ${ISSUER}\nsubject: ${SUBJECT}\n`;
  lab.signers = [readIdentity(text, "ci.identity", root)];
  return { sigstore };
}

async function scene(form: Form, hasReferrers: boolean, signer: "key" | "identity" = "key"): Promise<Scene> {
  const lab = await registryLab({ hasReferrers });
  const by = signer === "key" ? lab.key.privatePem : trustIdentity(lab);
  const digest = await lab.push("1.4.2", { key: "none" });
  const { registry } = lab;
  const manifest = JSON.parse(
    registry.manifests.get(`${REPOSITORY}@1.4.2`)?.bytes.toString() ?? "",
  ) as Manifest;
  const put = form === "bundle" ? putBundle : putSimple;
  const signed = (which: string, key = by): void => put(registry, { key, digest: which });
  signed(digest);
  return { lab, registry, form, by, digest, layer: String(manifest.layers[0]?.["digest"]), sign: signed };
}

/** Pulls, and shows that a refusal leaves nothing behind and comes before anything is unpacked. */
async function expectRefused(lab: Lab, message: RegExp | string, reference = "web:1.4.2"): Promise<void> {
  const dir = join(tempDir(), "web");
  const pull = async (): Promise<void> => {
    const found = await lab.find(reference);
    await unpackModule(lab.place(reference).repository, found, dir);
  };
  await expect(pull()).rejects.toThrow(message);
  expect(unpacked).not.toHaveBeenCalled();
  expect(readdirSync(dirname(dir))).toEqual([]);
}

function changeBlob(
  registry: FakeRegistry,
  digest: string,
  change: (bytes: Buffer) => Buffer | undefined,
): void {
  const bytes = Buffer.from(registry.blobs.get(digest) ?? "");
  registry.blobs.set(digest, change(bytes) ?? bytes);
}

/** Changes the lowest bit of the byte at this part of the whole, from 0 to 1. */
const flip =
  (where: number) =>
  (bytes: Buffer): undefined => {
    const at = Math.round((bytes.length - 1) * where);
    bytes[at] = (bytes[at] ?? 0) ^ 1;
  };

/** The digest of the blob that has the signature, or what it signs. */
function signatureBlob({ registry, form }: Scene): string {
  const word = form === "bundle" ? "dsseEnvelope" : "docker-manifest-digest";
  const found = [...registry.blobs].find(([, bytes]) => bytes.includes(word));
  if (found === undefined) throw new Error("no signature");
  return found[0];
}

/** Replaces the list of signatures, or the manifest of simple signing. */
function replaceList(
  { registry, form, digest }: Scene,
  bytes: Buffer,
  mediaType = "application/vnd.oci.image.index.v1+json",
): void {
  for (const [key, stored] of registry.manifests)
    if (stored.bytes.includes(BUNDLE)) registry.manifests.delete(key);
  const tag = form === "bundle" ? referrersTag(digest) : simpleSigningTag(digest);
  putManifest(registry, `${REPOSITORY}@${tag}`, { bytes, mediaType });
}

function removeSignatures(here: Scene): void {
  const { registry, digest } = here;
  replaceList(here, Buffer.from("{}"));
  for (const tag of [referrersTag(digest), simpleSigningTag(digest)])
    registry.manifests.delete(`${REPOSITORY}@${tag}`);
}

/** Changes the artifact and signs the change. */
function signChanged({ registry, sign: signed }: Scene, change: (manifest: Manifest) => void): void {
  signed(registry.replace(REPOSITORY, "1.4.2", (manifest) => change(manifest as Manifest)));
}

const OTHER_CONTENT = "other content or another length";
const UNSIGNED = "has no valid signature";
const FOREIGN = "not by one of the keys";
const FORMS = ["bundle", "simple signing"] as const;
const EVERYWHERE = FORMS.flatMap((form) => [
  ["key", form, true] as const,
  ["key", form, false] as const,
  ["identity", form, true] as const,
]);

describe.each(EVERYWHERE)(
  "signed by a(n) %s as %s, with the referrers API: %s",
  (signer, form, hasReferrers) => {
    it("without tampering it is unpacked", async () => {
      const { lab } = await scene(form, hasReferrers, signer);
      expect((await lab.find()).verified?.form).toBe(form);
      await lab.pull();
      expect(unpacked).toHaveBeenCalled();
    });

    it.each<[string, (here: Scene) => void | Promise<void>, string | RegExp]>([
      [
        "the first bit of the layer",
        ({ registry, layer }) => changeBlob(registry, layer, flip(0)),
        OTHER_CONTENT,
      ],
      ["a bit of the layer", ({ registry, layer }) => changeBlob(registry, layer, flip(0.5)), OTHER_CONTENT],
      [
        "the last bit of the layer",
        ({ registry, layer }) => changeBlob(registry, layer, flip(1)),
        OTHER_CONTENT,
      ],
      [
        "a layer that is cut",
        ({ registry, layer }) => changeBlob(registry, layer, (bytes) => bytes.subarray(0, -1)),
        OTHER_CONTENT,
      ],
      [
        "an empty layer",
        ({ registry, layer }) => changeBlob(registry, layer, () => Buffer.alloc(0)),
        OTHER_CONTENT,
      ],
      [
        "a layer that goes on",
        ({ registry, layer }) => changeBlob(registry, layer, (bytes) => Buffer.concat([bytes, bytes])),
        OTHER_CONTENT,
      ],
      ["no layer", ({ registry, layer }) => void registry.blobs.delete(layer), "404"],
      [
        "the layer of another module",
        async ({ lab, registry, layer }) => {
          const dir = moduleDir({ ...MODULE, "hooks/evil.sh": "#!/bin/sh\n" });
          const other = await lab.push("6.6.6", { dir, key: "none" });
          const manifest = registry.manifests.get(`${REPOSITORY}@${other}`)?.bytes.toString() ?? "";
          const bytes = registry.blobs.get(
            (JSON.parse(manifest) as Manifest).layers[0]?.["digest"] as string,
          );
          registry.blobs.set(layer, bytes ?? Buffer.alloc(0));
        },
        OTHER_CONTENT,
      ],
      [
        "another layer in the manifest",
        ({ registry }) =>
          void registry.replace(REPOSITORY, "1.4.2", (manifest) =>
            Object.assign((manifest as Manifest).layers[0] ?? {}, { digest: sha256("x") }),
          ),
        UNSIGNED,
      ],
      [
        "another size in the manifest",
        ({ registry }) =>
          void registry.replace(REPOSITORY, "1.4.2", (manifest) =>
            Object.assign((manifest as Manifest).layers[0] ?? {}, { size: 1 }),
          ),
        UNSIGNED,
      ],
      [
        "another version in the manifest",
        ({ registry }) =>
          void registry.replace(REPOSITORY, "1.4.2", (manifest) =>
            Object.assign((manifest as Manifest).annotations, {
              "org.opencontainers.image.version": "1.4.3",
            }),
          ),
        UNSIGNED,
      ],
      [
        "one more space in the manifest",
        ({ registry }) => {
          const { bytes, mediaType } = registry.manifests.get(`${REPOSITORY}@1.4.2`) ?? {};
          const spaced = Buffer.from(`${bytes?.toString()} `);
          putManifest(registry, `${REPOSITORY}@1.4.2`, { bytes: spaced, mediaType: mediaType ?? "" });
        },
        UNSIGNED,
      ],
      [
        "a header that names the signed digest, with another manifest",
        ({ registry, digest }) => {
          registry.digestHeader = digest;
          registry.replace(REPOSITORY, "1.4.2", (manifest) => Object.assign(manifest, { extra: 1 }));
        },
        UNSIGNED,
      ],
      [
        "no signature",
        removeSignatures,
        `${UNSIGNED} by (?:key0.pub|ci.identity): referrers: none; tag sha256-.*sig: none`,
      ],
      [
        "a signature by another key",
        (here) => {
          removeSignatures(here);
          here.sign(here.digest, keyPair().privatePem);
        },
        FOREIGN,
      ],
      [
        "a signature by a key of another type",
        (here) => {
          removeSignatures(here);
          const { privateKey } = generateKeyPairSync("rsa", { modulusLength: 2048 });
          here.sign(here.digest, privateKey.export({ type: "pkcs8", format: "pem" }).toString());
        },
        FOREIGN,
      ],
      [
        "a signature with one other bit",
        (here) => {
          removeSignatures(here);
          const { registry, digest } = here;
          const wrong = (value: unknown): string => {
            const bytes = Buffer.from(String(value), "base64");
            flip(0.7)(bytes);
            return bytes.toString("base64");
          };
          const by = { key: here.by, digest };
          putBundle(registry, by, {
            envelope: (value) => ({
              ...value,
              signatures: (value["signatures"] as { sig: string }[]).map(({ sig }) => ({ sig: wrong(sig) })),
            }),
          });
          putSimple(registry, by, {
            layer: (value) => ({
              ...value,
              annotations: Object.fromEntries(
                Object.entries(value["annotations"] ?? {}).map(([name, each]) => [
                  name,
                  name.endsWith("/signature") ? wrong(each) : each,
                ]),
              ),
            }),
          });
        },
        /not by one of the keys|signature mismatch/,
      ],
      [
        "a bit of what is signed",
        (here) => changeBlob(here.registry, signatureBlob(here), flip(0.5)),
        /cannot be verified now: .*other content/,
      ],
      [
        "a signature that is missing",
        (here) => void here.registry.blobs.delete(signatureBlob(here)),
        "cannot be verified now",
      ],
      [
        "a signature of another digest",
        (here) => {
          removeSignatures(here);
          const { registry, digest } = here;
          const other = { key: here.by, digest: sha256("another") };
          putSimple(registry, other);
          const simple = registry.manifests.get(`${REPOSITORY}@${simpleSigningTag(other.digest)}`);
          if (simple !== undefined)
            registry.manifests.set(`${REPOSITORY}@${simpleSigningTag(digest)}`, simple);
          const hex = other.digest.slice("sha256:".length);
          const by = { key: here.by, digest };
          putBundle(registry, by, {
            statement: (value) => ({ ...value, subject: [{ digest: { sha256: hex } }] }),
          });
        },
        "it signs another digest",
      ],
      [
        "an empty list of signatures",
        (here) => replaceList(here, Buffer.from('{"manifests":[],"layers":[]}')),
        /it has|none/,
      ],
      [
        "a list of signatures that is a page",
        (here) => replaceList(here, Buffer.from("<html>")),
        /Unexpected token|none/,
      ],
      [
        "a list of signatures that is a list",
        (here) => replaceList(here, Buffer.from("[]")),
        /not a JSON object|none/,
      ],
      [
        "a list of signatures that is nested too deeply",
        (here) =>
          replaceList(here, Buffer.from(`{"manifests":${"[".repeat(9999)}${"]".repeat(9999)},"layers":[]}`)),
        /nested|deep|none/,
      ],
      [
        "a list of 10,000 signatures",
        (here) => {
          const each = { mediaType: SIMPLE, digest: sha256("none"), size: 4 };
          const many = Array.from({ length: 10_000 }, () => each);
          replaceList(here, Buffer.from(JSON.stringify({ manifests: many, layers: many })));
        },
        /missing|longer than|none/,
      ],
      [
        "an older signed version under the tag of this one",
        async ({ lab, registry, sign: signed }) => {
          const old = await lab.push("1.0.0", { key: "none" });
          signed(old);
          const stored = registry.manifests.get(`${REPOSITORY}@${old}`);
          if (stored !== undefined) registry.manifests.set(`${REPOSITORY}@1.4.2`, stored);
        },
        'its version is "1.0.0", not "1.4.2"',
      ],
      [
        "another signed module under this name",
        async ({ lab, registry, sign: signed }) => {
          registry.manifests.delete(`${REPOSITORY}@1.4.2`);
          signed(await lab.push("1.4.2", { key: "none", name: "db" }));
        },
        'it is the module "db", not "web"',
      ],
      [
        "a page in place of the manifest",
        ({ registry }) =>
          void putManifest(registry, `${REPOSITORY}@1.4.2`, {
            bytes: Buffer.from("<html>"),
            mediaType: "text/html",
          }),
        "1.4.2 is answered with text/html, not with a manifest",
      ],
    ])("refuses %s", async (_, tamper, message) => {
      const here = await scene(form, hasReferrers, signer);
      await tamper(here);
      await expectRefused(here.lab, typeof message === "string" ? new RegExp(message) : message);
    });

    it("refuses a manifest that has another digest than the one it is asked for by", async () => {
      const { lab, registry, digest } = await scene(form, hasReferrers, signer);
      const key = `${REPOSITORY}@${digest}`;
      const { bytes = Buffer.alloc(0), mediaType = "" } = registry.manifests.get(key) ?? {};
      registry.manifests.set(key, { bytes: Buffer.from(`${bytes.toString()} `), mediaType });
      await expectRefused(lab, "has other content", `web@${digest}`);
    });
  },
);

describe.each(FORMS)("signed by %s, though it must not be accepted", (form) => {
  it.each<[string, (manifest: Manifest) => void, string]>([
    ["two layers", ({ layers }) => void layers.push(layers[0] ?? {}), "it has 2 layers"],
    ["no layer", ({ layers }) => void layers.splice(0), "it has 0 layers"],
    [
      "a layer of another type",
      ({ layers }) => Object.assign(layers[0] ?? {}, { mediaType: "text/html" }),
      "text/html",
    ],
    [
      "a layer of 1 TiB",
      ({ layers }) => Object.assign(layers[0] ?? {}, { size: 2 ** 40 }),
      "larger than 64 MiB",
    ],
    [
      "a layer of less than nothing",
      ({ layers }) => Object.assign(layers[0] ?? {}, { size: -1 }),
      "without size",
    ],
    [
      "a layer that is shorter than its size",
      ({ layers }) => Object.assign(layers[0] ?? {}, { size: 5000 }),
      OTHER_CONTENT,
    ],
    [
      "a layer that is longer than its size",
      ({ layers }) => Object.assign(layers[0] ?? {}, { size: 5 }),
      OTHER_CONTENT,
    ],
    [
      "a layer with a weak digest",
      ({ layers }) => Object.assign(layers[0] ?? {}, { digest: "md5:0" }),
      "without sha256 digest",
    ],
    ["layers that are no list", (manifest) => Object.assign(manifest, { layers: {} }), "has no layers"],
    ["a plain image", (manifest) => void delete manifest["artifactType"], "not a module"],
    [
      "an index",
      (manifest) => Object.assign(manifest, { mediaType: "application/vnd.oci.image.index.v1+json" }),
      "not an image manifest",
    ],
    [
      "no name",
      ({ annotations }) => void delete annotations["org.opencontainers.image.title"],
      'it is the module ""',
    ],
    [
      "a name that is a list",
      ({ annotations }) => Object.assign(annotations, { "org.opencontainers.image.title": ["web"] }),
      'it is the module ""',
    ],
    [
      "another name",
      ({ annotations }) => Object.assign(annotations, { "org.opencontainers.image.title": "web2" }),
      'it is the module "web2"',
    ],
    [
      "another version",
      ({ annotations }) => Object.assign(annotations, { "org.opencontainers.image.version": "1.4.20" }),
      'its version is "1.4.20"',
    ],
  ])("refuses %s", async (_, change, message) => {
    const here = await scene(form, true);
    signChanged(here, change);
    await expectRefused(here.lab, message);
  });
});

describe("a bundle that does not count", () => {
  const signatures = (value: Members): unknown[] => value["signatures"] as unknown[];
  it.each<[string, BundleChanges, string]>([
    [
      "an SBOM",
      { statement: (value) => ({ ...value, predicateType: "https://spdx.dev/Document" }) },
      "it is an attestation",
    ],
    [
      "no predicate type",
      { statement: ({ predicateType: _predicateType, ...value }) => value },
      "it is an attestation",
    ],
    [
      "another statement",
      { statement: (value) => ({ ...value, _type: "https://example.com/v1" }) },
      "no in-toto statement",
    ],
    ["no statement", { statement: () => "text" }, "Unexpected token"],
    ["no subject", { statement: (value) => ({ ...value, subject: [] }) }, "it signs another digest"],
    [
      "a subject with another kind of digest",
      { statement: (value) => ({ ...value, subject: [{ digest: { sha512: "0" } }] }) },
      "it signs another digest",
    ],
    [
      "a subject in capital letters",
      {
        statement: (value) => ({
          ...value,
          subject: (value["subject"] as { digest: { sha256: string } }[]).map(({ digest }) => ({
            digest: { sha256: digest.sha256.toUpperCase() },
          })),
        }),
      },
      "it signs another digest",
    ],
    ["a payload that is signed as it is", { signed: (payload) => payload }, FOREIGN],
    [
      "a payload that is signed as another type",
      { signed: (payload) => encoded(payload, "text/plain") },
      FOREIGN,
    ],
    [
      "another type of payload",
      { envelope: (value) => ({ ...value, payloadType: "text/plain" }) },
      "its payload has another type",
    ],
    [
      "a payload of 64 KiB",
      { statement: (value) => ({ ...value, filler: "x".repeat(65_536) }) },
      "its payload is too long",
    ],
    ["no signature", { envelope: (value) => ({ ...value, signatures: [] }) }, "it has 0 signatures"],
    [
      "two signatures",
      { envelope: (value) => ({ ...value, signatures: [...signatures(value), ...signatures(value)] }) },
      "it has 2 signatures",
    ],
    ["an empty signature", { envelope: (value) => ({ ...value, signatures: [{ sig: "" }] }) }, FOREIGN],
    [
      "a signature that is a number",
      { envelope: (value) => ({ ...value, signatures: [{ sig: 7 }] }) },
      FOREIGN,
    ],
    [
      "no envelope",
      { bundle: ({ dsseEnvelope: _dsseEnvelope, ...value }) => ({ ...value, messageSignature: {} }) },
      "it has 0 signatures",
    ],
    [
      "a bundle of an old version",
      { bundle: (value) => ({ ...value, mediaType: `${BUNDLE.slice(0, -8)}.1+json` }) },
      "another version",
    ],
    ["a bundle that is no JSON", { bundle: () => "<html>" }, "Unexpected token"],
    ["a bundle that is a list", { bundle: () => "[]" }, "not a JSON object"],
    [
      "a bundle of 1 MiB",
      { bundle: (value) => ({ ...value, filler: "x".repeat(2 ** 20) }) },
      "its bundle is too large",
    ],
    [
      "a manifest for another digest",
      {
        manifest: (value) => ({
          ...value,
          subject: { ...(value["subject"] as object), digest: sha256("x") },
        }),
      },
      "it is for another digest",
    ],
    [
      "a manifest for none",
      { manifest: ({ subject: _subject, ...value }) => value },
      "it is for another digest",
    ],
    [
      "a manifest of another kind",
      {
        manifest: (value) => ({
          ...value,
          artifactType: "a/b",
          layers: [{ ...(value["layers"] as object[])[0], mediaType: "a/b" }],
        }),
      },
      "it is no signature",
    ],
    [
      "a manifest with two bundles",
      {
        manifest: (value) => ({
          ...value,
          layers: [...(value["layers"] as object[]), ...(value["layers"] as object[])],
        }),
      },
      "it has 2 layers",
    ],
    [
      "a manifest of 64 KiB",
      { manifest: (value) => ({ ...value, filler: "x".repeat(65_536) }) },
      "its manifest is too large",
    ],
  ])("is %s", async (_, changes, message) => {
    const lab = await registryLab({ hasReferrers: false });
    const digest = await lab.push("1.4.2", { key: "none" });
    putBundle(lab.registry, { key: lab.key.privatePem, digest }, changes);
    await expectRefused(lab, message);
  });

  it("is one by another key that names a known key", async () => {
    const lab = await registryLab({ hasReferrers: true });
    const digest = await lab.push("1.4.2", { key: "none" });
    const der = Buffer.from(lab.key.publicPem.replace(/-----.*-----|\n/g, ""), "base64");
    const hint = createHash("sha256").update(der).digest("base64");
    putBundle(
      lab.registry,
      { key: keyPair().privatePem, digest },
      {
        bundle: (value) => ({ ...value, verificationMaterial: { publicKey: { hint } } }),
      },
    );
    await expectRefused(lab, new RegExp(`key ${hint.replaceAll("+", "\\+")}\\): it is ${FOREIGN}`));
  });

  it("is one whose manifest has other content than its digest", async () => {
    const here = await scene("bundle", false);
    for (const [key, { bytes, mediaType }] of here.registry.manifests)
      if (key.includes("@sha256:") && bytes.includes(BUNDLE))
        here.registry.manifests.set(key, { bytes: Buffer.from(`${bytes.toString()} `), mediaType });
    await expectRefused(here.lab, /cannot be verified now: .*has other content/);
  });
});

describe("simple signing that does not count", () => {
  const critical = (value: Members): Members => value["critical"] as Members;
  it.each<[string, SimpleChanges, string]>([
    [
      "one of another type",
      { payload: (value) => ({ critical: { ...critical(value), type: "atomic container signature" } }) },
      "another type",
    ],
    [
      "one without type",
      { payload: (value) => ({ critical: { image: critical(value)["image"] } }) },
      "another type",
    ],
    [
      "one without digest",
      { payload: (value) => ({ critical: { ...critical(value), image: {} } }) },
      "it signs another digest",
    ],
    [
      "one that spells the digest's name otherwise",
      {
        payload: (value) => {
          const image = critical(value)["image"] as Members;
          return {
            critical: {
              ...critical(value),
              image: {
                "Docker-manifest-digest": image["docker-manifest-digest"],
                "docker-manifest-digest": sha256("x"),
              },
            },
          };
        },
      },
      "it signs another digest",
    ],
    ["one without content", { payload: () => ({}) }, "another type"],
    ["one that is no JSON", { payload: () => "text" }, "Unexpected token"],
    ["one that is a list", { payload: () => "[]" }, "not a JSON object"],
    [
      "one of 64 KiB",
      { payload: (value) => ({ ...value, optional: "x".repeat(65_536) }) },
      "its payload is too large",
    ],
    [
      "one without signature",
      { layer: ({ annotations: _annotations, ...value }) => value },
      "it has no signature",
    ],
    [
      "one with an empty signature",
      { layer: (value) => ({ ...value, annotations: { "dev.cosignproject.cosign/signature": "" } }) },
      FOREIGN,
    ],
    [
      "one with a signature that is a list",
      { layer: (value) => ({ ...value, annotations: { "dev.cosignproject.cosign/signature": [] } }) },
      "it has no signature",
    ],
    [
      "one in a layer of another type",
      { layer: (value) => ({ ...value, mediaType: "text/plain" }) },
      "it has no signature",
    ],
    ["one of another length", { layer: (value) => ({ ...value, size: 3 }) }, "cannot be verified now"],
    [
      "one in a manifest that is an index",
      { manifest: (value) => ({ ...value, mediaType: "application/vnd.oci.image.index.v1+json" }) },
      "not an image manifest",
    ],
    [
      "one in a manifest of 64 KiB",
      { manifest: (value) => ({ ...value, filler: "x".repeat(65_536) }) },
      "longer than 65536 bytes",
    ],
  ])("is %s", async (_, changes, message) => {
    const lab = await registryLab({ hasReferrers: true });
    const digest = await lab.push("1.4.2", { key: "none" });
    putSimple(lab.registry, { key: lab.key.privatePem, digest }, changes);
    await expectRefused(lab, message);
  });

  it("is one over the digest alone", async () => {
    const lab = await registryLab({ hasReferrers: true });
    const digest = await lab.push("1.4.2", { key: "none" });
    const bytes = sign("sha256", Buffer.from(digest), lab.key.privatePem).toString("base64");
    const annotations = { "dev.cosignproject.cosign/signature": bytes };
    putSimple(
      lab.registry,
      { key: lab.key.privatePem, digest },
      { layer: (value) => ({ ...value, annotations }) },
    );
    await expectRefused(lab, FOREIGN);
  });
});
