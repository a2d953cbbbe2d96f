/**
 * Fetches a chart into a directory of a module, and verifies it against the index of its repository. The `source` of a chart is
 * written into `addon.yaml`, for `upgrade-chart` and other users.
 */

import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { realpathSync, statSync, writeFileSync } from "node:fs";
import { basename, dirname, join, resolve, sep } from "node:path";

import { objectOf, objectsIn, ProblemError, asString, type JsonObject } from "../../../base/model/index.ts";
import { buildHookEnvironment } from "../../../hooks/index.ts";
import { oneLine, parseJson, parseYaml, readRegularFile } from "../../../base/index.ts";
import { listChartFiles, type ChartFile, type ChartSource } from "../../../modules/index.ts";
import type { RunResult } from "../../../base/process/index.ts";
import type { OfflineTools } from "../shared.ts";

/** Copies a local chart, an archive or a directory (as `chart`), into `dir`, or pulls one by helm. Throws ProblemError. */
export async function fetchChart(
  chart: ChartRequest,
  dir: string,
  tools: OfflineTools,
): Promise<PulledChart> {
  const { ref, version, repo } = chart;
  for (const url of [ref, repo]) requireNoCredentials(url);
  const isLocal = repo === undefined && existsSync(ref);
  if (!isLocal) return pullChart(chart, dir, tools);
  if (version !== undefined)
    throw fileProblem(ref, "is a local chart, which has only one version", "remove --version");
  const localPath = resolve(ref);
  const stats = statSync(localPath);
  const isDirectory = stats.isDirectory();
  if (isDirectory && !existsSync(join(localPath, "Chart.yaml")))
    throw fileProblem(localPath, "contains no Chart.yaml: it is no chart", "name the directory of a chart");
  const path = isDirectory ? "chart" : basename(localPath);
  const file = { rel: "", path: localPath, size: stats.size };
  copyChart(isDirectory ? listChartFiles(localPath, false) : [file], localPath, join(dir, path));
  return { path, nameInMessages: localPath, source: undefined, index: undefined };
}

/** Parameters of a URL that are likely to be credentials. */
const SECRET_PARAMETER =
  /token|secret|passw|credential|signature|auth|api-?key|^(?:key|sig|sas|access|pat)$|^x-(?:amz|goog)-/i;

/** The names of the parameters of a URL that are likely to be credentials. */
function findSecretParameters({ searchParams }: URL): string[] {
  return [...searchParams.keys()].filter((key) => SECRET_PARAMETER.test(key));
}

/** Throws ProblemError for a URL with credentials: other users can read the command line, and the URL gets into files that others read. */
function requireNoCredentials(text = ""): void {
  const url = text.includes("://") ? URL.parse(text) : null;
  if (url === null) return;
  const hasUser = url.username !== "" || url.password !== "";
  const [parameter] = findSecretParameters(url);
  if (!hasUser && parameter === undefined) return;
  const secret = hasUser ? "a user or password" : `a parameter that looks like a credential (${parameter})`;
  const remedy =
    url.protocol === "oci:"
      ? "log in with helm registry login, and remove it from the URL"
      : "add the repository with helm repo add NAME URL --username USER --password-stdin, and set --chart NAME/CHART";
  throw fileProblem(withoutCredentials(text), `the URL contains ${secret}`, remedy);
}

/** Limits that helm sets for archives. */
const MAX_FILES = 10_000;
const MAX_BYTES = 100 * 1024 * 1024;

/** Copies files, and the targets of links in place of the links, with the default mode. Refuses links that lead out of the chart: a foreign chart could copy any file of the user. */
function copyChart(
  files: readonly Pick<ChartFile, "rel" | "path" | "size">[],
  from: string,
  to: string,
): void {
  const bytes = files.reduce((sum, { size }) => sum + size, 0);
  if (files.length > MAX_FILES || bytes > MAX_BYTES) {
    const message = `contains more than ${MAX_FILES} files, or more than ${MAX_BYTES >> 20} MiB`;
    throw fileProblem(from, message, "list files that do not belong to the chart in .helmignore");
  }
  const root = realpathSync(from);
  const isInChart = (path: string): boolean => path === root || path.startsWith(root + sep);
  const outerLink = files.find(({ path }) => !isInChart(realpathSync(path)));
  if (outerLink !== undefined) {
    const message = "is a link to a file outside the chart";
    throw fileProblem(join(from, outerLink.rel), message, "replace it by a copy, or list it in .helmignore");
  }
  for (const { rel, path } of files) {
    mkdirSync(dirname(join(to, rel)), { recursive: true });
    writeFileSync(join(to, rel), readRegularFile(path));
  }
}

/** The requested chart: a directory, an archive, or a chart that helm can pull. */
export interface ChartRequest {
  readonly ref: string;
  readonly version?: string | undefined;
  readonly repo?: string | undefined;
  /** CA certificates for the repository or registry. */
  readonly caFile?: string | undefined;
  /** The registry serves no TLS. */
  readonly plainHttp?: boolean;
}

/** A fetched chart. */
export interface PulledChart {
  /** The archive's name in the directory. */
  readonly path: string;
  /** The copied directory or archive, or the name of the pulled archive. */
  readonly nameInMessages: string;
  /** The source without the version; undefined for the URL of an archive. */
  readonly source: Omit<ChartSource, "version"> | undefined;
  /** The repository's index; undefined for a registry, which addresses content by digest. */
  readonly index: RepositoryIndex | undefined;
}

/**
 * Pulls a chart into `dir` with the user's repositories and logins of helm. `ref` is a URL, or REPO/CHART with the name that the
 * user has given to a repository. Throws ProblemError.
 */
async function pullChart(chart: ChartRequest, dir: string, tools: OfflineTools): Promise<PulledChart> {
  const { ref, repo } = chart;
  if (repo !== undefined) return pullFromRepository(chart, repo, { dir, tools });
  const [repoName = "", ...chartPath] = ref.split("/");
  const url = ref.includes("://") ? undefined : await findRepositoryUrl(repoName, tools);
  if (url === undefined) {
    const path = await runHelmPull(ref, helmFlags(chart), { dir, tools });
    return { path, nameInMessages: path, source: sourceWithoutVersion(ref), index: undefined };
  }
  const plainUrl = withoutCredentials(url);
  const name = chartPath.join("/");
  const cache = await runHelm(["env", "HELM_REPOSITORY_CACHE"], tools);
  const indexFile = join(cache.stdout.trim(), `${repoName}-index.yaml`);
  // Helm reports a missing index, with the command that fetches it.
  if (existsSync(indexFile)) requireRelease(chart, name, readIndex(indexFile, plainUrl));
  const path = await runHelmPull(ref, helmFlags(chart), { dir, tools });
  const index = readIndex(indexFile, plainUrl);
  return { path, nameInMessages: path, source: { repo: plainUrl, chart: name }, index };
}

interface PullTarget {
  readonly dir: string;
  readonly tools: OfflineTools;
}

/** The name of the repository in the temporary configuration. The user has not chosen it, so messages leave it out. */
const TEMPORARY_REPO = "it";

/** Pulls from a repository that the user need not have added: adds it to a temporary helm configuration, and reads its index there. */
async function pullFromRepository(
  chart: ChartRequest,
  url: string,
  { dir, tools }: PullTarget,
): Promise<PulledChart> {
  const repo = withoutCredentials(url);
  const helmDir = mkdtempSync(join(dir, ".repository-"));
  const helmDirFlags = [`--repository-config=${join(helmDir, "list.yaml")}`, `--repository-cache=${helmDir}`];
  const caFlags = chart.caFile === undefined ? [] : [`--ca-file=${chart.caFile}`];
  try {
    const added = await runHelm(["repo", "add", TEMPORARY_REPO, url, ...caFlags, ...helmDirFlags], tools);
    if (added.outcome !== "succeeded") throw repositoryProblem(repo, lastErrorLine(added));
    const flags = [...helmFlags(chart), ...helmDirFlags];
    const index = readIndex(join(helmDir, `${TEMPORARY_REPO}-index.yaml`), repo);
    requireRelease(chart, chart.ref, index);
    const path = await runHelmPull(`${TEMPORARY_REPO}/${chart.ref}`, flags, { dir, tools });
    return { path, nameInMessages: path, source: { repo, chart: chart.ref }, index };
  } finally {
    rmSync(helmDir, { recursive: true, force: true });
  }
}

/** Parts of helm's messages about a server that does not answer. */
const NO_ANSWER =
  /no such host|dial tcp|lookup |timeout|deadline exceeded|unreachable|connection re(?:fused|set)/;

/** The problem of a repository that helm cannot add, with its error. */
function repositoryProblem(repo: string, error: string): ProblemError {
  return NO_ANSWER.test(error)
    ? fileProblem(repo, `cannot be reached: ${error}`, "check the network, the proxy, and --repo")
    : fileProblem(repo, `is not a chart repository: ${error}`, "correct --repo");
}

/** Throws ProblemError for a chart of which the index has only pre-releases, unless the request names a version: helm would not find it. */
function requireRelease({ version }: ChartRequest, name: string, { repo, entries }: RepositoryIndex): void {
  const versions = objectsIn(entries[name] ?? []).flatMap((entry) => asString(entry["version"]) ?? []);
  const [first] = versions;
  // A plus sign precedes build metadata, which may contain hyphens.
  const hasRelease = versions.some((each) => !(each.split("+")[0] ?? "").includes("-"));
  if (version !== undefined || first === undefined || hasRelease) return;
  throw fileProblem(repo, `has only pre-releases of ${name}`, `name one, such as --version ${first}`);
}

function helmFlags({ version, caFile, plainHttp }: ChartRequest): string[] {
  return [
    ...(version === undefined ? [] : [`--version=${version}`]),
    ...(caFile === undefined ? [] : [`--ca-file=${caFile}`]),
    ...(plainHttp === true ? ["--plain-http"] : []),
  ];
}

/** Runs `helm pull` and returns the file name of the archive that appeared in the directory. Throws ProblemError. */
async function runHelmPull(
  ref: string,
  flags: readonly string[],
  { dir, tools }: PullTarget,
): Promise<string> {
  const namesBefore = new Set(readdirSync(dir));
  const result = await runHelm(["pull", ref, ...flags, `--destination=${dir}`], tools);
  const [pulled] = readdirSync(dir).filter((name) => !namesBefore.has(name));
  if (result.outcome === "succeeded" && pulled !== undefined) return pulled;
  const remedy = ref.startsWith("oci://")
    ? "see helm registry login, --ca-file, and --plain-http for a registry without TLS"
    : "see helm search, helm repo add";
  const message = `is not a local file, and helm cannot pull it: ${lastErrorLine(result)}`;
  const chart = ref.startsWith(`${TEMPORARY_REPO}/`) ? ref.slice(TEMPORARY_REPO.length + 1) : ref;
  throw fileProblem(chart, message, remedy);
}

/** The last line of helm's stderr, else the reason why helm did not run; without `user:password@` in URLs. */
function lastErrorLine({ stderr, message }: RunResult): string {
  const line = stderr.trim().split("\n").at(-1) ?? "";
  return (line || message).replaceAll(/\/\/[^\s/@"]{1,1000}@/g, "//");
}

/**
 * The source of a chart without a repository: `oci://host:5000/chart` for `oci://host:5000/chart:1.2@sha256:…`, because tag and
 * digest belong to one version. Undefined for the URL of an archive, which contains the version.
 */
function sourceWithoutVersion(ref: string): PulledChart["source"] {
  if (!ref.startsWith("oci://")) return ref.includes("://") ? undefined : { chart: ref };
  const [withoutDigest = ""] = ref.split("@");
  const colonOfTag = withoutDigest.indexOf(":", withoutDigest.lastIndexOf("/"));
  return { chart: colonOfTag < 0 ? withoutDigest : withoutDigest.slice(0, colonOfTag) };
}

/** The URL of a repository that the user has added to helm: its name means nothing to other users. Undefined if unknown. */
async function findRepositoryUrl(name: string, tools: OfflineTools): Promise<string | undefined> {
  const { outcome, stdout } = await runHelm(["repo", "list", "--output=json"], tools);
  const repos = outcome === "succeeded" ? parseJson(stdout) : [];
  return asString(objectsIn(repos).find((repo) => repo["name"] === name)?.["url"]);
}

/** The URL without credentials, for a file that others read. */
function withoutCredentials(repo: string): string {
  const url = new URL(repo);
  url.username = "";
  url.password = "";
  for (const key of findSecretParameters(url)) url.searchParams.delete(key);
  return url.href.replace(/\/$/, "");
}

/** Runs helm with the user's own configuration and environment. */
function runHelm(args: readonly string[], { settings, env, children }: OfflineTools): Promise<RunResult> {
  const { helmBin, helmTimeoutMs } = settings;
  const processOptions = { cwd: process.cwd(), env: buildHookEnvironment(env), timeoutMs: helmTimeoutMs };
  return children.run({ file: helmBin, args, ...processOptions });
}

function fileProblem(file: string, message: string, remedy: string): ProblemError {
  return new ProblemError({ file, message, remedy });
}

/** The index of a chart repository. Helm locates archives by it but does not verify their digests. */
export interface RepositoryIndex {
  readonly repo: string;
  readonly entries: JsonObject;
}

/** Reads the index that helm keeps in `file`. Throws ProblemError. */
function readIndex(file: string, repo: string): RepositoryIndex {
  try {
    const { value } = parseYaml(readFileSync(file, "utf8"), file);
    return { repo, entries: objectOf(objectOf(value)["entries"]) };
  } catch (error) {
    const message = `its index cannot be read: ${oneLine(error)}`;
    throw fileProblem(repo, message, "contact the administrator of the repository");
  }
}

interface PulledVersion {
  readonly name: string;
  readonly version: string;
  readonly digest: string;
}

/** Verifies a pulled chart: throws ProblemError if the index does not list its version, or lists another digest. */
export function checkAgainstIndex(
  { repo, entries }: RepositoryIndex,
  { name, version, digest }: PulledVersion,
): void {
  const listedVersions = objectsIn(entries[name] ?? []).filter((entry) => entry["version"] === version);
  const refuse = (message: string): never => {
    const remedy =
      "the chart may be half published: try again later, or contact the administrator of the repository";
    throw fileProblem(repo, `the pulled archive ${message}`, remedy);
  };
  if (listedVersions.length === 0) refuse(`is ${name} ${version}, which its index does not list`);
  // An index may omit digests, or the prefix of a digest.
  const digests = listedVersions.map((entry) => asString(entry["digest"])?.replace(/^sha256:/, "") ?? "");
  const listedDigest = digests.find((each) => each !== "");
  if (listedDigest === undefined || listedDigest === digest.replace(/^sha256:/, "")) return;
  const difference = `${digest} instead of sha256:${listedDigest}`;
  refuse(`of ${name} ${version} has a digest that differs from its index: ${difference}`);
}
