/** Names of artifacts in a registry: `oci://HOST[:PORT]/NAME[:TAG][@DIGEST]`. */

import { ProblemError } from "../model/index.ts";

/** A parsed reference. A digest wins over a tag. */
export interface Reference {
  /** Host and port, as the registry is called: `docker.io` is `registry-1.docker.io`. */
  readonly host: string;
  /** Name of the repository below the host. */
  readonly name: string;
  readonly tag?: string;
  readonly digest?: string;
}

const HOST = /^(?:[a-zA-Z0-9](?:[a-zA-Z0-9.-]{0,251}[a-zA-Z0-9])?|\[[0-9a-fA-F:]{2,45}\])(?::\d{1,5})?$/;
const SEGMENT = /^[a-z0-9]+(?:(?:\.|_{1,2}|-+)[a-z0-9]+)*$/;
const TAG = /^\w[\w.-]{0,127}$/;
const DIGEST = /^sha256:[0-9a-f]{64}$/;
const LONGEST = 255;

/** Whether `text` is a digest that this program accepts: SHA-256, in lower case. */
export function isDigest(text: unknown): text is string {
  return typeof text === "string" && DIGEST.test(text);
}

/** Whether `text` can be a tag. */
export function isTag(text: string): boolean {
  return TAG.test(text);
}

/** The tag of a version: tags cannot contain `+`, so helm and this program write `_`. */
export function tagOfVersion(version: string): string {
  return version.replaceAll("+", "_");
}

/** Parses a reference. Throws ProblemError that names its wrong part. */
export function parseReference(text: string): Reference {
  const parts = PARTS.exec(text)?.groups;
  const problem = parts === undefined ? FORM : problemOf(parts);
  if (parts === undefined || problem !== undefined) throw invalid(text, problem ?? FORM);
  const { host = "", name = "", tag, digest } = parts;
  return {
    ...locate(host, name),
    ...(tag === undefined ? {} : { tag }),
    ...(digest === undefined ? {} : { digest }),
  };
}

const FORM = "does not have the form of a reference";
/** Each part ends where the next one begins, so that matching takes linear time. */
const PARTS = /^oci:\/\/(?<host>[^/@?]+)\/(?<name>[^:@?]+)(?::(?<tag>[^@?/]*))?(?:@(?<digest>[^@?/]*))?$/;

type Parts = Readonly<Record<string, string | undefined>>;

/** What is wrong with the parts of a reference; undefined if nothing. */
function problemOf({ host = "", name = "", tag, digest }: Parts): string | undefined {
  if (!HOST.test(host)) return `"${host}" is no host`;
  if (!isRepository(host, name))
    return `"${name}" is no repository: use lower-case letters, digits, ".", "_" and "-"`;
  if (tag !== undefined && !isTag(tag)) return `"${tag}" is no tag`;
  return digest !== undefined && !DIGEST.test(digest) ? `"${digest}" is no sha256 digest` : undefined;
}

function isRepository(host: string, name: string): boolean {
  return host.length + name.length < LONGEST && name.split("/").every((segment) => SEGMENT.test(segment));
}

/** The reference as text. */
export function referenceText({ host, name, tag, digest }: Reference): string {
  return `oci://${host}/${name}${tag === undefined ? "" : `:${tag}`}${digest === undefined ? "" : `@${digest}`}`;
}

/** The host as it is called: Docker Hub is called by another name than its images have. */
export function hostOf(host: string): string {
  const lower = host.toLowerCase();
  return lower === "docker.io" || lower === "index.docker.io" ? HUB : lower;
}

const HUB = "registry-1.docker.io";

function locate(text: string, name: string): Pick<Reference, "host" | "name"> {
  const host = hostOf(text);
  return { host, name: host === HUB && text !== HUB && !name.includes("/") ? `library/${name}` : name };
}

function invalid(text: string, why: string): ProblemError {
  const address = text.replace(/\/\/[^/@]*@/, "//");
  return new ProblemError({
    file: address,
    message: why,
    remedy: "write oci://HOST/NAME, with :TAG or @sha256:… where a version is meant",
  });
}
