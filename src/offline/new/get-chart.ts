/** Brings a chart into a directory of a module, and compares it with what the index of its repository says of it. */

import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { realpathSync, statSync, writeFileSync } from "node:fs";
import { basename, dirname, join, resolve, sep } from "node:path";

import { objectOf, objectsIn, ProblemError, textOf, type JsonObject } from "../../model/index.ts";
import type { Environment, Settings } from "../../config.ts";
import { hookEnvironment } from "../../hooks/index.ts";
import { oneLine, parseJson, parseYaml, readPlain } from "../../lib/index.ts";
import { listChartFiles, type ChartFile, type ChartSource } from "../../modules/index.ts";
import { run, type RunResult } from "../../process/index.ts";

/** Copies or pulls a chart into `dir`. Throws ProblemError. */
export async function getChart(chart: WantedChart, dir: string, caller: HelmCaller): Promise<PulledChart> {
  const { ref, version, repo } = chart;
  for (const url of [ref, repo]) refuseCredentials(url);
  if (repo !== undefined || !existsSync(ref)) return pullChart(chart, dir, caller);
  if (version !== undefined)
    throw problem(ref, "is a file or directory, which has one version", "leave out --version");
  const from = resolve(ref);
  const stats = statSync(from);
  const isDirectory = stats.isDirectory();
  if (isDirectory && !existsSync(join(from, "Chart.yaml")))
    throw problem(from, "holds no Chart.yaml: it is no chart", "name the directory of a chart");
  const path = isDirectory ? "chart" : basename(from);
  const file = { rel: "", path: from, size: stats.size };
  copy(isDirectory ? listChartFiles(from, false) : [file], from, join(dir, path));
  return { path, origin: from, source: undefined, index: undefined };
}

function isBelow(root: string, path: string): boolean {
  return path === root || path.startsWith(root.endsWith(sep) ? root : root + sep);
}

/** Parameters of a URL that are likely to be credentials. */
const SECRET_PARAMETER =
  /token|secret|passw|credential|signature|auth|api-?key|^(?:key|sig|sas|access|pat)$|^x-(?:amz|goog)-/i;

/** Credentials of a command line are visible to others, and those of a URL end in files that others read. */
function refuseCredentials(text: string | undefined): void {
  if (text === undefined || !text.includes("://")) return;
  const url = URL.parse(text);
  if (url === null) return;
  const hasUser = url.username !== "" || url.password !== "";
  const parameter = [...url.searchParams.keys()].find((key) => SECRET_PARAMETER.test(key));
  if (!hasUser && parameter === undefined) return;
  const what = hasUser ? "a user or password" : `what looks like a credential (${parameter})`;
  const remedy =
    url.protocol === "oci:"
      ? "log in with helm registry login, and leave it out of the URL"
      : "add the repository with helm repo add NAME URL --username USER --password-stdin, and give --chart NAME/CHART";
  throw problem(withoutUser(text), `the URL holds ${what}`, remedy);
}

/** What helm takes of an archive. */
const MOST_FILES = 10_000;
const MOST_BYTES = 100 * 1024 * 1024;

/** What links lead to is copied in their place, with the rights that new files have. */
function copy(files: readonly Pick<ChartFile, "rel" | "path" | "size">[], from: string, to: string): void {
  const bytes = files.reduce((sum, { size }) => sum + size, 0);
  if (files.length > MOST_FILES || bytes > MOST_BYTES) {
    const message = `holds more than ${MOST_FILES} files, or more than ${MOST_BYTES >> 20} MiB`;
    throw problem(from, message, "name in .helmignore what is no part of the chart");
  }
  const root = realpathSync(from);
  const outside = files.find(({ path }) => !isBelow(root, realpathSync(path)));
  if (outside !== undefined) {
    const message = "is reached by a link that leads out of the chart";
    throw problem(join(from, outside.rel), message, "put a copy in its place, or name it in .helmignore");
  }
  for (const { rel, path } of files) {
    mkdirSync(dirname(join(to, rel)), { recursive: true });
    writeFileSync(join(to, rel), readPlain(path));
  }
}

/** The chart that is wanted: a directory, an archive, or what helm can pull. */
export interface WantedChart {
  readonly ref: string;
  readonly version: string | undefined;
  readonly repo: string | undefined;
  /** Of authorities that a repository or a registry may be signed by. */
  readonly caFile: string | undefined;
  /** Whether the registry speaks no TLS. */
  readonly plainHttp: boolean;
}

/** A chart as helm brought it. */
export interface PulledChart {
  /** The archive's name in the directory. */
  readonly path: string;
  /** The directory or archive that was copied; what was pulled has its archive's name. */
  readonly origin: string;
  /** Where it came from, without the version; undefined for the URL of one archive. */
  readonly source: Omit<ChartSource, "version"> | undefined;
  /** What the repository says of its charts; undefined for a registry, which names content by its digest. */
  readonly index: RepositoryIndex | undefined;
}

export interface HelmCaller {
  readonly settings: Settings;
  readonly env: Environment;
}

/** Pulls a chart into `dir`, with the repositories and logins that helm knows for this user. Throws ProblemError. */
async function pullChart(chart: WantedChart, dir: string, caller: HelmCaller): Promise<PulledChart> {
  if (chart.repo !== undefined) return fromRepository(chart, chart.repo, { dir, caller });
  const [name = "", ...rest] = chart.ref.split("/");
  const url = chart.ref.includes("://") ? undefined : await urlOf(name, caller);
  const path = await pull(chart.ref, flagsOf(chart), { dir, caller });
  if (url === undefined)
    return { path, origin: path, source: sourceWithoutRepository(chart.ref), index: undefined };
  const cache = await helm(["env", "HELM_REPOSITORY_CACHE"], caller);
  const index = readIndex(join(cache.stdout.trim(), `${name}-index.yaml`), withoutUser(url));
  return { path, origin: path, source: { repo: withoutUser(url), chart: rest.join("/") }, index };
}

interface Place {
  readonly dir: string;
  readonly caller: HelmCaller;
}

/** Through a list of repositories of its own, whose index stays long enough to be read. */
async function fromRepository(
  chart: WantedChart,
  repo: string,
  { dir, caller }: Place,
): Promise<PulledChart> {
  const own = mkdtempSync(join(dir, ".repository-"));
  const lists = [`--repository-config=${join(own, "list.yaml")}`, `--repository-cache=${own}`];
  const authority = chart.caFile === undefined ? [] : [`--ca-file=${chart.caFile}`];
  try {
    const added = await helm(["repo", "add", "it", repo, ...authority, ...lists], caller);
    if (added.outcome !== "succeeded")
      throw problem(withoutUser(repo), `is no chart repository: ${said(added)}`, "correct --repo");
    const path = await pull(`it/${chart.ref}`, [...flagsOf(chart), ...lists], { dir, caller });
    const index = readIndex(join(own, "it-index.yaml"), withoutUser(repo));
    return { path, origin: path, source: { repo: withoutUser(repo), chart: chart.ref }, index };
  } finally {
    rmSync(own, { recursive: true, force: true });
  }
}

function flagsOf({ version, caFile, plainHttp }: WantedChart): string[] {
  return [
    ...(version === undefined ? [] : [`--version=${version}`]),
    ...(caFile === undefined ? [] : [`--ca-file=${caFile}`]),
    ...(plainHttp ? ["--plain-http"] : []),
  ];
}

/** The name of what came. */
async function pull(ref: string, flags: readonly string[], { dir, caller }: Place): Promise<string> {
  const before = new Set(readdirSync(dir));
  const result = await helm(["pull", ref, ...flags, `--destination=${dir}`], caller);
  const [pulled] = readdirSync(dir).filter((name) => !before.has(name));
  if (result.outcome === "succeeded" && pulled !== undefined) return pulled;
  const told = ref.replace(/^it\//, "");
  throw problem(told, `is no file here, and helm cannot pull it: ${said(result)}`, remedyFor(ref));
}

function remedyFor(ref: string): string {
  return ref.startsWith("oci://")
    ? "see helm registry login, --ca-file, and --plain-http for a registry without TLS"
    : "see helm search, helm repo add";
}

/** The last line of what helm said, without users and passwords in its URLs. */
function said({ stderr, message }: RunResult): string {
  const line = stderr.trim().split("\n").at(-1) ?? "";
  return (line || (message ?? "")).replaceAll(/\/\/[^\s/@"]{1,1000}@/g, "//");
}

/** A registry's charts are upgraded by their names: tag and digest are of one version. */
function sourceWithoutRepository(ref: string): PulledChart["source"] {
  if (!ref.startsWith("oci://")) return ref.includes("://") ? undefined : { chart: ref };
  const [plain = ""] = ref.split("@");
  const tag = plain.indexOf(":", plain.lastIndexOf("/"));
  return { chart: tag < 0 ? plain : plain.slice(0, tag) };
}

/** In words that mean the same to everybody: a name for a repository is this user's own. */
async function urlOf(name: string, caller: HelmCaller): Promise<string | undefined> {
  const { outcome, stdout } = await helm(["repo", "list", "--output=json"], caller);
  const repos = outcome === "succeeded" ? parseJson(stdout) : [];
  return textOf(objectsIn(repos).find((repo) => repo["name"] === name)?.["url"]);
}

/** What is written into a file that others read: without credentials. */
function withoutUser(repo: string): string {
  const url = new URL(repo);
  url.username = "";
  url.password = "";
  const secret = [...url.searchParams.keys()].filter((key) => SECRET_PARAMETER.test(key));
  for (const key of secret) url.searchParams.delete(key);
  return url.href.replace(/\/$/, "");
}

function helm(args: readonly string[], { settings, env }: HelmCaller): Promise<RunResult> {
  const { helmBin, helmTimeoutMs } = settings;
  const surroundings = { cwd: process.cwd(), env: hookEnvironment(env), timeoutMs: helmTimeoutMs };
  return run({ file: helmBin, args, ...surroundings });
}

function problem(file: string, message: string, remedy: string): ProblemError {
  return new ProblemError([{ file, message, remedy }]);
}

/** The index of a chart repository: helm finds archives by it, and does not compare them with it. */
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
    throw problem(repo, message, "ask who runs the repository");
  }
}

interface Chart {
  readonly name: string;
  readonly version: string;
  readonly digest: string;
}

/**
 * Throws ProblemError for an archive that is not the one that the index names. An index may leave digests out: then
 * there is nothing to compare.
 */
export function mustBeListed({ repo, entries }: RepositoryIndex, { name, version, digest }: Chart): void {
  const listed = objectsIn(entries[name] ?? []);
  const sums = listed.filter((entry) => entry["version"] === version).map((entry) => textOf(entry["digest"]));
  const refuse = (what: string): never => {
    const remedy = "it may be half published: try again later, else ask who runs the repository";
    throw problem(repo, `the archive that it gave ${what}`, remedy);
  };
  if (sums.length === 0) refuse(`says that it is ${name} ${version}, which its index does not name`);
  const [sum] = sums.filter((each) => each !== undefined && each !== "");
  if (sum !== undefined && sum.replace(/^sha256:/, "") !== digest.replace(/^sha256:/, ""))
    refuse(
      `of ${name} ${version} is not the one that its index names: ${digest} instead of sha256:${sum.replace(/^sha256:/, "")}`,
    );
}
