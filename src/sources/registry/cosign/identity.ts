/**
 * Identities for keyless signing: a person or workflow signs with a short-lived certificate, which a certificate authority
 * issues for one signature.
 */

import { createHash } from "node:crypto";
import { RE2JS } from "re2js";

import { oneLine } from "../../../base/index.ts";
import { asString, objectOf, objectsIn, ProblemError, type JsonObject } from "../../../base/model/index.ts";
import { parseMap } from "../../../values/index.ts";
import { parseJsonObject } from "../manifest.ts";
import type { PublicKey } from "./keys.ts";

/** Certificate authorities and logs that are trusted: a `trusted_root.json` of Sigstore, which the installer configures. */
export interface TrustedRoot {
  /** File or name for messages. */
  readonly source: string;
  readonly json: JsonObject;
  readonly digest: string;
}

/** A person or a workflow whose signatures are accepted. */
export interface SignerIdentity {
  /** File or name for messages. */
  readonly source: string;
  readonly root: TrustedRoot;
  /** A hash of everything that decides whether a signature is accepted; users compare it to detect changes. */
  readonly hint: string;
  /** Whether a certificate with this issuer and this subject belongs to the identity. */
  readonly matches: (issuer: string, subject: string) => boolean;
}

/** A key or an identity whose signatures are accepted. */
export type Signer = PublicKey | SignerIdentity;

export function isIdentity(signer: Signer): signer is SignerIdentity {
  return "root" in signer;
}

const ROOT_TYPE = "application/vnd.dev.sigstore.trustedroot";
const ROOT_REMEDY = "use a trusted_root.json of Sigstore, such as `cosign trusted-root create` writes";

/** Reads and checks a trusted root. Its certificates are parsed later, when a signature is verified. Throws ProblemError. */
export function readTrustedRoot(text: string, source: string): TrustedRoot {
  const problem = (message: string): ProblemError =>
    new ProblemError({ file: source, message, remedy: ROOT_REMEDY });
  const json = parseRoot(text, problem);
  const isList = (key: string): boolean => Array.isArray(json[key]) && json[key].length > 0;
  if (!(asString(json["mediaType"]) ?? "").startsWith(ROOT_TYPE)) throw problem("is not a trusted root");
  if (!isList("certificateAuthorities")) throw problem("has no certificate authority");
  if (!isList("tlogs") && !isList("timestampAuthorities"))
    throw problem(
      "has neither a transparency log nor a timestamp authority, which say when something was signed",
    );
  if (!AUTHORITY_LISTS.every((key) => objectsIn(json[key]).every(hasValidityStart)))
    throw problem("has an authority or a log without validFor.start");
  return { source, json, digest: hashText(text) };
}

/** The lists of a trusted root whose entries must have a start of validity. */
const AUTHORITY_LISTS = ["certificateAuthorities", "timestampAuthorities", "tlogs", "ctlogs"];

/** Whether an authority or a log has a start of its validity; logs have it in their public key. */
function hasValidityStart({ validFor, publicKey }: JsonObject): boolean {
  return typeof objectOf(validFor ?? objectOf(publicKey)["validFor"])["start"] === "string";
}

/** Parses a trusted root as JSON. Throws ProblemError. */
function parseRoot(text: string, problem: (message: string) => ProblemError): JsonObject {
  try {
    return parseJsonObject(Buffer.from(text));
  } catch (error) {
    throw problem(`cannot be read: ${oneLine(error)}`);
  }
}

const IDENTITY_KEYS = ["issuer", "issuerPattern", "subject", "subjectPattern"] as const;
const IDENTITY_REMEDY =
  "write `issuer: https://…` and `subject: …`; issuerPattern and subjectPattern are patterns of the whole text";

/** Reads an identity: YAML with `issuer` and `subject`, or with patterns of them. `hint` is a hash of all that. Throws ProblemError. */
export function readIdentity(text: string, source: string, root: TrustedRoot | undefined): SignerIdentity {
  const { value } = parseMap(text, source);
  const problem = (key: string, message: string, remedy = IDENTITY_REMEDY): ProblemError =>
    new ProblemError({ file: source, key, message, remedy });
  const unknownKey = Object.keys(value).find((key) => !IDENTITY_KEYS.some((known) => known === key));
  if (unknownKey !== undefined) throw problem(unknownKey, "is no key of an identity");
  const matchesIssuer = buildMatcher(value, "issuer", problem);
  const matchesSubject = buildMatcher(value, "subject", problem);
  if (root === undefined)
    throw problem("issuer", "needs a trusted root, which is missing", `add one; ${ROOT_REMEDY}`);
  return {
    source,
    root,
    hint: hashText(JSON.stringify([IDENTITY_KEYS.map((key) => value[key]), root.digest])),
    matches: (issuer, subject) => matchesIssuer(issuer) && matchesSubject(subject),
  };
}

/**
 * Builds the test for the issuer or the subject: equal to a text, or matched as a whole by a pattern. Exactly one of
 * the two must be set. Throws ProblemError.
 */
function buildMatcher(
  value: JsonObject,
  key: "issuer" | "subject",
  problem: (key: string, message: string) => ProblemError,
): (text: string) => boolean {
  const patternKey = `${key}Pattern`;
  const { [key]: exactText, [patternKey]: pattern } = value;
  if ((exactText === undefined) === (pattern === undefined))
    throw problem(key, `must be set, or else ${patternKey}, and not both`);
  const [expected, name] = exactText === undefined ? [pattern, patternKey] : [exactText, key];
  if (typeof expected !== "string" || expected === "") throw problem(name, "must be a text");
  if (exactText !== undefined) return (text) => text === exactText;
  try {
    const regex = RE2JS.compile(expected);
    return (text) => regex.matches(text);
  } catch (error) {
    throw problem(patternKey, `is no pattern in the syntax of RE2: ${oneLine(error)}`);
  }
}

function hashText(text: string): string {
  return createHash("sha256").update(text).digest("base64");
}
