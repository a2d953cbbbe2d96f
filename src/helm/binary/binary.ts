/** Finds the helm binary and its version, and builds the environment of its processes. */

import { statSync } from "node:fs";
import { mkdir, readFile, rename, writeFile } from "node:fs/promises";
import { join } from "node:path";

import { objectOf, ProblemError } from "../../base/model/index.ts";
import { findProgram } from "../../base/process/index.ts";

/** The helm program. `id` changes when its file changes. */
interface Binary {
  readonly path: string;
  readonly id: string;
}

/** The helm binary of the settings: where it is, and which version. */
export class HelmBinary {
  readonly #bin: string;
  readonly #searchPath: string | undefined;
  readonly #home: string;
  /** Versions by `Binary.id`. */
  readonly #versions = new Map<string, Promise<string>>();

  /** `bin`: a path, or a name on `searchPath`. `home`: the directory in which the version of the binary is recorded. */
  constructor(bin: string, searchPath: string | undefined, home: string) {
    this.#bin = bin;
    this.#searchPath = searchPath;
    this.#home = home;
  }

  /** Finds the helm binary, at each call, because a user may replace it: its `id` then changes. Throws ProblemError if there is none. */
  locate(): Binary {
    const path = findProgram(this.#bin, this.#searchPath);
    if (path === undefined) {
      const remedy = "install helm 3 or 4, or set --helm-bin";
      throw new ProblemError({ file: this.#bin, message: "there is no such helm binary", remedy });
    }
    const { size, mtimeMs } = statSync(path);
    return { path, id: `${path}:${size}:${mtimeMs}` };
  }

  /**
   * The version of helm as it reports it, such as `v4.2.4`. `queryVersion` runs `helm version`: once for each binary, across restarts and for
   * all concurrent callers. After a failure, the next call tries again. Throws if the version is not 3 or 4.
   */
  async getVersion(queryVersion: () => Promise<string>): Promise<string> {
    const binary = this.locate();
    const requested = this.#versions.get(binary.id) ?? this.#findVersion(binary, queryVersion);
    this.#versions.set(binary.id, requested);
    try {
      return await requested;
    } catch (error) {
      this.#versions.delete(binary.id);
      throw error;
    }
  }

  /** The recorded version, which saves a process at each start, or else the one that helm reports. */
  async #findVersion(binary: Binary, queryVersion: () => Promise<string>): Promise<string> {
    const recorded = await readRecordedVersion(this.#home, binary);
    if (recorded !== undefined) return recorded;
    const version = (await queryVersion()).trim();
    if (!/^v?[34]\./.test(version))
      throw new Error(`helm ${version} is not supported: install helm 3 or 4, or set --helm-bin`);
    await recordVersion(this.#home, binary, version);
    return version;
  }
}

/** Reads the version that an earlier operator process recorded for a binary; undefined for another binary. */
async function readRecordedVersion(dir: string, binary: Binary): Promise<string | undefined> {
  try {
    const note: unknown = JSON.parse(await readFile(versionFile(dir), "utf8"));
    const { id, version } = objectOf(note);
    return id === binary.id && typeof version === "string" ? version : undefined;
  } catch {
    return undefined;
  }
}

/**
 * Records the version of a binary for later operator processes. Ignores a directory that cannot be written: the next process then
 * runs `helm version` again.
 */
async function recordVersion(dir: string, binary: Binary, version: string): Promise<void> {
  // Renamed when it is complete, so that no other operator process reads half of it. After a crash, the next process uses the name again.
  const temporaryFile = `${versionFile(dir)}.new`;
  try {
    await mkdir(dir, { recursive: true, mode: 0o700 });
    await writeFile(temporaryFile, JSON.stringify({ id: binary.id, version }), { mode: 0o600 });
    await rename(temporaryFile, versionFile(dir));
  } catch {
    // The record only saves time.
  }
}

function versionFile(dir: string): string {
  return join(dir, "version.json");
}

/** Environment variable that marks every helm of this operator with its release. */
export const RELEASE_VARIABLE = "ADDON_OPERATOR_HELM_RELEASE";

/** Environment variable that marks every helm of this operator with its API server. */
export const SERVER_VARIABLE = "ADDON_OPERATOR_HELM_SERVER";

interface HelmContext {
  /** The environment of the operator's children. */
  readonly env: Readonly<Record<string, string>>;
  readonly kubeconfig?: { readonly path: string } | undefined;
  readonly managedBy: string;
  readonly server: string;
  /** The directory of helm's own files. */
  readonly home: string;
  readonly release: string;
  /** Memory above which helm collects garbage, as `GOMEMLIMIT` has it. */
  readonly goMemLimit: string;
}

/** Builds the whole environment of one helm process: isolated from the home of hooks and from other clusters. */
export function helmEnvironment(context: HelmContext): Record<string, string> {
  const { env, kubeconfig, managedBy, server, home, release, goMemLimit } = context;
  return {
    // helm runs are short: garbage collection below this size costs 10 % of the time of an upgrade.
    GOGC: "off",
    GOMEMLIMIT: goMemLimit,
    ...withoutConnection(env),
    ...withoutProxy(env, server),
    // Not the home of hooks, which may write a kubeconfig there.
    HOME: home,
    KUBECONFIG: kubeconfig?.path ?? "/dev/null",
    HELM_CACHE_HOME: join(home, "cache"),
    HELM_CONFIG_HOME: join(home, "config"),
    HELM_DATA_HOME: join(home, "data"),
    KUBECACHEDIR: join(home, "kube"),
    HELM_DRIVER: "secret",
    // By these two, the next operator process recognizes a helm process that this one leaves running.
    [RELEASE_VARIABLE]: `${managedBy}/${release}`,
    [SERVER_VARIABLE]: server,
  };
}

/** Removes helm's variables for servers, tokens and users, which would take precedence over the kubeconfig. */
function withoutConnection(env: Readonly<Record<string, string>>): Record<string, string> {
  return Object.fromEntries(Object.entries(env).filter(([name]) => !/^HELM_(KUBE|NAMESPACE$)/.test(name)));
}

/** The variable that makes helm connect to the API server without the proxy of the environment, as the operator itself does. */
function withoutProxy(env: Readonly<Record<string, string>>, server: string): Record<string, string> {
  const host = URL.parse(server)?.hostname.replace(/^\[|\]$/g, "");
  if (host === undefined) return {};
  const otherHosts = env["NO_PROXY"] || env["no_proxy"];
  return { NO_PROXY: otherHosts === undefined ? host : `${otherHosts},${host}` };
}
