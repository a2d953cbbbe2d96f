import { readFileSync } from "node:fs";
import { expect, it } from "vitest";

import { bundleSigner, simpleSigner } from "../../../src/registry/cosign/formats.ts";
import { readPublicKeys } from "../../../src/registry/cosign/keys.ts";

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

it("accepts both forms of cosign's signatures, for their own digests only", () => {
  const { bundle, simple } = stored;
  const signature = { payload: Buffer.from(simple.payload), signature: simple.signature };
  expect(bundleSigner(keys, bundle.digest, Buffer.from(bundle.text)).source).toBe("cosign.pub");
  expect(simpleSigner(keys, simple.digest, signature).source).toBe("cosign.pub");
  expect(() => bundleSigner(keys, simple.digest, Buffer.from(bundle.text))).toThrow("another digest");
  expect(() => simpleSigner(keys, bundle.digest, signature)).toThrow("another digest");
});

it("takes no attestation by cosign for a signature", () => {
  const { digest, text } = stored.attestation;
  expect(() => bundleSigner(keys, digest, Buffer.from(text))).toThrow("it is an attestation");
});
