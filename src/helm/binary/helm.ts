/** Runs helm 3 and 4: the arguments of template, upgrade, rollback, uninstall. */

import { objectOf, objectsIn, textOf } from "../../model/index.ts";
import { HelmError } from "./helm-errors.ts";
import { HelmProcess, type ReleaseCall } from "./helm-process.ts";

/** One chart to be rendered or released. */
export interface ChartCall extends ReleaseCall {
  readonly chartDir: string;
  readonly valuesFile: string;
}

export interface UpgradeCall extends ChartCall {
  readonly labels: Readonly<Record<string, string>>;
  /**
   * Take over objects that exist and belong to nobody or to another release; otherwise helm refuses, and changes
   * nothing.
   */
  readonly takeOwnership?: boolean;
  /** How the last revision was applied; undefined when there is none. */
  readonly applyMethod: "csa" | "ssa" | undefined;
  /** In place of `--helm-history-max`. */
  readonly historyMax?: number | undefined;
  /**
   * Values that helm reads from its standard input before the values file: it starts, and changes nothing until
   * they come. If they never come, helm finds no values file and fails.
   */
  readonly gate?: Promise<string>;
}

/** helm has no exit code for this. */
const UNKNOWN_KIND = "ensure CRDs are installed first";

/** The verbs of helm. Every verb throws HelmError, or ProblemError when helm is missing. */
export class Helm extends HelmProcess {
  /** Manifest and hooks as `helm template` prints them; the server is not asked. */
  async template(
    call: ChartCall & { readonly isUpgrade: boolean; readonly includeCrds?: boolean },
  ): Promise<string> {
    const args = [call.release, call.chartDir, "-f", call.valuesFile];
    if (call.isUpgrade) args.push("--is-upgrade");
    if (call.includeCrds === true) args.push("--include-crds");
    const result = await this.run("template", args, call);
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
    const taking = { ...call, takeOwnership: true };
    const args = [...(await this.#upgradeArgs(taking)), "--dry-run=server", "-o", "json"];
    const { stdout } = await this.run("upgrade", args, call);
    const release = objectOf(JSON.parse(stdout));
    return [release, ...objectsIn(release["hooks"])].map(({ manifest }) => textOf(manifest) ?? "");
  }

  /** `helm upgrade --install`. A first installation creates CRDs of sub-charts that are missing. */
  async upgradeInstall(call: UpgradeCall): Promise<void> {
    const labels = Object.entries(call.labels).map(([key, value]) => `${key}=${value}`);
    const args = [...(await this.#upgradeArgs(call)), "--labels", labels.join(",")];
    if (call.terms?.wait === true) args.push("--wait");
    await this.run("upgrade", args, call);
  }

  /** `helm rollback` to a revision. */
  async rollback(
    call: ReleaseCall & Pick<UpgradeCall, "applyMethod" | "historyMax"> & { readonly revision: number },
  ): Promise<void> {
    const args = [call.release, String(call.revision), ...(await this.#applyArgs(call))];
    await this.run("rollback", args, call);
  }

  /** `helm uninstall --keep-history`. */
  async uninstall(call: ReleaseCall): Promise<void> {
    const args = [call.release, "--keep-history", ...this.#timeout(call)];
    await this.run("uninstall", args, call);
  }

  #timeout(call: ReleaseCall): string[] {
    return ["--timeout", `${this.timeoutMs(call)}ms`];
  }

  async #upgradeArgs(call: UpgradeCall): Promise<string[]> {
    const { validate } = this.options;
    const gate = call.gate === undefined ? [] : ["-f", "-"];
    const args = ["--install", call.release, call.chartDir, ...gate, "-f", call.valuesFile, "--reset-values"];
    if (call.takeOwnership === true) args.push("--take-ownership");
    if (!validate) args.push("--disable-openapi-validation");
    return [...args, ...(await this.#applyArgs(call))];
  }

  async #applyArgs(call: ReleaseCall & Pick<UpgradeCall, "applyMethod" | "historyMax">): Promise<string[]> {
    const { historyMax } = this.options;
    const args = ["--history-max", String(call.historyMax ?? historyMax), ...this.#timeout(call)];
    // helm applies a release as its last revision was applied; new releases of helm 4 use server-side apply.
    const serverSide = call.applyMethod !== "csa" && (await this.major(call.signal)) >= 4;
    if (serverSide) args.push("--server-side=true", "--force-conflicts");
    return args;
  }
}
