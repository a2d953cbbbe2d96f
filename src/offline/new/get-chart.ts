/** Fetches a chart into a directory of a module, and verifies it against the index of its repository. */

import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { realpathSync, statSync, writeFileSync } from "node:fs";
import { basename, dirname, join, resolve, sep } from "node:path";

import { objectOf, objectsIn, ProblemError, asString, type JsonObject } from "../../model/index.ts";
import type { Environment, Settings } from "../../config.ts";
import { hookEnvironment } from "../../hooks/index.ts";
import { oneLine, parseJson, parseYaml, readRegularFile } from "../../lib/index.ts";
import { listChartFiles, type ChartFile, type ChartSource } from "../../modules/index.ts";
import type { Children, RunResult } from "../../process/index.ts";

/** Copies or pulls a chart into `dir`. Throws ProblemError. */
export async function getChart(chart: ChartRequest, dir: string, caller: HelmCaller): Promise<PulledChart> {
  const { ref, version, repo } = chart;
  for (const url of [ref, repo]) refuseCredentials(url);
  if (repo !== undefined || !existsSync(ref)) return pullChart(chart, dir, caller);
  if (version !== undefined)
    throw problem(ref, "is a local chart, which has only one version", "remove --version");
  const from = resolve(ref);
  const stats = statSync(from);
  const isDirectory = stats.isDirectory();
  if (isDirectory && !existsSync(join(from, "Chart.yaml")))
    throw problem(from, "contains no Chart.yaml: it is no chart", "name the directory of a chart");
  const path = isDirectory ? "chart" : basename(from);
  const file = { rel: "", path: from, size: stats.size };
  copyChart(isDirectory ? listChartFiles(from, false) : [file], from, join(dir, path));
  return { path, origin: from, source: undefined, index: undefined };
}

/** Whether a path is a directory or a path in it. */
function isBelow(root: string, path: string): boolean {
  return path === root || path.startsWith(root.endsWith(sep) ? root : root + sep);
}

/** Parameters of a URL that are likely to be credentials. */
const SECRET_PARAMETER =
  /token|secret|passw|credential|signature|auth|api-?key|^(?:key|sig|sas|access|pat)$|^x-(?:amz|goog)-/i;

/**
 * Throws ProblemError for a URL with credentials: other users can read the command line, and the URL gets into files that
 * others read.
 */
function refuseCredentials(text: string | undefined): void {
  if (text === undefined || !text.includes("://")) return;
  const url = URL.parse(text);
  if (url === null) return;
  const hasUser = url.username !== "" || url.password !== "";
  const parameter = [...url.searchParams.keys()].find((key) => SECRET_PARAMETER.test(key));
  if (!hasUser && parameter === undefined) return;
  const what = hasUser ? "a user or password" : `a parameter that looks like a credential (${parameter})`;
  const remedy =
    url.protocol === "oci:"
      ? "log in with helm registry login, and remove it from the URL"
      : "add the repository with helm repo add NAME URL --username USER --password-stdin, and set --chart NAME/CHART";
  throw problem(withoutCredentials(text), `the URL contains ${what}`, remedy);
}

/** Limits that helm sets for archives. */
const MAX_FILES = 10_000;
const MAX_BYTES = 100 * 1024 * 1024;

/** Copies files, and the targets of links in place of the links, with the default mode. */
function copyChart(
  files: readonly Pick<ChartFile, "rel" | "path" | "size">[],
  from: string,
  to: string,
): void {
  const bytes = files.reduce((sum, { size }) => sum + size, 0);
  if (files.length > MAX_FILES || bytes > MAX_BYTES) {
    const message = `contains more than ${MAX_FILES} files, or more than ${MAX_BYTES >> 20} MiB`;
    throw problem(from, message, "list files that do not belong to the chart in .helmignore");
  }
  const root = realpathSync(from);
  const outside = files.find(({ path }) => !isBelow(root, realpathSync(path)));
  if (outside !== undefined) {
    const message = "is a link to a file outside the chart";
    throw problem(join(from, outside.rel), message, "replace it by a copy, or list it in .helmignore");
  }
  for (const { rel, path } of files) {
    mkdirSync(dirname(join(to, rel)), { recursive: true });
    writeFileSync(join(to, rel), readRegularFile(path));
  }
}

/** The requested chart: a directory, an archive, or a chart that helm can pull. */
export interface ChartRequest {
  readonly ref: string;
  readonly version: string | undefined;
  readonly repo: string | undefined;
  /** CA certificates for the repository or registry. */
  readonly caFile: string | undefined;
  /** The registry serves no TLS. */
  readonly plainHttp: boolean;
}

/** A fetched chart. */
export interface PulledChart {
  /** The archive's name in the directory. */
  readonly path: string;
  /** For messages: the copied directory or archive, or the name of the pulled archive. */
  readonly origin: string;
  /** The source without the version; undefined for the URL of an archive. */
  readonly source: Omit<ChartSource, "version"> | undefined;
  /** The repository's index; undefined for a registry, which addresses content by digest. */
  readonly index: RepositoryIndex | undefined;
}

export interface HelmCaller {
  readonly children: Children;
  readonly settings: Settings;
  readonly env: Environment;
}

/** Pulls a chart into `dir` with the user's repositories and logins of helm. Throws ProblemError. */
async function pullChart(chart: ChartRequest, dir: string, caller: HelmCaller): Promise<PulledChart> {
  if (chart.repo !== undefined) return fromRepository(chart, chart.repo, { dir, caller });
  const [name = "", ...rest] = chart.ref.split("/");
  const url = chart.ref.includes("://") ? undefined : await repositoryUrl(name, caller);
  const path = await pull(chart.ref, helmFlags(chart), { dir, caller });
  if (url === undefined)
    return { path, origin: path, source: sourceWithoutRepository(chart.ref), index: undefined };
  const cache = await helm(["env", "HELM_REPOSITORY_CACHE"], caller);
  const index = readIndex(join(cache.stdout.trim(), `${name}-index.yaml`), withoutCredentials(url));
  return { path, origin: path, source: { repo: withoutCredentials(url), chart: rest.join("/") }, index };
}

interface Target {
  readonly dir: string;
  readonly caller: HelmCaller;
}

/** Pulls from a repository through a temporary helm configuration, from which it also reads the index. */
async function fromRepository(
  chart: ChartRequest,
  repo: string,
  { dir, caller }: Target,
): Promise<PulledChart> {
  const own = mkdtempSync(join(dir, ".repository-"));
  const lists = [`--repository-config=${join(own, "list.yaml")}`, `--repository-cache=${own}`];
  const authority = chart.caFile === undefined ? [] : [`--ca-file=${chart.caFile}`];
  try {
    const added = await helm(["repo", "add", "it", repo, ...authority, ...lists], caller);
    if (added.outcome !== "succeeded")
      throw problem(
        withoutCredentials(repo),
        `is not a chart repository: ${lastLine(added)}`,
        "correct --repo",
      );
    const path = await pull(`it/${chart.ref}`, [...helmFlags(chart), ...lists], { dir, caller });
    const index = readIndex(join(own, "it-index.yaml"), withoutCredentials(repo));
    return { path, origin: path, source: { repo: withoutCredentials(repo), chart: chart.ref }, index };
  } finally {
    rmSync(own, { recursive: true, force: true });
  }
}

function helmFlags({ version, caFile, plainHttp }: ChartRequest): string[] {
  return [
    ...(version === undefined ? [] : [`--version=${version}`]),
    ...(caFile === undefined ? [] : [`--ca-file=${caFile}`]),
    ...(plainHttp ? ["--plain-http"] : []),
  ];
}

/** Pulls a chart; returns the name of the archive. */
async function pull(ref: string, flags: readonly string[], { dir, caller }: Target): Promise<string> {
  const before = new Set(readdirSync(dir));
  const result = await helm(["pull", ref, ...flags, `--destination=${dir}`], caller);
  const [pulled] = readdirSync(dir).filter((name) => !before.has(name));
  if (result.outcome === "succeeded" && pulled !== undefined) return pulled;
  const reported = ref.replace(/^it\//, "");
  throw problem(
    reported,
    `is not a local file, and helm cannot pull it: ${lastLine(result)}`,
    remedyFor(ref),
  );
}

function remedyFor(ref: string): string {
  return ref.startsWith("oci://")
    ? "see helm registry login, --ca-file, and --plain-http for a registry without TLS"
    : "see helm search, helm repo add";
}

/** The last line of helm's stderr, without credentials in URLs. */
function lastLine({ stderr, message }: RunResult): string {
  const line = stderr.trim().split("\n").at(-1) ?? "";
  return (line || (message ?? "")).replaceAll(/\/\/[^\s/@"]{1,1000}@/g, "//");
}

/** The source without tag and digest, which belong to one version. */
function sourceWithoutRepository(ref: string): PulledChart["source"] {
  if (!ref.startsWith("oci://")) return ref.includes("://") ? undefined : { chart: ref };
  const [plain = ""] = ref.split("@");
  const tag = plain.indexOf(":", plain.lastIndexOf("/"));
  return { chart: tag < 0 ? plain : plain.slice(0, tag) };
}

/** The URL of a repository, because its name is valid only for this user. */
async function repositoryUrl(name: string, caller: HelmCaller): Promise<string | undefined> {
  const { outcome, stdout } = await helm(["repo", "list", "--output=json"], caller);
  const repos = outcome === "succeeded" ? parseJson(stdout) : [];
  return asString(objectsIn(repos).find((repo) => repo["name"] === name)?.["url"]);
}

/** The URL without credentials, for a file that others read. */
function withoutCredentials(repo: string): string {
  const url = new URL(repo);
  url.username = "";
  url.password = "";
  const secret = [...url.searchParams.keys()].filter((key) => SECRET_PARAMETER.test(key));
  for (const key of secret) url.searchParams.delete(key);
  return url.href.replace(/\/$/, "");
}

function helm(args: readonly string[], { settings, env, children }: HelmCaller): Promise<RunResult> {
  const { helmBin, helmTimeoutMs } = settings;
  const processOptions = { cwd: process.cwd(), env: hookEnvironment(env), timeoutMs: helmTimeoutMs };
  return children.run({ file: helmBin, args, ...processOptions });
}

function problem(file: string, message: string, remedy: string): ProblemError {
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
    return {
      repo,
      entries: objectOf(objectOf(parseYaml(readFileSync(file, "utf8"), file).value)["entries"]),
    };
  } catch (error) {
    const message = `its index cannot be read: ${oneLine(error)}`;
    throw problem(repo, message, "contact the administrator of the repository");
  }
}

interface Chart {
  readonly name: string;
  readonly version: string;
  readonly digest: string;
}

/** Throws ProblemError if the index lists no such version, or another digest. An index may omit digests. */
export function checkAgainstIndex(
  { repo, entries }: RepositoryIndex,
  { name, version, digest }: Chart,
): void {
  const listed = objectsIn(entries[name] ?? []);
  const sums = listed
    .filter((entry) => entry["version"] === version)
    .map((entry) => asString(entry["digest"]));
  const refuse = (what: string): never => {
    const remedy =
      "the chart may be half published: try again later, or contact the administrator of the repository";
    throw problem(repo, `the pulled archive ${what}`, remedy);
  };
  if (sums.length === 0) refuse(`is ${name} ${version}, which its index does not list`);
  const [sum] = sums.filter((each) => each !== undefined && each !== "");
  if (sum !== undefined && sum.replace(/^sha256:/, "") !== digest.replace(/^sha256:/, ""))
    refuse(
      `of ${name} ${version} has a digest that differs from its index: ${digest} instead of sha256:${sum.replace(/^sha256:/, "")}`,
    );
}
