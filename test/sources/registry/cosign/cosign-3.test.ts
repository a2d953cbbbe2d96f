import { readFileSync } from "node:fs";
import { expect, it } from "vitest";

import { verifyBundle, verifySimpleSigning } from "../../../../src/sources/registry/cosign/formats.ts";
import { readPublicKeys } from "../../../../src/sources/registry/cosign/keys.ts";

interface Signed {
  readonly digest: string;
  readonly text: string;
}

/** What cosign 3 has stored in a registry. */
const stored = JSON.parse(readFileSync(new URL("cosign-3.json", import.meta.url), "utf8")) as {
  readonly publicKey: string;
  readonly bundle: Signed;
  readonly attestation: Signed;
  readonly simple: { readonly digest: string; readonly payload: string; readonly signature: string };
};
const keys = readPublicKeys(stored.publicKey, "cosign.pub");

it("accepts both forms of cosign's signatures, for their own digests only", async () => {
  const { bundle, simple } = stored;
  const annotations = { "dev.cosignproject.cosign/signature": simple.signature };
  const signature = { payload: Buffer.from(simple.payload), annotations };
  const text = Buffer.from(bundle.text);
  const signer = { source: "cosign.pub" };
  expect(await verifyBundle(keys, bundle.digest, text)).toMatchObject(signer);
  expect(await verifySimpleSigning(keys, simple.digest, signature)).toMatchObject(signer);
  await expect(verifyBundle(keys, simple.digest, text)).rejects.toThrow("another digest");
  await expect(verifySimpleSigning(keys, bundle.digest, signature)).rejects.toThrow("another digest");
});

it("takes no attestation by cosign for a signature", async () => {
  const { digest, text } = stored.attestation;
  await expect(verifyBundle(keys, digest, Buffer.from(text))).rejects.toThrow("it is an attestation");
});
