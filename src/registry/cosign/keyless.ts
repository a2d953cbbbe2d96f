/**
 * Verifies signatures with certificates, offline, by a given trusted root. Loaded with the first such signature, because
 * the libraries take memory.
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
} from "../../lib/index.ts";
import { asString, objectOf, objectsIn, type JsonObject } from "../../model/index.ts";
import { jsonObject } from "../manifest.ts";
import { CannotVerifyError } from "./errors.ts";
import type { Identity, TrustedRoot } from "./identity.ts";

/** A signature with what proves who made it and when. */
export interface Evidence {
  /** A Sigstore bundle. What the caller has not checked is left out. */
  readonly bundle: JsonObject;
  /** What is signed, where the bundle does not contain it. */
  readonly artifact?: Buffer;
}

/** More of them would only take time: one of each is enough. */
const MOST_PROOFS = 4;
const CODE_SIGNING = "1.3.6.1.5.5.7.3.3";

/** The identity that made a signature. Throws Error that says what is wrong, and CannotVerifyError. */
export function identityOf(identities: readonly Identity[], evidence: Evidence): Identity {
  const roots = new Set(identities.map(({ root }) => root));
  let problem = new Error("it is by no identity");
  for (const root of roots) {
    try {
      const [issuer, subject] = bounded(() => certified(root, evidence));
      const found = identities.find((each) => each.root === root && each.matches(issuer, subject));
      if (found !== undefined) return found;
      throw new Error(
        `it is by ${quoted(subject)}, for which ${quoted(issuer)} vouches, and no identity allows that`,
      );
    } catch (error) {
      if (error instanceof CannotVerifyError) throw error;
      problem = new Error(oneLine(error), { cause: error });
    }
  }
  throw problem;
}

/** Issuer and subject of the certificate with which a signature was made while it was valid. Throws Error. */
function certified(root: TrustedRoot, { bundle, artifact }: Evidence): readonly [string, string] {
  const material = materialOf(root);
  const proofs = objectOf(bundle["verificationMaterial"]);
  const entries = objectsIn(proofs["tlogEntries"]);
  const stamps = objectsIn(objectOf(proofs["timestampVerificationData"])["rfc3161Timestamps"]);
  if (entries.length + stamps.length > MOST_PROOFS)
    throw new Error("it has too many log entries or timestamps");
  if (entries.length === 0 && material.tlogs.length > 0) throw new Error("it is in no transparency log");
  const signature = bundleFromJSON(bundle);
  const certificate = certificateOf(signature);
  const isForCode = certificate.keyUsage?.includes(CODE_SIGNING) ?? false;
  if (!isForCode) throw new Error("its certificate is not for signing code");
  for (const { canonicalizedBody } of signature.verificationMaterial.tlogEntries)
    if (!isLogged(canonicalizedBody, certificate)) throw new Error("its log entry is of another certificate");
  return signerOf(material, toSignedEntity(signature, artifact));
}

function certificateOf({ verificationMaterial: { content } }: Bundle): X509Certificate {
  if (content.$case === "certificate") return new X509Certificate(content.certificate.rawBytes);
  const [first] = content.$case === "x509CertificateChain" ? content.x509CertificateChain.certificates : [];
  if (first === undefined) throw new Error("it has no certificate");
  return new X509Certificate(first.rawBytes);
}

/** Of one signature, which takes 20 ms; on a busy machine also of the time that it waits for a processor. */
const LIMIT = { workMs: 500, waitMs: 4000 };
const SLOW_MS = 200;
const budget = new SlowWorkBudget();

/**
 * Runs the verification of one signature. A small certificate can make the library read its parts over and over. Throws
 * CannotVerifyError if that takes too long, and what `work` throws.
 */
function bounded<T>(work: () => T): T {
  if (!budget.isLeft()) throw new CannotVerifyError("signatures like it have taken too long");
  const from = threadCpuMs();
  try {
    return runWithTimeLimit(work, LIMIT);
  } catch (error) {
    throw isTimeLimitError(error) ? new CannotVerifyError("it takes too long to verify") : error;
  } finally {
    const ms = threadCpuMs() - from;
    if (ms > SLOW_MS) budget.spend(ms);
  }
}

const WHAT_FAILED = [
  [/^CERTIFICATE_/, "its certificate does not count"],
  [/^TIMESTAMP_/, "nothing proves when it was made"],
  [/^TLOG_/, "its log entry does not count"],
] as const;

/** Requires what the trust root names: a log entry where it has logs, and always a time. */
function signerOf(
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
    const what = WHAT_FAILED.find(([pattern]) => pattern.test(code))?.[1] ?? "its signature does not count";
    const reason = cause instanceof Error ? `${message}: ${cause.message}` : message;
    throw new Error(`${what}: ${reason}`, { cause: error });
  }
  throw new Error("its certificate names no issuer or no subject");
}

/** Throws Error for a root with a certificate or a key that cannot be read. */
function materialOf({ json, source }: TrustedRoot): TrustMaterial {
  try {
    return toTrustMaterial(RootMessage.fromJSON(json));
  } catch (error) {
    throw new Error(`${source} cannot be used: ${oneLine(error)}`, { cause: error });
  }
}

/** Whether the entry of a log, whose form depends on the kind of entry, names this certificate. */
function isLogged(body: Buffer, certificate: X509Certificate): boolean {
  const spec = objectOf(jsonObject(body)["spec"]);
  const second = objectOf(spec["hashedRekordV002"] ?? spec["dsseV002"]);
  const envelope = objectOf(objectOf(spec["content"])["envelope"]);
  const lists = [spec, second, envelope].map(({ signatures }) => objectsIn(signatures));
  const signatures = [...lists.flat(), objectOf(spec["signature"]), objectOf(second["signature"])];
  const named = signatures.flatMap(({ verifier, publicKey }) => [
    verifier,
    publicKey,
    objectOf(publicKey)["content"],
    objectOf(objectOf(verifier)["x509Certificate"])["rawBytes"],
  ]);
  return named.some((each) => {
    const bytes = Buffer.from(asString(each) ?? "", "base64");
    return attempt(() => new X509Certificate(bytes).raw.equals(certificate.raw)) ?? false;
  });
}

function quoted(text: string): string {
  return JSON.stringify(plainLine(text, 200));
}
