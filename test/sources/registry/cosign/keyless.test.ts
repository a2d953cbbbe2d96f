import { expect, it, describe } from "vitest";

import {
  findModuleArtifact,
  readIdentity,
  readTrustedRoot,
  type FoundModule,
} from "../../../../src/sources/registry/index.ts";
import { putBundle, putSimple, type BundleChanges } from "../artifact/forge.ts";
import { registryLab } from "../artifact/lab.ts";
import { ISSUER, ownSigstore, SIGNED_AT, SUBJECT, type Ask, type OwnSigstore } from "./own-sigstore.ts";

type Form = "bundle" | "simple signing";
const FORMS: readonly Form[] = ["bundle", "simple signing"];
const IDENTITY = `issuer: ${ISSUER}\nsubject: ${SUBJECT}\n`;
const HOUR = 3_600_000;

interface Case {
  readonly ask?: Ask;
  readonly identity?: string;
  /** Who signs; by default an authority that is trusted. */
  readonly by?: OwnSigstore;
  readonly trusted?: OwnSigstore;
  readonly root?: Parameters<OwnSigstore["trustedRoot"]>[0];
  readonly changes?: BundleChanges;
}

/** Signs a module in a form, and looks for it. */
async function find(
  form: Form,
  { ask = {}, identity = IDENTITY, changes, ...given }: Case,
): Promise<FoundModule> {
  const trusted = given.trusted ?? ownSigstore();
  const lab = await registryLab({ hasReferrers: true });
  const digest = await lab.push("1.4.2", { key: "none" });
  const signing = { key: { sigstore: given.by ?? trusted, ask }, digest };
  if (form === "bundle") putBundle(lab.registry, signing, changes);
  else putSimple(lab.registry, signing);
  const root = readTrustedRoot(trusted.trustedRoot(given.root), "trusted_root.json");
  return findModuleArtifact(lab.place("web:1.4.2"), [readIdentity(identity, "ci.identity", root)]);
}

describe.each(FORMS)("%s with a certificate", (form) => {
  it.each<[string, Case]>([
    ["the exact identity", {}],
    [
      "a pattern of the identity",
      {
        identity:
          "issuerPattern: https://.*\\.example\\.com\nsubjectPattern: https://git\\.example\\.com/platform/.*\n",
      },
    ],
    ["a timestamp besides the log", { ask: { stamped: true }, trusted: ownSigstore({ hasStamps: true }) }],
    [
      "a timestamp alone, where the root has no logs",
      { ask: { stamped: true }, trusted: ownSigstore({ hasLogs: false, hasStamps: true }) },
    ],
    ["a certificate that has expired since, and was valid", { ask: { issuedAt: SIGNED_AT - 9 * 60_000 } }],
  ])("counts for %s", async (_, each) => {
    expect(await find(form, each)).toMatchObject({ verified: { form, signer: { source: "ci.identity" } } });
  });

  it.each<[string, Case, string | RegExp]>([
    [
      "another issuer",
      { ask: { issuer: "https://accounts.example.com" } },
      'for which "https://accounts.example.com" vouches, and no identity allows that',
    ],
    [
      "another subject",
      {
        ask: { subject: "https://git.example.com/platform/modules/.github/workflows/x.yaml@refs/heads/evil" },
      },
      'it is by "https://git.example.com/platform/modules/.github/workflows/x.yaml@refs/heads/evil"',
    ],
    ["a subject that goes on", { ask: { subject: `${SUBJECT}-evil` } }, "no identity allows that"],
    [
      "a subject of which a part fits the pattern",
      { identity: `issuer: ${ISSUER}\nsubjectPattern: https://git\\.example\\.com/platform/modules\n` },
      "no identity allows that",
    ],
    [
      "a pattern with alternatives",
      { identity: `issuer: ${ISSUER}\nsubjectPattern: 'x|https://git\\.example\\.com/'\n` },
      "no identity allows that",
    ],
    [
      "a certificate that had expired",
      { ask: { issuedAt: SIGNED_AT - HOUR } },
      "certificate is not valid or expired at the specified date",
    ],
    [
      "a certificate that was not valid yet",
      { ask: { issuedAt: SIGNED_AT + HOUR } },
      "certificate is not valid or expired at the specified date",
    ],
    ["no log entry", { ask: { without: ["entry"] } }, "it is in no transparency log"],
    [
      "no promise of the log",
      { ask: { without: ["promise"] } },
      /expected 1 timestamps, got 0|invalid v0\.1 bundle|could not be verified/,
    ],
    ["no promise of the certificate log", { ask: { without: ["sct"] } }, "expected 1 SCTs, got 0"],
    [
      "an entry of the log for another certificate",
      { ask: { logged: ownSigstore().make(Buffer.from("x")).der } },
      "its log entry is of another certificate",
    ],
    ["another authority", { by: ownSigstore() }, /could not be verified|Failed to verify certificate chain/],
    [
      "another authority that uses the same log",
      {
        root: (root) => ({
          ...root,
          certificateAuthorities: JSON.parse(ownSigstore().trustedRoot()).certificateAuthorities,
        }),
      },
      "Failed to verify certificate chain: no valid certificate path found",
    ],
    [
      "another log",
      { root: (root) => ({ ...root, tlogs: JSON.parse(ownSigstore().trustedRoot()).tlogs }) },
      "inclusion promise could not be verified",
    ],
    [
      "another log of certificates",
      { root: (root) => ({ ...root, ctlogs: JSON.parse(ownSigstore().trustedRoot()).ctlogs }) },
      "SCT verification failed",
    ],
    ["a timestamp of another authority", { ask: { stamped: true } }, "timestamp could not be verified"],
    [
      "a root whose certificates cannot be read",
      {
        root: (root) => ({
          ...root,
          certificateAuthorities: [
            {
              certChain: { certificates: [{ rawBytes: "eA==" }] },
              validFor: { start: "2026-01-01T00:00:00Z" },
            },
          ],
        }),
      },
      "trusted_root.json cannot be used",
    ],
    [
      "a certificate for servers",
      { ask: { usage: "1.3.6.1.5.5.7.3.1" } },
      "its certificate is not for signing code",
    ],
  ])("does not count with %s", async (_, each, message) => {
    const error = String(await find(form, each).catch((thrown: unknown) => thrown));
    expect(error).toMatch(message);
    expect(error).toMatch(/NotVerifiedError: .* has no valid signature by ci\.identity/);
  });
});

it("a bundle that takes too long to read is given up, and is no proof that there is no signature", async () => {
  // Each element is read again and again as part of those that claim to contain it.
  const stamp = Buffer.concat([
    Buffer.from([0x30, 0x82, 0x10, 0x00]),
    Buffer.alloc(4096, Buffer.from([4, 6])),
  ]);
  const slow = Buffer.from(stamp);
  for (let at = 4; at + 4 < slow.length; at += 6) slow.set([4, 4, 4, 0x82, 0x02, 0x00], at);
  const found = find("bundle", {
    changes: {
      bundle: ({ verificationMaterial, ...value }) => ({
        ...value,
        verificationMaterial: {
          ...(verificationMaterial as object),
          timestampVerificationData: { rfc3161Timestamps: [{ signedTimestamp: slow.toString("base64") }] },
        },
      }),
    },
  });
  await expect(found).rejects.toThrow(/cannot be verified now: .*it takes too long to verify/);
});
