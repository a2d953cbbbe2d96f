/** Starts helm as a process: its binary, its home, its environment, its time. */

import { mkdir } from "node:fs/promises";
import { join } from "node:path";

import { parseDuration, type Clock, type Logger } from "../../lib/index.ts";
import type { HelmTerms, JsonObject } from "../../model/index.ts";
import { endStrays, run, type RunResult } from "../../process/index.ts";
import { span } from "../../trace/index.ts";
import { locate, noteMajor, notedMajor, type Binary } from "./binary.ts";
import { HelmError } from "./helm-errors.ts";

/** Called with what helm does; its methods are cheap and never throw. */
export interface HelmRecorder {
  /** A helm process of a release has ended. */
  ran(command: { release: string; operation: HelmOperation; seconds: number }): void;
  /** A module is about to take over a release that somebody made with helm. */
  adopted(release: string): void;
  /** A release is about to take these objects over from other releases. */
  tookOver(release: string, objects: readonly string[]): void;
  /** Everything that a run had to do about a release is done, or failed. */
  reconciled(release: string, seconds: number): void;
}

type HelmOperation = "template" | "check-upgrade" | "upgrade" | "rollback" | "uninstall";

export interface HelmOptions {
  /** A path, or a name on PATH (`--helm-bin`). */
  readonly bin: string;
  readonly namespace: string;
  /** Digest that marks this operator's releases (`managedByDigest`). */
  readonly managedBy: string;
  /** `--helm-timeout`. */
  readonly timeoutMs: number;
  readonly historyMax: number;
  /** Validate against the server's OpenAPI schema, which costs 200 ms a run (`--helm-validate`). */
  readonly validate: boolean;
  readonly tmpDir: string;
  /** The whole environment of helm. */
  readonly env: Readonly<Record<string, string>>;
  readonly kubeConfig?: string | undefined;
  readonly kubeContext?: string | undefined;
  readonly logger: Logger;
  readonly clock: Clock;
  readonly recorder?: HelmRecorder;
}

/** Work on one release. */
export interface ReleaseCall {
  readonly release: string;
  /** What the module says in place of the settings. */
  readonly terms?: HelmTerms | undefined;
  readonly signal: AbortSignal;
}

/** One process. */
interface ProcessCall extends ReleaseCall {
  /** What helm reads from its standard input. */
  readonly gate?: Promise<string>;
}

/** Environment variable that marks every helm of this operator with its release. */
export const MARK = "ADDON_OPERATOR_HELM_RELEASE";

/** helm gets this long after SIGTERM: it marks its release failed. */
const GRACE_MS = 20_000;
const MANIFEST_LIMIT = 256 * 1024 * 1024;
/** helm has time limits of its own; this one ends a helm that hangs. */
const SPARE_MS = 60_000;

/** helm as a process of this operator. Throws HelmError, or ProblemError when helm is missing. */
export class HelmProcess {
  protected readonly options: HelmOptions;
  readonly #home: string;
  readonly #majors = new Map<string, Promise<number>>();
  #homeReady = false;

  constructor(options: HelmOptions) {
    this.options = options;
    this.#home = join(options.tmpDir, "helm-home");
  }

  /** Path, size and time of the binary, without a process. */
  identity(): string {
    return locate(this.options.bin, this.options.env["PATH"]).id;
  }

  /** 3 or 4; helm is asked once for each binary, across restarts. */
  async major(signal?: AbortSignal): Promise<number> {
    const binary = locate(this.options.bin, this.options.env["PATH"]);
    const asked = this.#majors.get(binary.id) ?? this.#findMajor(binary, signal);
    this.#majors.set(binary.id, asked);
    try {
      return await asked;
    } catch (error) {
      this.#majors.delete(binary.id);
      throw error;
    }
  }

  async #findMajor(binary: Binary, signal: AbortSignal | undefined): Promise<number> {
    const noted = await notedMajor(this.#home, binary);
    if (noted !== undefined) return noted;
    const major = await this.#askMajor(signal);
    await noteMajor(this.#home, binary, major);
    return major;
  }

  async #askMajor(signal: AbortSignal | undefined): Promise<number> {
    const call = { release: "", signal: signal ?? new AbortController().signal };
    const { stdout } = await this.run("version", ["--template", "{{.Version}}"], call);
    const major = Number(/^v?(\d+)\./.exec(stdout.trim())?.[1]);
    if (major === 3 || major === 4) return major;
    throw new Error(`helm ${stdout.trim()} is not supported: install helm 3 or 4, or set --helm-bin`);
  }

  /**
   * Ends helm processes that an earlier operator process left, of one release or of all: with SIGTERM, so that they
   * can mark their release, then with SIGKILL.
   */
  endLeftOver(signal?: AbortSignal, release?: string): Promise<void> {
    const { managedBy, clock } = this.options;
    const ours = `${MARK}=${managedBy}/`;
    const isMark = (each: string): boolean =>
      release === undefined ? each.startsWith(ours) : each === ours + release;
    return endStrays((environment) => environment.some(isMark), { clock, graceMs: GRACE_MS, signal });
  }

  /** How long helm may take. */
  protected timeoutMs({ terms }: ReleaseCall): number {
    return parseDuration(terms?.timeout ?? "") ?? this.options.timeoutMs;
  }

  protected run(verb: string, args: readonly string[], call: ProcessCall): Promise<RunResult> {
    const attributes = { release: call.release, dryRun: args.includes("--dry-run=server") || undefined };
    return span({ kind: "helm", name: `helm ${verb}`, attributes }, () => this.#start(verb, args, call));
  }

  async #start(verb: string, args: readonly string[], call: ProcessCall): Promise<RunResult> {
    await this.#prepareHome();
    const { namespace, bin, env, logger, clock } = this.options;
    const binary = locate(bin, env["PATH"]);
    const result = await run({
      file: binary.path,
      args: [verb, ...args, ...(verb === "version" ? [] : ["-n", namespace, ...this.#connection()])],
      cwd: this.#home,
      env: this.#environment(call.release),
      timeoutMs: this.timeoutMs(call) + SPARE_MS,
      signal: call.signal,
      graceMs: GRACE_MS,
      stdoutLimit: MANIFEST_LIMIT,
      input: call.gate,
      clock,
    });
    logger.debug("Ran helm", {
      verb,
      release: call.release,
      ms: Math.round(result.durationMs),
      ...outcome(result),
    });
    const operation = operationOf(verb, args);
    if (operation !== undefined)
      this.options.recorder?.ran({ release: call.release, operation, seconds: result.durationMs / 1000 });
    if (result.outcome !== "succeeded") throw new HelmError(`${verb} ${call.release}`.trim(), result);
    return result;
  }

  #connection(): string[] {
    const { kubeConfig, kubeContext } = this.options;
    const args: string[] = [];
    if (kubeConfig !== undefined) args.push("--kubeconfig", kubeConfig);
    if (kubeContext !== undefined) args.push("--kube-context", kubeContext);
    return args;
  }

  /** HOME stays where it is set: credential plug-ins of kubeconfigs live there. */
  #environment(release: string): Record<string, string> {
    const home = this.#home;
    return {
      HOME: home,
      // helm lives for a short time: collecting garbage below this size only costs time (10 % of an upgrade).
      GOGC: "off",
      GOMEMLIMIT: "256MiB",
      ...this.options.env,
      HELM_CACHE_HOME: join(home, "cache"),
      HELM_CONFIG_HOME: join(home, "config"),
      HELM_DATA_HOME: join(home, "data"),
      KUBECACHEDIR: join(home, "kube"),
      HELM_DRIVER: "secret",
      [MARK]: `${this.options.managedBy}/${release}`,
    };
  }

  async #prepareHome(): Promise<void> {
    if (this.#homeReady) return;
    await mkdir(this.#home, { recursive: true, mode: 0o700 });
    this.#homeReady = true;
  }
}

function outcome(result: RunResult): JsonObject {
  return result.outcome === "succeeded" ? {} : { outcome: result.outcome, error: result.message };
}

function operationOf(verb: string, args: readonly string[]): HelmOperation | undefined {
  if (verb === "upgrade") return args.includes("--dry-run=server") ? "check-upgrade" : "upgrade";
  return verb === "template" || verb === "rollback" || verb === "uninstall" ? verb : undefined;
}
