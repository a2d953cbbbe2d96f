/** Reads kubeconfigs as kubectl does, and the in-cluster credentials of a Pod, with the library @kubernetes/client-node. */

import { accessSync, existsSync, readFileSync } from "node:fs";
import { homedir } from "node:os";
import { delimiter, dirname, join, resolve } from "node:path";

// The deep import keeps the rest of the library (models, watch, exec) out of the bundle where it can.
import { KubeConfig } from "@kubernetes/client-node/dist/config.js";

import { attempt, oneLine, parseYaml } from "../../base/index.ts";
import { isJsonObject, objectOf, objectsIn, ProblemError, type JsonObject } from "../../base/model/index.ts";

/** Which credentials to use. By default those of the Pod's ServiceAccount, then `~/.kube/config`. */
export interface CredentialsOptions {
  /** Path of a kubeconfig, or several separated as in `PATH` (`--kube-config`, `KUBECONFIG`). */
  readonly kubeConfig?: string | undefined;
  /** Context to use instead of the file's current one (`--kube-context`). */
  readonly context?: string | undefined;
  /** For tests: a directory in front of the ServiceAccount's paths, and the home directory. */
  readonly root?: string | undefined;
  readonly home?: string | undefined;
}

/** Credentials, and the file that contains them, for messages. */
export interface LoadedConfig {
  readonly config: KubeConfig;
  readonly file: string;
  readonly namespace: string | undefined;
  /** Reads the same files and the same context again, even if `current-context` has changed. Throws as `loadConfig`. */
  readonly readAgain: () => LoadedConfig;
  /** Whether the files still have the same text. Returns false in a Pod, where reading again costs little. */
  readonly isUnchanged: () => boolean;
}

const SERVICE_ACCOUNT_DIR = "/var/run/secrets/kubernetes.io/serviceaccount";
const REMEDY = "set --kube-config or KUBECONFIG to a kubeconfig file, or run in a Pod with a service account";

/** Chooses and reads the credentials. Throws a ProblemError that names file, key and remedy. */
export function loadConfig(options: CredentialsOptions): LoadedConfig {
  return loadFrom(chooseFile(options), options);
}

/** Reads a kubeconfig (or a PATH-like list of them) or, if `file` is undefined, the in-cluster credentials of the Pod. */
function loadFrom(file: string | undefined, { root, context }: CredentialsOptions): LoadedConfig {
  const text = file === undefined ? undefined : readFilesText(file);
  const config = file === undefined ? loadInCluster(root ?? "") : loadFiles(file);
  const origin = file ?? SERVICE_ACCOUNT_DIR;
  selectContext(config, origin, context);
  const name = config.getCurrentContext();
  const namespace = config.getContextObject(name)?.namespace?.trim();
  return {
    config,
    file: origin,
    namespace: namespace === "" ? undefined : namespace,
    readAgain: () => loadFrom(file, { root, context: name }),
    isUnchanged: () => file !== undefined && text !== undefined && readFilesText(file) === text,
  };
}

/** Reads the text of all files of a PATH-like list, to find changes; undefined if one cannot be read. Missing files count as empty. */
function readFilesText(pathList: string): string | undefined {
  const readText = (file: string): string => (existsSync(file) ? readFileSync(file, "utf8") : "");
  return attempt(() => pathList.split(delimiter).map(readText).join("\0"));
}

/**
 * Chooses the kubeconfig that the options name, then the in-cluster credentials (undefined), then `~/.kube/config`. Throws a ProblemError
 * if there are no credentials.
 */
function chooseFile(options: CredentialsOptions): string | undefined {
  if (options.kubeConfig !== undefined && options.kubeConfig !== "") return options.kubeConfig;
  if (isReadable(`${options.root ?? ""}${SERVICE_ACCOUNT_DIR}/token`)) return undefined;
  const file = join(options.home ?? homedir(), ".kube", "config");
  if (isReadable(file)) return file;
  const message = "no credentials for the Kubernetes API were found";
  throw new ProblemError({ file, message, remedy: REMEDY });
}

/** Reads the ServiceAccount of the Pod. Throws a ProblemError if the address of the API server is not set. */
function loadInCluster(root: string): KubeConfig {
  const config = new KubeConfig();
  config.loadFromCluster(root);
  const server = config.getCurrentCluster()?.server ?? "";
  // The library writes `undefined` for a missing environment variable into the URL.
  if (!server.includes("undefined")) return config;
  const message = "a service account is mounted, but KUBERNETES_SERVICE_HOST or _PORT is not set";
  const remedy = "set both to the address of the API server, or use --kube-config";
  throw new ProblemError({ file: SERVICE_ACCOUNT_DIR, message, remedy });
}

/** Joins two lists of entries; an entry of `before` wins over one with its name in `added`. */
function mergeByName<T extends { name: string }>(before: T[], added: T[]): T[] {
  return [...before, ...added.filter((entry) => !before.some(({ name }) => name === entry.name))];
}

/** Reads one kubeconfig or a PATH-like list of them, and merges them as kubectl does. */
function loadFiles(pathList: string): KubeConfig {
  const merged = new KubeConfig();
  const files = pathList.split(delimiter).filter((name) => name !== "");
  // As in kubectl, a list may name files that do not exist.
  const existingFiles = files.length > 1 ? files.filter((file) => existsSync(file)) : files;
  if (existingFiles.length === 0)
    throw new ProblemError({ file: pathList, message: "none of these files exists", remedy: REMEDY });
  // As in kubectl, the first file that names an entry wins.
  for (const file of existingFiles) {
    const config = loadFile(file);
    merged.loadFromOptions({
      clusters: mergeByName(merged.clusters, config.clusters),
      users: mergeByName(merged.users, config.users),
      contexts: mergeByName(merged.contexts, config.contexts),
      currentContext: merged.currentContext || config.currentContext,
    });
  }
  return merged;
}

/** Reads one kubeconfig file. Throws a ProblemError if it is missing, empty or invalid. */
function loadFile(file: string): KubeConfig {
  const config = new KubeConfig();
  let text: string;
  try {
    text = readFileSync(file, "utf8");
  } catch (error) {
    throw new ProblemError({ file, message: `cannot be read: ${oneLine(error)}`, remedy: REMEDY });
  }
  if (text.trim() === "") throw new ProblemError({ file, message: "is empty", remedy: REMEDY });
  try {
    config.loadFromFile(file);
    config.users = completeUsers(config.users, text, file);
  } catch (error) {
    const message = `is not a kubeconfig: ${oneLine(error)}`;
    throw new ProblemError({ file, message, remedy: "check it with `kubectl config view`" });
  }
  return config;
}

/**
 * Makes `contextName`, or the file's current context, the current one. Throws a ProblemError if the context, its cluster or its
 * user is not in the file.
 */
function selectContext(config: KubeConfig, file: string, contextName: string | undefined): void {
  const name = contextName ?? config.getCurrentContext();
  const names = config.getContexts().map((context) => context.name);
  const remedy = `use one of: ${names.join(", ") || "(the file has none)"}`;
  if (!name) {
    const message = "no context is chosen";
    throw new ProblemError({ file, key: "current-context", message, remedy: `--kube-context: ${remedy}` });
  }
  const key = `context ${name}`;
  const context = config.getContextObject(name);
  if (context === null) throw new ProblemError({ file, key, message: "there is no such context", remedy });
  config.setCurrentContext(name);
  const missingEntryError = (entry: string): ProblemError =>
    new ProblemError({ file, key, message: `names the ${entry}, which is not in the file` });
  if (config.getCurrentCluster() === null) throw missingEntryError(`cluster ${context.cluster}`);
  if (context.user && config.getCurrentUser() === null) throw missingEntryError(`user ${context.user}`);
  if (!context.user) addEmptyUser(config, name);
}

/** Adds an empty user to a context without one: the library applies CA and server name only for a context with a user. */
function addEmptyUser(config: KubeConfig, contextName: string): void {
  config.users = [...config.users, { name: "(none)" }];
  config.contexts = config.contexts.map((context) =>
    context.name === contextName ? { ...context, user: "(none)" } : context,
  );
}

function isReadable(file: string): boolean {
  try {
    accessSync(file);
    return true;
  } catch {
    return false;
  }
}

type User = KubeConfig["users"][number];

/**
 * Adds settings to the users of a kubeconfig that kubectl supports and the library does not: `tokenFile` (read again as it
 * rotates), commands of exec plug-ins beside the file, and KUBERNETES_EXEC_INFO for plug-ins with `provideClusterInfo`.
 */
function completeUsers(users: readonly User[], text: string, file: string): User[] {
  const root = parseYaml(text, file).value;
  const userEntries = new Map(objectsIn(objectOf(root)["users"]).map(({ name, user }) => [name, user]));
  return users.map((user) => {
    const userEntry = userEntries.get(user.name);
    return isJsonObject(userEntry) ? completeUser(user, userEntry, dirname(file)) : user;
  });
}

/**
 * Completes one user of the library from its entry in the kubeconfig; `folder` is that of the file. As auth provider `tokenFile`, the library
 * reads the file again with each use, instead of the token that it read once.
 */
function completeUser(user: User, entry: JsonObject, folder: string): User {
  const tokenFile = entry["tokenFile"];
  if (typeof tokenFile === "string" && tokenFile !== "") {
    const { token: _, ...userWithoutToken } = user;
    const config = { tokenFile: resolve(folder, tokenFile) };
    return { ...userWithoutToken, authProvider: { name: "tokenFile", config } };
  }
  return isJsonObject(entry["exec"]) ? { ...user, exec: completeExec(entry["exec"], folder) } : user;
}

/** Completes the exec plug-in of a user as kubectl does: its path, and KUBERNETES_EXEC_INFO, without which some plug-ins fail. */
function completeExec(exec: JsonObject, folder: string): JsonObject {
  const { command, env, apiVersion } = exec;
  const info = { kind: "ExecCredential", apiVersion: apiVersion ?? "", spec: { interactive: false } };
  return {
    ...exec,
    // A bare name is looked up on PATH; anything else is relative to the kubeconfig.
    command:
      typeof command === "string" && command.includes("/") ? resolve(folder, command) : (command ?? ""),
    args: Array.isArray(exec["args"]) ? exec["args"] : [],
    env: [{ name: "KUBERNETES_EXEC_INFO", value: JSON.stringify(info) }, ...(Array.isArray(env) ? env : [])],
  };
}
