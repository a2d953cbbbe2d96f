/** Runs helm 3 and 4 as a process: arguments, home, environment and time limits. */

import { join } from "node:path";

import { oneLine, parseDuration, type Clock, type Logger } from "../../lib/index.ts";
import type { PrivateKubeconfig } from "../../kube/index.ts";
import { objectOf, objectsIn, asString, type HelmTerms, type JsonObject } from "../../model/index.ts";
import { endStrays, useTempDir, type Children, type RunResult } from "../../process/index.ts";
import { span } from "../../trace/index.ts";
import { HelmBinary } from "./binary.ts";
import { HelmError, reasonOf } from "./helm-errors.ts";
import { helmEnvironment, MARK, SERVER } from "./helm-environment.ts";
import { reportedError } from "./reported-error.ts";

/** Receives the events of work with helm; its methods are cheap and never throw. */
export interface HelmRecorder {
  /** A helm process of a release has ended. */
  ran(command: { release: string; operation: HelmOperation; seconds: number }): void;
  /** A module is about to adopt a release that was installed with helm. */
  adopted(release: string): void;
  /** A release adopts these existing objects, each named with its owner. */
  tookOver(release: string, objects: readonly string[]): void;
  /** The reconciliation of a release has succeeded or failed. */
  reconciled(release: string, seconds: number): void;
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
  readonly recorder?: HelmRecorder;
}

/** Work on one release. */
export interface ReleaseCall {
  readonly release: string;
  /** Terms of the module that override the settings. */
  readonly terms?: HelmTerms | undefined;
  readonly signal: AbortSignal;
}

/** One chart to be rendered or released. */
export interface ChartCall extends ReleaseCall {
  readonly chartDir: string;
  readonly valuesFile: string;
}

/** How a chart is rendered without a cluster. */
export interface OfflineTerms {
  readonly includeCrds?: boolean | undefined;
  /** Without hooks of the kind `test`. */
  readonly skipTests?: boolean | undefined;
  /** Of the API server; helm's own default where it is not given. */
  readonly kubeVersion?: string | undefined;
}

export interface UpgradeCall extends ChartCall {
  readonly labels: Readonly<Record<string, string>>;
  /** How the last revision was applied; undefined when there is none. */
  readonly applyMethod: "csa" | "ssa" | undefined;
  /** In place of `--helm-history-max`. */
  readonly historyMax?: number | undefined;
}

type Call = ReleaseCall & Partial<Pick<ChartCall, "chartDir" | "valuesFile">>;

/** helm has no exit code for this. */
const UNKNOWN_KIND = "ensure CRDs are installed first";

/** Time after SIGTERM in which helm marks its release failed. */
const GRACE_MS = 20_000;
/** helm's own directory below the temp directory. */
const HOME = "helm-home";
const MANIFEST_LIMIT = 256 * 1024 * 1024;
/** Added to helm's own time limit, for a helm that hangs. */
const MARGIN_MS = 60_000;

/** helm as a process of this operator. Every verb throws HelmError, or ProblemError when helm is missing. */
export class Helm {
  readonly #options: HelmOptions;
  readonly #home: string;
  readonly #binary: HelmBinary;

  constructor(options: HelmOptions, binary?: HelmBinary) {
    this.#options = options;
    this.#home = join(options.tmpDir, HOME);
    this.#binary = binary ?? new HelmBinary(options.bin, options.env["PATH"], this.#home);
  }

  /** The same helm for releases of a namespace, acting as `user` by impersonation if there is one. */
  in(namespace: string, user?: string): Helm {
    return new Helm({ ...this.#options, namespace, user }, this.#binary);
  }

  /** Path, size and time of the binary, without a process. */
  identity(): string {
    return this.#binary.locate().id;
  }

  /** 3 or 4. */
  major(signal = new AbortController().signal): Promise<number> {
    const ask = async (): Promise<string> => {
      const call = { release: "", signal };
      return (await this.#run("version", ["--template", "{{.Version}}"], call)).stdout;
    };
    return this.#binary.major(ask);
  }

  /** Manifest and hooks as `helm template` prints them, without the server. */
  async template(call: ChartCall & { readonly isUpgrade: boolean } & OfflineTerms): Promise<string> {
    const args = [call.release, call.chartDir, "-f", call.valuesFile];
    if (call.isUpgrade) args.push("--is-upgrade");
    if (call.includeCrds === true) args.push("--include-crds");
    if (call.skipTests === true) args.push("--skip-tests");
    if (call.kubeVersion !== undefined) args.push(`--kube-version=${call.kubeVersion}`);
    const result = await this.#run("template", args, call);
    if (result.stdoutTruncated) throw new Error(`the manifest of ${call.release} is larger than 256 MiB`);
    return result.stdout;
  }

  /**
   * Manifest and hooks as an upgrade would store them, rendered with the server's data (`lookup`, `.Capabilities`).
   * Without the server where it lacks kinds of the chart: CRDs of sub-charts come only with the installation
   * itself.
   */
  async dryRun(call: UpgradeCall): Promise<string[]> {
    try {
      return await this.#dryRun(call);
    } catch (error) {
      if (!(error instanceof HelmError) || !error.result.stderr.includes(UNKNOWN_KIND)) throw error;
      return [await this.template({ ...call, isUpgrade: false })];
    }
  }

  async #dryRun(call: UpgradeCall): Promise<string[]> {
    // The owners of existing objects do not affect the rendering, and a dry run changes no object.
    const dryRun = ["--take-ownership", "--dry-run=server", "-o", "json"];
    const args = [...(await this.#upgradeArgs(call)), ...dryRun];
    const { stdout } = await this.#run("upgrade", args, call);
    const release = objectOf(JSON.parse(stdout));
    return [release, ...objectsIn(release["hooks"])].map(({ manifest }) => asString(manifest) ?? "");
  }

  /** `helm upgrade --install`. A first installation creates CRDs of sub-charts that are missing. */
  async upgradeInstall(call: UpgradeCall): Promise<void> {
    const labels = Object.entries(call.labels).map(([key, value]) => `${key}=${value}`);
    const args = [...(await this.#upgradeArgs(call)), "--labels", labels.join(",")];
    if (call.terms?.wait === true) args.push("--wait");
    await this.#run("upgrade", args, call);
  }

  /** `helm rollback` to a revision. */
  async rollback(
    call: ReleaseCall & Pick<UpgradeCall, "applyMethod" | "historyMax"> & { readonly revision: number },
  ): Promise<void> {
    const args = [call.release, String(call.revision), ...(await this.#applyArgs(call))];
    await this.#run("rollback", args, call);
  }

  /** `helm uninstall --keep-history`. */
  async uninstall(call: ReleaseCall): Promise<void> {
    const args = [call.release, "--keep-history", ...this.#timeout(call)];
    await this.#run("uninstall", args, call);
  }

  #timeout(call: ReleaseCall): string[] {
    return ["--timeout", `${this.#timeoutMs(call)}ms`];
  }

  async #upgradeArgs(call: UpgradeCall): Promise<string[]> {
    const { validate } = this.#options;
    const args = ["--install", call.release, call.chartDir, "-f", call.valuesFile, "--reset-values"];
    if (!validate) args.push("--disable-openapi-validation");
    return [...args, ...(await this.#applyArgs(call))];
  }

  /** Arguments of all verbs that apply objects: history, time limit and apply method. */
  async #applyArgs(call: ReleaseCall & Pick<UpgradeCall, "applyMethod" | "historyMax">): Promise<string[]> {
    const { historyMax } = this.#options;
    const args = ["--history-max", String(call.historyMax ?? historyMax), ...this.#timeout(call)];
    // helm applies a release as its last revision was applied; new releases of helm 4 use server-side apply.
    const serverSide = call.applyMethod !== "csa" && (await this.major(call.signal)) >= 4;
    if (serverSide) args.push("--server-side=true", "--force-conflicts");
    return args;
  }

  /**
   * Ends orphaned helm processes of an earlier operator process, for one release or for all: with SIGTERM, so that they can
   * mark their release, then with SIGKILL.
   */
  endLeftOver(signal?: AbortSignal, release?: string): Promise<void> {
    const { managedBy, server, clock } = this.#options;
    const ours = `${MARK}=${managedBy}/`;
    const isMark = (each: string): boolean =>
      release === undefined ? each.startsWith(ours) : each === ours + release;
    const isOurs = (environment: readonly string[]): boolean =>
      environment.includes(`${SERVER}=${server}`) && environment.some(isMark);
    return endStrays(isOurs, { clock, graceMs: GRACE_MS, signal });
  }

  /** How long helm may take. */
  #timeoutMs({ terms }: ReleaseCall): number {
    return parseDuration(terms?.timeout ?? "") ?? this.#options.timeoutMs;
  }

  #run(verb: string, args: readonly string[], call: Call): Promise<RunResult> {
    const attributes = { release: call.release, dryRun: args.includes("--dry-run=server") || undefined };
    return span({ kind: "helm", name: `helm ${verb}`, attributes }, () => this.#runProcess(verb, args, call));
  }

  /** Runs helm and logs the result. Throws HelmError if helm fails. */
  async #runProcess(verb: string, args: readonly string[], call: Call): Promise<RunResult> {
    const { children, namespace, logger, clock, kubeconfig, tmpDir } = this.#options;
    await useTempDir(tmpDir, HOME);
    await kubeconfig?.refresh();
    const ended = await children.run({
      file: this.#binary.locate().path,
      args: [verb, ...args, ...(verb === "version" ? [] : ["-n", namespace, ...this.#connection()])],
      cwd: this.#home,
      env: helmEnvironment({ ...this.#options, home: this.#home, release: call.release }),
      timeoutMs: this.#timeoutMs(call) + MARGIN_MS,
      signal: call.signal,
      graceMs: GRACE_MS,
      stdoutLimit: MANIFEST_LIMIT,
      hide: this.#options.hideOf?.(call.release),
      clock,
    });
    const message = reasonOf(ended, (stderr) => reportedError(stderr, { ...call, namespace }));
    const result = { ...ended, message };
    logger.debug("Ran helm", {
      verb,
      release: call.release,
      ms: Math.round(result.durationMs),
      ...outcome(result),
    });
    const operation = operationOf(verb, args);
    if (operation !== undefined)
      this.#options.recorder?.ran({ release: call.release, operation, seconds: result.durationMs / 1000 });
    if (result.outcome === "succeeded") return result;
    throw new HelmError(`${verb} ${call.release}`.trim(), withAbortReason(result, call.signal));
  }

  /** Arguments for the connection to the API server; none if helm works without a cluster. */
  #connection(): string[] {
    const { kubeconfig, user } = this.#options;
    if (kubeconfig === undefined) return [];
    return ["--kubeconfig", kubeconfig.path, ...(user === undefined ? [] : ["--kube-as-user", user])];
  }
}

/** Adds the reason of the abort to the result of a helm that this operator ended. */
function withAbortReason(result: RunResult, { aborted, reason }: AbortSignal): RunResult {
  if (result.outcome !== "cancelled") return result;
  const why = aborted ? oneLine(reason) : "the operator stops, or has lost its lease";
  return { ...result, message: `cancelled: ${why}` };
}

function outcome(result: RunResult): JsonObject {
  return result.outcome === "succeeded" ? {} : { outcome: result.outcome, error: result.message };
}

/** The operation that metrics count; undefined for a verb that they do not count. */
function operationOf(verb: string, args: readonly string[]): HelmOperation | undefined {
  if (verb === "upgrade") return args.includes("--dry-run=server") ? "check-upgrade" : "upgrade";
  return verb === "template" || verb === "rollback" || verb === "uninstall" ? verb : undefined;
}
