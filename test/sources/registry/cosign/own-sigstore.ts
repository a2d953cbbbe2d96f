/** A Sigstore in memory: an authority that issues certificates, logs, a clock that stamps, and what they sign. */

import { createHash, generateKeyPairSync, hash, sign, type KeyObject } from "node:crypto";

import {
  bitString,
  contextConstructed,
  integer,
  octetString,
  oid,
  contextPrimitive,
  sequence,
  setOf,
  encodeTime,
  TRUE,
  utf8String,
} from "../../../../src/webhooks/certificate/issue.ts";

export const ISSUER = "https://token.actions.example.com";
export const SUBJECT =
  "https://git.example.com/platform/modules/.github/workflows/release.yaml@refs/heads/main";
/** When everything is signed, if nothing else is said. Signatures do not depend on the time of the test. */
export const SIGNED_AT = Date.parse("2026-03-01T12:00:00Z");
const MINUTE = 60_000;
const SHA256 = sequence(oid("2.16.840.1.101.3.4.2.1"));
const ECDSA_SHA256 = sequence(oid("1.2.840.10045.4.3.2"));
const LOG_URL = "https://log.example.com";

interface Pair {
  readonly privateKey: KeyObject;
  readonly publicKey: KeyObject;
}

const newPair = (): Pair => generateKeyPairSync("ec", { namedCurve: "P-256" });
const spki = ({ publicKey }: Pair): Buffer => publicKey.export({ type: "spki", format: "der" });
const sha256 = (...bytes: readonly Uint8Array[]): Buffer =>
  createHash("sha256").update(Buffer.concat(bytes)).digest();
const base64 = (bytes: Uint8Array): string => Buffer.from(bytes).toString("base64");
const name = (text: string): Buffer => sequence(setOf(sequence(oid("2.5.4.3"), utf8String(text))));
const keyId = (pair: Pair): Buffer => createHash("sha1").update(spki(pair)).digest();
const extension = (id: string, value: Buffer, isCritical = false): Buffer =>
  sequence(oid(id), ...(isCritical ? [TRUE] : []), octetString(value));

interface Certificate {
  readonly subject: Buffer;
  readonly pair: Pair;
  readonly by: { readonly subject: Buffer; readonly pair: Pair };
  readonly serial: number;
  readonly from: number;
  readonly to: number;
  readonly extensions: readonly Buffer[];
}

function certificate({ subject, pair, by, serial, from, to, extensions }: Certificate): {
  der: Buffer;
  content: Buffer;
} {
  const content = sequence(
    contextConstructed(0, integer(Buffer.from([2]))),
    integer(Buffer.from([serial])),
    ECDSA_SHA256,
    by.subject,
    sequence(encodeTime(from), encodeTime(to)),
    subject,
    spki(pair),
    contextConstructed(3, sequence(...extensions)),
  );
  const signature = sign("sha256", content, by.pair.privateKey);
  return { content, der: sequence(content, ECDSA_SHA256, bitString(signature)) };
}

const pemOf = (der: Buffer): string =>
  `-----BEGIN CERTIFICATE-----\n${base64(der).replace(/.{1,64}/g, "$&\n")}-----END CERTIFICATE-----\n`;

/** What is said of one signature, where it is not the usual. */
export interface Ask {
  readonly issuer?: string;
  readonly subject?: string;
  /** Extended key usage. */
  readonly usage?: string;
  /** When the certificate was issued; it is valid for ten minutes. */
  readonly issuedAt?: number;
  readonly loggedAt?: number;
  /** Left out: the promise of the log (SET), the proof of inclusion, the entry, or the certificate's timestamp (SCT). */
  readonly without?: readonly ("promise" | "proof" | "entry" | "sct")[];
  /** A timestamp of the timestamp authority. */
  readonly stamped?: boolean;
  /** The certificate that the log names. */
  readonly logged?: Buffer;
}

/** A signature and what proves it, before it has a form. */
interface Made {
  readonly der: Buffer;
  readonly signature: Buffer;
  readonly entry: (kind: string, version: string, spec: object) => Record<string, unknown>;
  readonly stamp: Buffer | undefined;
}

export type OwnSigstore = ReturnType<typeof ownSigstore>;

/** Sets one up. What it leaves out is neither used nor in its trusted root. */
export function ownSigstore({
  hasLogs = true,
  hasStamps = false,
}: { hasLogs?: boolean; hasStamps?: boolean } = {}) {
  const root = { subject: name("root"), pair: newPair() };
  const [from, to] = [Date.parse("2026-01-01T00:00:00Z"), Date.parse("2036-01-01T00:00:00Z")];
  const authority = certificate({
    ...root,
    by: root,
    serial: 1,
    from,
    to,
    extensions: [
      extension("2.5.29.19", sequence(TRUE), true),
      extension("2.5.29.15", bitString(Buffer.from([0x04]), 2), true),
      extension("2.5.29.14", octetString(keyId(root.pair))),
    ],
  });
  const stamper = { subject: name("stamps"), pair: newPair() };
  const stampCertificate = certificate({
    ...stamper,
    by: root,
    serial: 2,
    from,
    to,
    extensions: [
      extension("2.5.29.37", sequence(oid("1.3.6.1.5.5.7.3.8")), true),
      extension("2.5.29.35", sequence(contextPrimitive(0, keyId(root.pair)))),
    ],
  });
  const [log, certificateLog] = [newPair(), newPair()];

  /** A certificate for an identity, and the key that goes with it. */
  function issue({
    issuer = ISSUER,
    subject = SUBJECT,
    usage = "1.3.6.1.5.5.7.3.3",
    issuedAt,
    without = [],
  }: Ask) {
    const pair = newPair();
    const at = issuedAt ?? SIGNED_AT - MINUTE;
    const asked = {
      subject: sequence(),
      pair,
      by: root,
      serial: 3,
      from: at,
      to: at + 10 * MINUTE,
      extensions: [
        extension("2.5.29.15", bitString(Buffer.from([0x80]), 7), true),
        extension("2.5.29.37", sequence(oid(usage))),
        extension("2.5.29.35", sequence(contextPrimitive(0, keyId(root.pair)))),
        extension("2.5.29.17", sequence(contextPrimitive(6, Buffer.from(subject))), true),
        extension("1.3.6.1.4.1.57264.1.8", utf8String(issuer)),
      ],
    };
    if (!hasLogs || without.includes("sct")) return { pair, der: certificate(asked).der };
    const stamp = sctOf(certificate(asked).content, at);
    const sct = extension("1.3.6.1.4.1.11129.2.4.2", octetString(stamp));
    return { pair, der: certificate({ ...asked, extensions: [...asked.extensions, sct] }).der };
  }

  /** The list with the promise of the certificate log (RFC 6962, section 3.2). */
  function sctOf(content: Buffer, at: number): Buffer {
    const number = (value: number, length: number): Buffer => {
      const bytes = Buffer.alloc(8);
      bytes.writeBigUInt64BE(BigInt(value));
      return bytes.subarray(8 - length);
    };
    const when = number(at, 8);
    const version = number(0, 1);
    const signed = [version, number(0, 1), when, number(1, 2), sha256(spki(root.pair))];
    const all = Buffer.concat([...signed, number(content.length, 3), content, number(0, 2)]);
    const signature = sign("sha256", all, certificateLog.privateKey);
    const logId = sha256(spki(certificateLog));
    const sct = [
      version,
      logId,
      when,
      number(0, 2),
      Buffer.from([4, 3]),
      number(signature.length, 2),
      signature,
    ];
    const length = sct.reduce((sum, each) => sum + each.length, 0);
    return Buffer.concat([number(length + 2, 2), number(length, 2), ...sct]);
  }

  /** A timestamp (RFC 3161) of a signature. */
  function stampOf(signature: Buffer, at: number): Buffer {
    const digest = sequence(SHA256, octetString(sha256(signature)));
    const one = integer(Buffer.from([1]));
    const info = sequence(one, oid("1.2.3.4"), digest, integer(Buffer.from([9])), encodeTime(at));
    const type = oid("1.2.840.113549.1.9.16.1.4");
    const attributes = [
      sequence(oid("1.2.840.113549.1.9.3"), setOf(type)),
      sequence(oid("1.2.840.113549.1.9.4"), setOf(octetString(sha256(info)))),
    ];
    const signer = sequence(
      one,
      sequence(root.subject, integer(Buffer.from([2]))),
      SHA256,
      contextConstructed(0, ...attributes),
      ECDSA_SHA256,
      octetString(sign("sha256", setOf(...attributes), stamper.pair.privateKey)),
    );
    const content = sequence(type, contextConstructed(0, octetString(info)));
    const signedData = sequence(integer(Buffer.from([3])), setOf(SHA256), content, setOf(signer));
    const token = sequence(oid("1.2.840.113549.1.7.2"), contextConstructed(0, signedData));
    return sequence(sequence(Buffer.from([2, 1, 0])), token);
  }

  /** An entry of a log that has no other. */
  function entryOf(canonical: Buffer, { loggedAt = SIGNED_AT, without = [] }: Ask): Record<string, unknown> {
    const integratedTime = Math.floor(loggedAt / 1000);
    const logID = hash("sha256", spki(log), "hex");
    const body = base64(canonical);
    const promise = sign(
      "sha256",
      Buffer.from(JSON.stringify({ body, integratedTime, logID, logIndex: 0 })),
      log.privateKey,
    );
    const leaf = sha256(Buffer.from([0]), canonical);
    const note = `log.example.com\n1\n${base64(leaf)}\n`;
    const noteSignature = sign("sha256", Buffer.from(note), log.privateKey);
    const mark = base64(Buffer.concat([sha256(spki(log)).subarray(0, 4), noteSignature]));
    const checkpoint = { envelope: `${note}\n\u2014 log.example.com ${mark}\n` };
    return {
      logIndex: "0",
      logId: { keyId: base64(sha256(spki(log))) },
      integratedTime: without.includes("promise") ? "0" : String(integratedTime),
      canonicalizedBody: body,
      ...(without.includes("promise") ? {} : { inclusionPromise: { signedEntryTimestamp: base64(promise) } }),
      ...(without.includes("proof")
        ? {}
        : {
            inclusionProof: { logIndex: "0", treeSize: "1", rootHash: base64(leaf), hashes: [], checkpoint },
          }),
    };
  }

  return {
    /** The text of its `trusted_root.json`, without what `leave` names. */
    trustedRoot(change: (root: Record<string, unknown>) => object = (value) => value): string {
      const validFor = { start: new Date(from).toISOString() };
      const logOf = (pair: Pair): object => ({
        baseUrl: LOG_URL,
        hashAlgorithm: "SHA2_256",
        publicKey: { rawBytes: base64(spki(pair)), keyDetails: "PKIX_ECDSA_P256_SHA_256", validFor },
        logId: { keyId: base64(sha256(spki(pair))) },
      });
      const chain = (...ders: readonly Buffer[]): object => ({
        uri: "https://ca.example.com",
        certChain: { certificates: ders.map((der) => ({ rawBytes: base64(der) })) },
        validFor,
      });
      return JSON.stringify(
        change({
          mediaType: "application/vnd.dev.sigstore.trustedroot+json;version=0.1",
          tlogs: hasLogs ? [logOf(log)] : [],
          certificateAuthorities: [chain(authority.der)],
          ctlogs: hasLogs ? [logOf(certificateLog)] : [],
          timestampAuthorities: hasStamps ? [chain(stampCertificate.der, authority.der)] : [],
        }),
      );
    },

    /** Signs bytes as an identity. */
    make(bytes: Buffer, ask: Ask = {}): Made {
      const { pair, der } = issue(ask);
      const signature = sign("sha256", bytes, pair.privateKey);
      return {
        der,
        signature,
        entry: (kind, version, spec) => ({
          kindVersion: { kind, version },
          ...entryOf(Buffer.from(JSON.stringify({ apiVersion: version, kind, spec })), ask),
        }),
        stamp: ask.stamped === true ? stampOf(signature, ask.loggedAt ?? SIGNED_AT) : undefined,
      };
    },

    /** What a bundle has beside the envelope with this payload; `encoded` is what is signed. */
    bundle(payload: Buffer, encoded: Buffer, ask: Ask = {}): { signature: Buffer; material: object } {
      const made = this.make(encoded, ask);
      const verifier = base64(Buffer.from(pemOf(ask.logged ?? made.der)));
      const entry = made.entry("dsse", "0.0.1", {
        payloadHash: { algorithm: "sha256", value: hash("sha256", payload, "hex") },
        signatures: [{ signature: base64(made.signature), verifier }],
      });
      const isLogged = hasLogs && ask.without?.includes("entry") !== true;
      return {
        signature: made.signature,
        material: {
          certificate: { rawBytes: base64(made.der) },
          tlogEntries: isLogged ? [entry] : [],
          ...stampsOf(made),
        },
      };
    },

    /** The annotations that older versions of cosign store beside a payload. */
    annotations(payload: Buffer, ask: Ask = {}): Record<string, string> {
      const made = this.make(payload, ask);
      const content = base64(Buffer.from(pemOf(ask.logged ?? made.der)));
      const { inclusionPromise, integratedTime, canonicalizedBody } = made.entry("hashedrekord", "0.0.1", {
        data: { hash: { algorithm: "sha256", value: hash("sha256", payload, "hex") } },
        signature: { content: base64(made.signature), publicKey: { content } },
      });
      const SignedEntryTimestamp = (inclusionPromise as { signedEntryTimestamp?: string } | undefined)
        ?.signedEntryTimestamp;
      const logID = hash("sha256", spki(log), "hex");
      const Payload = { body: canonicalizedBody, integratedTime: Number(integratedTime), logIndex: 0, logID };
      const isLogged = hasLogs && ask.without?.includes("entry") !== true;
      return {
        "dev.cosignproject.cosign/signature": base64(made.signature),
        "dev.sigstore.cosign/certificate": pemOf(made.der),
        "dev.sigstore.cosign/chain": pemOf(authority.der),
        ...(isLogged
          ? { "dev.sigstore.cosign/bundle": JSON.stringify({ SignedEntryTimestamp, Payload }) }
          : {}),
        ...(made.stamp === undefined
          ? {}
          : {
              "dev.sigstore.cosign/rfc3161timestamp": JSON.stringify({
                SignedRFC3161Timestamp: base64(made.stamp),
              }),
            }),
      };
    },
  };
}

function stampsOf({ stamp }: Made): object {
  if (stamp === undefined) return {};
  return { timestampVerificationData: { rfc3161Timestamps: [{ signedTimestamp: base64(stamp) }] } };
}
