/**
 * Verifies keyless signatures offline, by the certificates and logs of a trusted root. Imported when the first such
 * signature is verified, because the libraries take memory.
 */

import { X509Certificate } from "node:crypto";

import { bundleFromJSON, type Bundle } from "@sigstore/bundle";
import { TrustedRoot as RootMessage } from "@sigstore/protobuf-specs";
import { toSignedEntity, toTrustMaterial, Verifier, type TrustMaterial } from "@sigstore/verify";

import {
  attempt,
  isTimeLimitError,
  oneLine,
  plainLine,
  SlowWorkBudget,
  runWithTimeLimit,
  threadCpuMs,
} from "../../../base/index.ts";
import { asString, objectOf, objectsIn, type JsonObject } from "../../../base/model/index.ts";
import { parseJsonObject } from "../manifest.ts";
import { CannotVerifyError } from "../errors.ts";
import type { SignerIdentity, TrustedRoot } from "./identity.ts";

/** A signature with what proves who made it and when. */
export interface Evidence {
  /** A Sigstore bundle with only the fields that the caller has checked. */
  readonly bundle: JsonObject;
  /** The signed bytes, if the bundle does not contain them. */
  readonly artifact?: Buffer;
}

/** Most log entries and timestamps: one of each is enough, and each takes time to verify. */
const MAX_PROOFS = 4;
/** The extended key usage "code signing" of certificates. */
const CODE_SIGNING_OID = "1.3.6.1.5.5.7.3.3";

/**
 * Verifies a signature by each trusted root and returns the identity that made it. Throws Error with the reason if no
 * identity did, and CannotVerifyError if the verification takes too long.
 */
export function findSigningIdentity(
  identities: readonly SignerIdentity[],
  evidence: Evidence,
): SignerIdentity {
  const roots = new Set(identities.map(({ root }) => root));
  let lastError = new Error("it is by no identity");
  for (const root of roots) {
    try {
      const [issuer, subject] = runWithinTimeBudget(() => verifyCertificate(root, evidence));
      const found = identities.find((each) => each.root === root && each.matches(issuer, subject));
      if (found !== undefined) return found;
      throw new Error(
        `it is by ${quoteForMessage(subject)}, for which ${quoteForMessage(issuer)} vouches, and no identity allows that`,
      );
    } catch (error) {
      if (error instanceof CannotVerifyError) throw error;
      lastError = new Error(oneLine(error), { cause: error });
    }
  }
  throw lastError;
}

/**
 * Verifies a signature and its certificate by a trusted root. Returns issuer and subject of the certificate. Throws
 * Error unless a log entry or timestamp proves that the signature was made while the certificate was valid.
 */
function verifyCertificate(root: TrustedRoot, { bundle, artifact }: Evidence): readonly [string, string] {
  const material = toVerifierMaterial(root);
  const proofs = objectOf(bundle["verificationMaterial"]);
  const entries = objectsIn(proofs["tlogEntries"]);
  const stamps = objectsIn(objectOf(proofs["timestampVerificationData"])["rfc3161Timestamps"]);
  if (entries.length + stamps.length > MAX_PROOFS)
    throw new Error("it has too many log entries or timestamps");
  if (entries.length === 0 && material.tlogs.length > 0) throw new Error("it is in no transparency log");
  const signature = bundleFromJSON(bundle);
  const certificate = getSigningCertificate(signature);
  const isForCode = certificate.keyUsage?.includes(CODE_SIGNING_OID) ?? false;
  if (!isForCode) throw new Error("its certificate is not for signing code");
  for (const { canonicalizedBody } of signature.verificationMaterial.tlogEntries)
    if (!logEntryNamesCertificate(canonicalizedBody, certificate))
      throw new Error("its log entry is of another certificate");
  return verifyEntity(material, toSignedEntity(signature, artifact));
}

/** The certificate of the signer: bundles contain it alone, or as the first one of a chain. */
function getSigningCertificate({ verificationMaterial: { content } }: Bundle): X509Certificate {
  if (content.$case === "certificate") return new X509Certificate(content.certificate.rawBytes);
  const [first] = content.$case === "x509CertificateChain" ? content.x509CertificateChain.certificates : [];
  if (first === undefined) throw new Error("it has no certificate");
  return new X509Certificate(first.rawBytes);
}

/**
 * Limits for the verification of one signature, which usually takes 20 ms: its computing time, and its time including
 * waits for a processor on a busy machine.
 */
const TIME_LIMIT = { workMs: 500, waitMs: 4000 };
/** A verification that computes longer than this counts against the budget. */
const SLOW_MS = 200;
/** Bounds the total time of slow verifications, so that many hostile signatures cannot block the process. */
const slowWorkBudget = new SlowWorkBudget();

/**
 * Runs the verification of one signature under a time limit: a small hostile certificate can make the library compute
 * for very long. Throws CannotVerifyError if the limit or the budget of slow verifications is exceeded, and the
 * errors of `work`.
 */
function runWithinTimeBudget<T>(work: () => T): T {
  if (!slowWorkBudget.isLeft()) throw new CannotVerifyError("signatures like it have taken too long");
  const startMs = threadCpuMs();
  try {
    return runWithTimeLimit(work, TIME_LIMIT);
  } catch (error) {
    throw isTimeLimitError(error) ? new CannotVerifyError("it takes too long to verify") : error;
  } finally {
    const ms = threadCpuMs() - startMs;
    if (ms > SLOW_MS) slowWorkBudget.spend(ms);
  }
}

/** Plain messages for the error codes of the library. */
const FAILURES_BY_CODE = [
  [/^CERTIFICATE_/, "its certificate does not count"],
  [/^TIMESTAMP_/, "nothing proves when it was made"],
  [/^TLOG_/, "its log entry does not count"],
] as const;

/**
 * Verifies a signature by the trusted material. Requires an entry in a transparency log if the root has logs, and in
 * any case a trusted time. Returns issuer and subject of the certificate. Throws Error with the reason.
 */
function verifyEntity(
  material: TrustMaterial,
  entity: ReturnType<typeof toSignedEntity>,
): readonly [string, string] {
  const verifier = new Verifier(material, {
    tlogThreshold: Math.min(material.tlogs.length, 1),
    ctlogThreshold: Math.min(material.ctlogs.length, 1),
    timestampThreshold: 1,
  });
  try {
    const { identity } = verifier.verify(entity);
    const { subjectAlternativeName: subject, extensions } = identity ?? {};
    if (subject !== undefined && extensions?.issuer !== undefined) return [extensions.issuer, subject];
  } catch (error) {
    const { message, cause, code = "" } = error as Error & { readonly code?: string };
    const failure =
      FAILURES_BY_CODE.find(([pattern]) => pattern.test(code))?.[1] ?? "its signature does not count";
    const reason = cause instanceof Error ? `${message}: ${cause.message}` : message;
    throw new Error(`${failure}: ${reason}`, { cause: error });
  }
  throw new Error("its certificate names no issuer or no subject");
}

/** Parses the certificates and keys of a trusted root for the library. Throws Error that names the file if one is invalid. */
function toVerifierMaterial({ json, source }: TrustedRoot): TrustMaterial {
  try {
    return toTrustMaterial(RootMessage.fromJSON(json));
  } catch (error) {
    throw new Error(`${source} cannot be used: ${oneLine(error)}`, { cause: error });
  }
}

/**
 * Whether the entry of a transparency log is about this certificate. Each kind of entry has the certificate at
 * another path, so all known paths are compared.
 */
function logEntryNamesCertificate(body: Buffer, certificate: X509Certificate): boolean {
  const spec = objectOf(parseJsonObject(body)["spec"]);
  const specV2 = objectOf(spec["hashedRekordV002"] ?? spec["dsseV002"]);
  const envelope = objectOf(objectOf(spec["content"])["envelope"]);
  const lists = [spec, specV2, envelope].map(({ signatures }) => objectsIn(signatures));
  const signatures = [...lists.flat(), objectOf(spec["signature"]), objectOf(specV2["signature"])];
  const encodedCertificates = signatures.flatMap(({ verifier, publicKey }) => [
    verifier,
    publicKey,
    objectOf(publicKey)["content"],
    objectOf(objectOf(verifier)["x509Certificate"])["rawBytes"],
  ]);
  return encodedCertificates.some((each) => {
    const bytes = Buffer.from(asString(each) ?? "", "base64");
    return attempt(() => new X509Certificate(bytes).raw.equals(certificate.raw)) ?? false;
  });
}

function quoteForMessage(text: string): string {
  return JSON.stringify(plainLine(text, 200));
}
