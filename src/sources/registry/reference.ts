/** Names of artifacts in a registry, `oci://HOST[:PORT]/NAME[:TAG][@DIGEST]`, and locations of public charts. */

import { ProblemError } from "../../base/model/index.ts";

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
const REPOSITORY_SEGMENT = /^[a-z0-9]+(?:(?:\.|_{1,2}|-+)[a-z0-9]+)*$/;
const TAG = /^\w[\w.-]{0,127}$/;
const DIGEST = /^sha256:[0-9a-f]{64}$/;
/** Most characters of host and repository name together, as in the distribution specification. */
const MAX_NAME_LENGTH = 255;

/** Whether `text` is a digest that this program accepts: SHA-256, in lower case. */
export function isDigest(text: unknown): text is string {
  return typeof text === "string" && DIGEST.test(text);
}

/** Whether `text` can be a tag. */
export function isTag(text: string): boolean {
  return TAG.test(text);
}

/** The tag under which a version is stored: tags cannot contain `+`, so helm and this program write `_`. */
export function versionToTag(version: string): string {
  return version.replaceAll("+", "_");
}

/** Parses a reference to an artifact. Throws ProblemError that names the wrong part. */
export function parseReference(text: string): Reference {
  const parts = REFERENCE_PARTS.exec(text)?.groups;
  if (parts === undefined) throw toReferenceError(text, "does not have the form of a reference");
  const problem = findReferenceProblem(parts);
  if (problem !== undefined) throw toReferenceError(text, problem);
  const { host = "", name = "", tag, digest } = parts;
  return {
    ...toHostAndName(host, name),
    ...(tag === undefined ? {} : { tag }),
    ...(digest === undefined ? {} : { digest }),
  };
}

/** Splits a reference into its parts. Each part ends where the next one begins, so that matching takes linear time. */
const REFERENCE_PARTS =
  /^oci:\/\/(?<host>[^/@?]+)\/(?<name>[^:@?]+)(?::(?<tag>[^@?/]*))?(?:@(?<digest>[^@?/]*))?$/;

/** The named groups of `REFERENCE_PARTS`. */
type ReferenceParts = Readonly<Record<string, string | undefined>>;

/** Describes the first invalid part of a reference; undefined if all are valid. */
function findReferenceProblem({ host = "", name = "", tag, digest }: ReferenceParts): string | undefined {
  if (!HOST.test(host)) return `"${host}" is no host`;
  if (!isRepositoryName(host, name))
    return `"${name}" is no repository: use lower-case letters, digits, ".", "_" and "-"`;
  if (tag !== undefined && !isTag(tag)) return `"${tag}" is no tag`;
  return digest !== undefined && !DIGEST.test(digest) ? `"${digest}" is no sha256 digest` : undefined;
}

/** Whether `name` can be a repository of `host`: path segments of allowed characters, and not too long. */
function isRepositoryName(host: string, name: string): boolean {
  return (
    host.length + name.length < MAX_NAME_LENGTH &&
    name.split("/").every((segment) => REPOSITORY_SEGMENT.test(segment))
  );
}

/** Writes a reference as text, the inverse of `parseReference`. */
export function formatReference({ host, name, tag, digest }: Reference): string {
  return `oci://${host}/${name}${tag === undefined ? "" : `:${tag}`}${digest === undefined ? "" : `@${digest}`}`;
}

/** The host that serves a registry's API, in lower case. Another host than `docker.io` serves the images of Docker Hub. */
function toRegistryHost(host: string): string {
  const lower = host.toLowerCase();
  return lower === "docker.io" || lower === "index.docker.io" ? DOCKER_HUB_HOST : lower;
}

const DOCKER_HUB_HOST = "registry-1.docker.io";

/**
 * The registry's host and the repository's name in it. Docker Hub adds `library/` to a name without a slash, but not if its
 * real host was written.
 */
function toHostAndName(writtenHost: string, name: string): Pick<Reference, "host" | "name"> {
  const host = toRegistryHost(writtenHost);
  const isShortHubName = host === DOCKER_HUB_HOST && writtenHost !== DOCKER_HUB_HOST && !name.includes("/");
  return { host, name: isShortHubName ? `library/${name}` : name };
}

/** The error for an invalid reference. Its text is quoted without user and password. */
function toReferenceError(text: string, message: string): ProblemError {
  const file = text.replace(/\/\/[^/@]*@/, "//");
  const remedy = "write oci://HOST/NAME, with :TAG or @sha256:… where a version is meant";
  return new ProblemError({ file, message, remedy });
}

/** `oci://HOST/PATH` in a registry, or `https://HOST/PATH` of a chart repository. Allows no user, query, fragment or escapes, so that equal locations have equal texts. */
const CHART_LOCATION = /^(oci|https?):\/\/([^\s,/@?#%\\]+)((?:\/[^\s,/@?#%\\]+)*)\/?$/;

/**
 * Normalizes the location of charts (`oci://HOST/PATH` or `https://HOST/PATH`), so that locations can be compared as texts;
 * undefined for an invalid location.
 */
export function normalizeChartLocation(text: string): string | undefined {
  const [, scheme = "", host = "", path = ""] = CHART_LOCATION.exec(text) ?? [];
  const hasDots = path.split("/").some((segment) => segment === "." || segment === "..");
  if (scheme === "" || hasDots || !URL.canParse(`https://${host}/`)) return undefined;
  // A URL has its host in lower case, without the default port.
  const normalHost = scheme === "oci" ? toRegistryHost(host) : new URL(`${scheme}://${host}`).host;
  return `${scheme}://${normalHost}${path}`;
}

/** Whether a normalized location equals an allowed one, or is below one. */
export function isWithinLocations(location: string, allowed: readonly string[]): boolean {
  return allowed.some((each) => location === each || location.startsWith(`${each}/`));
}

/** Whether a location is a chart repository with an index.yaml, not an OCI registry. */
export function isChartRepository(location: string): boolean {
  return !location.startsWith("oci:");
}
