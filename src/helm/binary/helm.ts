/** Runs helm 3 and 4 as a process: arguments, home, environment and time limits. */

import { join } from "node:path";

import { oneLine, parseDuration, type Clock, type Logger } from "../../base/index.ts";
import type { PrivateKubeconfig } from "../../kube/index.ts";
import {
  objectOf,
  objectsIn,
  asString,
  type HelmOverrides,
  type JsonObject,
} from "../../base/model/index.ts";
import {
  endOrphanedProcesses,
  ensureTempDir,
  type Children,
  type RunResult,
} from "../../base/process/index.ts";
import { span } from "../../base/trace/index.ts";
import { HelmBinary, helmEnvironment, RELEASE_VARIABLE, SERVER_VARIABLE } from "./binary.ts";
import { HelmError, UnreadObjectsError } from "./helm-errors.ts";
import { extractReason, UNREAD_OBJECTS } from "./helm-messages.ts";
import { HelmPlaces } from "./memory.ts";
import { redactHelmError } from "./reported-error.ts";

/** Reports what happened in the work with helm and releases; its methods are cheap and never throw. */
export interface HelmReport {
  /** A helm process of a release has ended. */
  ran(command: { release: string; operation: HelmOperation; seconds: number }): void;
  /** A module is about to adopt a release that was installed with helm. */
  adopted(release: string): void;
  /** A release adopts these existing objects, each named with its owner. */
  tookOver(release: string, objects: readonly string[]): void;
  /** Objects were removed from the record of a release, or moved to another version, because their kinds are not served. */
  forgotKinds(release: string, objects: readonly string[]): void;
  /** The reconciliation of a release has succeeded or failed. */
  reconciled(release: string, seconds: number): void;
  /** Finalizers keep these former objects of a release; an empty list when they are deleted. */
  leftoversChanged(release: string, objects: readonly string[]): void;
  /** A watch of the operator's own objects fails; undefined = it works again. */
  ownWatchChanged(what: string, error: Error | undefined): void;
}

type HelmOperation = "template" | "check-upgrade" | "upgrade" | "rollback" | "uninstall";

export interface HelmOptions {
  readonly children: Pick<Children, "run">;
  /** A path, or a name on PATH (`--helm-bin`). */
  readonly bin: string;
  readonly namespace: string;
  /** Digest that marks this operator's releases (`managedByDigest`). */
  readonly managedBy: string;
  /** The API server: the same namespace and ConfigMap of another cluster are another operator's. */
  readonly server: string;
  /** `--helm-timeout`. */
  readonly timeoutMs: number;
  readonly historyMax: number;
  /** Validate against the server's OpenAPI schema, which costs 200 ms a run (`--helm-validate`). */
  readonly validate: boolean;
  readonly tmpDir: string;
  /** The whole environment of helm. */
  readonly env: Readonly<Record<string, string>>;
  /** helm's connection to the API server; without it helm works without a cluster. */
  readonly kubeconfig?: Pick<PrivateKubeconfig, "path" | "refresh"> | undefined;
  /** The user as whom helm acts by impersonation; undefined = the user of the kubeconfig. */
  readonly user?: string | undefined;
  /** Hides secrets of the values of a release in what helm says. */
  readonly hideOf?: ((release: string) => (text: string) => string) | undefined;
  readonly logger: Logger;
  readonly clock: Clock;
  readonly report?: HelmReport | undefined;
  /** Default: as many as fit into the memory limit of this process. */
  readonly places?: HelmPlaces;
}

/** What the helms of all namespaces have in common. */
interface SharedByHelms {
  readonly binary: HelmBinary;
  readonly places: HelmPlaces;
}

export interface ReleaseOptions {
  readonly release: string;
  /** Settings of the module that override the operator's. */
  readonly overrides?: HelmOverrides | undefined;
  readonly signal: AbortSignal;
}

export interface ChartOptions extends ReleaseOptions {
  readonly chartDir: string;
  readonly valuesFile: string;
}

export interface OfflineRenderOptions {
  readonly includeCrds?: boolean | undefined;
  /** Without hooks of the kind `test`. */
  readonly skipTests?: boolean | undefined;
  /** Of the API server; helm's own default where it is not given. */
  readonly kubeVersion?: string | undefined;
  /** Versions and kinds in `.Capabilities.APIVersions` besides those that helm assumes, such as `apps/v1` and `apps/v1/Deployment`. */
  readonly apiVersions?: readonly string[] | undefined;
}

export interface UpgradeOptions extends ChartOptions {
  readonly labels: Readonly<Record<string, string>>;
  /** How the last revision was applied; undefined when there is none. */
  readonly applyMethod: "csa" | "ssa" | undefined;
  /** In place of `--helm-history-max`. */
  readonly historyMax?: number | undefined;
}

type CommandOptions = ReleaseOptions & Partial<Pick<ChartOptions, "chartDir" | "valuesFile">>;

/** Time after SIGTERM in which helm marks its release failed. */
const GRACE_MS = 20_000;
/** helm's own directory below the temp directory. */
const HOME = "helm-home";
const MANIFEST_LIMIT = 256 * 1024 * 1024;
const HANG_MARGIN_MS = 60_000;

/** helm as a process of this operator. Every verb throws HelmError, or ProblemError when helm is missing. */
export class Helm {
  readonly #options: HelmOptions;
  readonly #home: string;
  readonly #binary: HelmBinary;
  readonly #places: HelmPlaces;

  /** `shared` with another `Helm`, so that both know the version after one query, and fit into the memory together. */
  constructor(options: HelmOptions, shared?: SharedByHelms) {
    this.#options = options;
    this.#home = join(options.tmpDir, HOME);
    this.#binary = shared?.binary ?? new HelmBinary(options.bin, options.env["PATH"], this.#home);
    this.#places = shared?.places ?? options.places ?? new HelmPlaces();
  }

  /** The same helm for releases of a namespace, acting as `user` by impersonation if there is one. */
  forNamespace(namespace: string, user?: string): Helm {
    return new Helm({ ...this.#options, namespace, user }, { binary: this.#binary, places: this.#places });
  }

  /** Throws ProblemError if there is no helm binary. Starts no process. */
  requireBinary(): void {
    this.#binary.locate();
  }

  /** Path, size and time of the helm binary, which digests of inputs of version 0.2 contain instead of the version of helm. */
  getBinaryId(): string {
    return this.#binary.locate().id;
  }

  /** The version of helm, such as `v4.2.4`. */
  getVersion(): Promise<string> {
    return this.#binary.getVersion(async () => {
      // Concurrent callers share the answer, so that none of them may cancel the process.
      const options = { release: "", signal: new AbortController().signal };
      return (await this.#run("version", ["--template", "{{.Version}}"], options)).stdout;
    });
  }

  /** The major version of helm, 3 or 4. */
  async getMajorVersion(): Promise<number> {
    return Number(/^v?(\d)/.exec(await this.getVersion())?.[1]);
  }

  /** Manifest and hooks as `helm template` prints them, without the server. */
  async template(
    options: ChartOptions & { readonly isUpgrade: boolean } & OfflineRenderOptions,
  ): Promise<string> {
    const args = [options.release, options.chartDir, "-f", options.valuesFile];
    if (options.isUpgrade) args.push("--is-upgrade");
    if (options.includeCrds === true) args.push("--include-crds");
    if (options.skipTests === true) args.push("--skip-tests");
    if (options.kubeVersion !== undefined) args.push(`--kube-version=${options.kubeVersion}`);
    args.push(...formatApiVersions(options.apiVersions ?? []));
    const result = await this.#run("template", args, options);
    if (result.stdoutTruncated) throw new Error(`the manifest of ${options.release} is larger than 256 MiB`);
    return result.stdout;
  }

  /**
   * The texts of the manifest and of each hook as an upgrade would store them, rendered with the server's data (`lookup`, `.Capabilities`).
   */
  async dryRun(options: UpgradeOptions): Promise<string[]> {
    // The owners of existing objects do not affect the rendering, and a dry run changes no object.
    const dryRun = ["--take-ownership", "--dry-run=server", "-o", "json"];
    const args = [...(await this.#upgradeArgs(options)), ...dryRun];
    const { stdout } = await this.#run("upgrade", args, options);
    const release = objectOf(JSON.parse(stdout));
    return [release, ...objectsIn(release["hooks"])].map(({ manifest }) => asString(manifest) ?? "");
  }

  /** The definitions in `crds/` of a chart and of all its sub-charts, as text. */
  async showCrds(options: ChartOptions): Promise<string> {
    return (await this.#run("show", ["crds", options.chartDir], options)).stdout;
  }

  /** `helm upgrade --install`, without the files in `crds/`: helm 4 refuses unknown fields in them, and overwrites installed CRDs. */
  async upgradeInstall(options: UpgradeOptions): Promise<void> {
    const labels = Object.entries(options.labels).map(([key, value]) => `${key}=${value}`);
    const args = [...(await this.#upgradeArgs(options)), "--labels", labels.join(",")];
    if (options.overrides?.wait === true) args.push("--wait");
    await this.#run("upgrade", args, options);
  }

  /** `helm rollback` to a revision. */
  async rollback(
    options: ReleaseOptions &
      Pick<UpgradeOptions, "applyMethod" | "historyMax"> & { readonly revision: number },
  ): Promise<void> {
    const args = [options.release, String(options.revision), ...(await this.#applyArgs(options))];
    await this.#run("rollback", args, options);
  }

  /** `helm uninstall --keep-history`. Throws UnreadObjectsError if helm succeeds but leaves objects that it could not read. */
  async uninstall(options: ReleaseOptions): Promise<void> {
    const args = [options.release, "--keep-history", ...this.#timeoutArgs(options)];
    const result = await this.#run("uninstall", args, options);
    const [, unread] = result.stdout.split(UNREAD_OBJECTS, 2);
    if (unread === undefined) return;
    const objects = unread.split("\n").filter((line) => line.startsWith("["));
    const stderr = `Error: objects are not deleted, because helm could not read them: ${objects.join("; ")}`;
    const failed: RunResult = { ...result, outcome: "failed", stderr };
    const message = this.#describeFailure(failed, options);
    throw new UnreadObjectsError(`uninstall ${options.release}`, { ...failed, message });
  }

  #timeoutArgs(options: ReleaseOptions): string[] {
    return ["--timeout", `${this.#timeoutMs(options)}ms`];
  }

  /** The arguments that an upgrade and its dry run share. */
  async #upgradeArgs(options: UpgradeOptions): Promise<string[]> {
    const { validate } = this.#options;
    const args = ["--install", options.release, options.chartDir, "-f", options.valuesFile, "--reset-values"];
    args.push("--skip-crds");
    if (!validate) args.push("--disable-openapi-validation");
    return [...args, ...(await this.#applyArgs(options))];
  }

  /** Arguments of all verbs that apply objects: history, time limit and apply method. */
  async #applyArgs(
    options: ReleaseOptions & Pick<UpgradeOptions, "applyMethod" | "historyMax">,
  ): Promise<string[]> {
    const { historyMax } = this.#options;
    const args = ["--history-max", String(options.historyMax ?? historyMax), ...this.#timeoutArgs(options)];
    if ((await this.getMajorVersion()) < 4) return args;
    // Without a flag, helm applies a release as its last revision was applied, with client-side (`csa`) or server-side apply; helm 4 uses
    // the latter for new releases.
    const { apply = "auto" } = options.overrides ?? {};
    if (apply === "client") args.push("--server-side=false");
    else if (apply === "server" || options.applyMethod !== "csa")
      args.push("--server-side=true", "--force-conflicts");
    return args;
  }

  /**
   * Ends helm processes that an earlier operator process left running, for one release or for all: they would change releases behind
   * this process. SIGTERM first, so that helm can mark its release failed, then SIGKILL. Their environment identifies them.
   */
  endOrphanedProcesses(signal?: AbortSignal, release?: string): Promise<void> {
    const { managedBy, server, clock } = this.#options;
    const prefix = `${RELEASE_VARIABLE}=${managedBy}/`;
    const namesRelease = (variable: string): boolean =>
      release === undefined ? variable.startsWith(prefix) : variable === prefix + release;
    const isOurs = (environment: readonly string[]): boolean =>
      environment.includes(`${SERVER_VARIABLE}=${server}`) && environment.some(namesRelease);
    return endOrphanedProcesses(isOurs, { clock, graceMs: GRACE_MS, signal });
  }

  /** How long helm may take: the time limit of the module, or else the operator's. */
  #timeoutMs({ overrides }: ReleaseOptions): number {
    return parseDuration(overrides?.timeout ?? "") ?? this.#options.timeoutMs;
  }

  /** Runs helm as a span of the trace. */
  #run(verb: string, args: readonly string[], options: CommandOptions): Promise<RunResult> {
    const attributes = { release: options.release, dryRun: args.includes("--dry-run=server") || undefined };
    return span({ kind: "helm", name: `helm ${verb}`, attributes }, () =>
      this.#runProcess(verb, args, options),
    );
  }

  /** Runs helm, logs and counts the result, and removes secrets from its message. Throws HelmError if helm fails. */
  async #runProcess(verb: string, args: readonly string[], options: CommandOptions): Promise<RunResult> {
    const { children, namespace, logger, clock, kubeconfig, tmpDir } = this.#options;
    ensureTempDir(tmpDir, HOME);
    const { goMemLimit, dataLimit } = this.#places;
    const request = {
      memoryLimit: dataLimit,
      file: this.#binary.locate().path,
      args: [verb, ...args, ...(verb === "version" ? [] : ["-n", namespace, ...this.#connectionArgs()])],
      cwd: this.#home,
      env: helmEnvironment({ ...this.#options, home: this.#home, release: options.release, goMemLimit }),
      // helm observes its own time limit; this later one ends a helm that hangs.
      timeoutMs: this.#timeoutMs(options) + HANG_MARGIN_MS,
      signal: options.signal,
      graceMs: GRACE_MS,
      stdoutLimit: MANIFEST_LIMIT,
      redact: this.#options.hideOf?.(options.release),
      clock,
    };
    const ended = await this.#places.run(options.signal, async () => {
      await kubeconfig?.refresh();
      return children.run(request);
    });
    const result = { ...ended, message: this.#describeFailure(ended, options) };
    logger.debug("Ran helm", {
      verb,
      release: options.release,
      ms: Math.round(result.durationMs),
      ...failureFields(result),
    });
    const operation = getOperation(verb, args);
    if (operation !== undefined)
      this.#options.report?.ran({ release: options.release, operation, seconds: result.durationMs / 1000 });
    if (result.outcome === "succeeded") return result;
    throw new HelmError(`${verb} ${options.release}`.trim(), withAbortReason(result, options.signal));
  }

  /** The reason of a failure in one line, without secrets. */
  #describeFailure(ended: RunResult, options: CommandOptions): string {
    const { namespace } = this.#options;
    return extractReason(ended, (stderr) => redactHelmError(stderr, { ...options, namespace }));
  }

  /** Arguments for the connection to the API server; none if helm works without a cluster. */
  #connectionArgs(): string[] {
    const { kubeconfig, user } = this.#options;
    if (kubeconfig === undefined) return [];
    return ["--kubeconfig", kubeconfig.path, ...(user === undefined ? [] : ["--kube-as-user", user])];
  }
}

/** The system limits one argument to 128 KiB. */
const API_VERSIONS_PER_ARGUMENT = 500;

function formatApiVersions(apiVersions: readonly string[]): string[] {
  const args: string[] = [];
  for (let from = 0; from < apiVersions.length; from += API_VERSIONS_PER_ARGUMENT)
    args.push(`--api-versions=${apiVersions.slice(from, from + API_VERSIONS_PER_ARGUMENT).join(",")}`);
  return args;
}

/** Adds the reason of the abort to the result of a helm that this operator ended. */
function withAbortReason(result: RunResult, { aborted, reason }: AbortSignal): RunResult {
  if (result.outcome !== "cancelled") return result;
  const why = aborted ? oneLine(reason) : "the operator stops, or has lost its lease";
  return { ...result, message: `cancelled: ${why}` };
}

/** Log fields about a helm that failed; none after a success. */
function failureFields(result: RunResult): JsonObject {
  return result.outcome === "succeeded" ? {} : { outcome: result.outcome, error: result.message };
}

/** The operation that metrics count; undefined for a verb that they do not count. */
function getOperation(verb: string, args: readonly string[]): HelmOperation | undefined {
  if (verb === "upgrade") return args.includes("--dry-run=server") ? "check-upgrade" : "upgrade";
  return verb === "template" || verb === "rollback" || verb === "uninstall" ? verb : undefined;
}
