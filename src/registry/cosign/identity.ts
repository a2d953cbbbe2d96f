/** Identities that sign without a key of their own: a certificate authority vouches for them, for one signature each. */

import { createHash } from "node:crypto";
import { RE2JS } from "re2js";

import { oneLine } from "../../lib/index.ts";
import { asString, objectOf, objectsIn, ProblemError, type JsonObject } from "../../model/index.ts";
import { parseMap } from "../../values/index.ts";
import { jsonObject } from "../manifest.ts";
import type { PublicKey } from "./keys.ts";

/** Authorities and logs that are trusted: a `trusted_root.json` of Sigstore, which the installer gives. */
export interface TrustedRoot {
  /** File or name for messages. */
  readonly source: string;
  readonly json: JsonObject;
  readonly digest: string;
}

/** A person or a workflow whose certificates count. */
export interface Identity {
  /** File or name for messages. */
  readonly source: string;
  readonly root: TrustedRoot;
  /** Changes with everything that decides whether a signature counts. */
  readonly hint: string;
  /** Whether a certificate with this issuer and this subject is one of the identity. */
  readonly matches: (issuer: string, subject: string) => boolean;
}

/** Who may sign. */
export type Signer = PublicKey | Identity;

export function isIdentity(signer: Signer): signer is Identity {
  return "root" in signer;
}

const ROOT_TYPE = "application/vnd.dev.sigstore.trustedroot";
const ROOT_REMEDY = "use a trusted_root.json of Sigstore, such as `cosign trusted-root create` writes";

/** Reads a trusted root. Its certificates and keys are read when a signature is verified. Throws ProblemError. */
export function readTrustedRoot(text: string, source: string): TrustedRoot {
  const problem = (message: string): ProblemError =>
    new ProblemError({ file: source, message, remedy: ROOT_REMEDY });
  const json = parsed(text, (error) => problem(`cannot be read: ${oneLine(error)}`));
  const isList = (key: string): boolean => Array.isArray(json[key]) && json[key].length > 0;
  if (!(asString(json["mediaType"]) ?? "").startsWith(ROOT_TYPE)) throw problem("is not a trusted root");
  if (!isList("certificateAuthorities")) throw problem("has no certificate authority");
  if (!isList("tlogs") && !isList("timestampAuthorities"))
    throw problem(
      "has neither a transparency log nor a timestamp authority, which say when something was signed",
    );
  if (!AUTHORITIES.every((key) => objectsIn(json[key]).every(hasStart)))
    throw problem("has an authority or a log without validFor.start");
  return { source, json, digest: digestOf(text) };
}

const AUTHORITIES = ["certificateAuthorities", "timestampAuthorities", "tlogs", "ctlogs"];

/** Whether the validity of an authority or a log has a start. */
function hasStart({ validFor, publicKey }: JsonObject): boolean {
  return typeof objectOf(validFor ?? objectOf(publicKey)["validFor"])["start"] === "string";
}

function parsed(text: string, problem: (error: unknown) => ProblemError): JsonObject {
  try {
    return jsonObject(Buffer.from(text));
  } catch (error) {
    throw problem(error);
  }
}

const KEYS = ["issuer", "issuerPattern", "subject", "subjectPattern"] as const;
const FORM =
  "write `issuer: https://…` and `subject: …`; issuerPattern and subjectPattern are patterns of the whole text";

/** Reads an identity: YAML with issuer and subject, or patterns of them. Throws ProblemError. */
export function readIdentity(text: string, source: string, root: TrustedRoot | undefined): Identity {
  const { value } = parseMap(text, source);
  const problem = (key: string, message: string, remedy = FORM): ProblemError =>
    new ProblemError({ file: source, key, message, remedy });
  const unknown = Object.keys(value).find((key) => !KEYS.some((known) => known === key));
  if (unknown !== undefined) throw problem(unknown, "is no key of an identity");
  const [issuer, subject] = (["issuer", "subject"] as const).map((key) => matcherOf(value, key, problem));
  if (issuer === undefined || subject === undefined) throw problem("issuer", "is missing");
  if (root === undefined)
    throw problem("issuer", "needs a trusted root, which is missing", `add one; ${ROOT_REMEDY}`);
  return {
    source,
    root,
    hint: digestOf(JSON.stringify([KEYS.map((key) => value[key]), root.digest])),
    matches: (by, whom) => issuer(by) && subject(whom),
  };
}

type Matcher = (text: string) => boolean;

/** What the issuer or the subject must be: this text, or a pattern of all of it. Throws ProblemError. */
function matcherOf(
  value: JsonObject,
  key: "issuer" | "subject",
  problem: (key: string, message: string) => ProblemError,
): Matcher {
  const patternKey = `${key}Pattern`;
  const { [key]: exact, [patternKey]: pattern } = value;
  if ((exact === undefined) === (pattern === undefined))
    throw problem(key, `must be set, or else ${patternKey}, and not both`);
  const [given, name] = exact === undefined ? [pattern, patternKey] : [exact, key];
  if (typeof given !== "string" || given === "") throw problem(name, "must be a text");
  if (exact !== undefined) return (text) => text === exact;
  try {
    const program = RE2JS.compile(given);
    return (text) => program.matches(text);
  } catch (error) {
    throw problem(patternKey, `is no pattern in the syntax of RE2: ${oneLine(error)}`);
  }
}

function digestOf(text: string): string {
  return createHash("sha256").update(text).digest("base64");
}
