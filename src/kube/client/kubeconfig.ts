/** Reads kubeconfigs as kubectl does, and the in-cluster credentials of a Pod. */

import { accessSync, existsSync, readFileSync } from "node:fs";
import { homedir } from "node:os";
import { delimiter, dirname, join, resolve } from "node:path";

// The deep import keeps the rest of the library (models, watch, exec) out of the bundle where it can.
import { KubeConfig } from "@kubernetes/client-node/dist/config.js";

import { oneLine, parseYaml } from "../../lib/index.ts";
import { isJsonObject, ProblemError, type Json, type JsonObject } from "../../model/index.ts";

/** Which credentials to use. Nothing given = in-cluster, then `~/.kube/config`. */
export interface CredentialsOptions {
  /** Path of a kubeconfig, or several separated as in `PATH` (`--kube-config`, `KUBECONFIG`). */
  readonly kubeConfig?: string | undefined;
  /** Context to use instead of the file's current one (`--kube-context`). */
  readonly context?: string | undefined;
  /** For tests: prepended to the service account's paths; and the home directory. */
  readonly root?: string | undefined;
  readonly home?: string | undefined;
}

/** Credentials, and the file they came from for messages. */
export interface LoadedConfig {
  readonly config: KubeConfig;
  readonly file: string;
  readonly namespace: string | undefined;
  /** Reads the same files and the same context again, even if `current-context` has changed. Throws as `loadConfig`. */
  readonly again: () => LoadedConfig;
  /** Whether the files still have the same text. In a Pod, where reading again costs little, it is false. */
  readonly isCurrent: () => boolean;
}

const ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount";
const REMEDY = "set --kube-config or KUBECONFIG to a kubeconfig file, or run in a Pod with a service account";

/** Chooses and reads the credentials. Throws a ProblemError that names file, key and remedy. */
export function loadConfig(options: CredentialsOptions): LoadedConfig {
  return load(chooseFile(options), options);
}

/** `file` is undefined in a Pod. */
function load(file: string | undefined, { root, context }: CredentialsOptions): LoadedConfig {
  const text = file === undefined ? undefined : textOf(file);
  const config = file === undefined ? loadInCluster(root ?? "") : loadFiles(file);
  const from = file ?? ACCOUNT;
  useContext(config, from, context);
  const name = config.getCurrentContext();
  const namespace = config.getContextObject(name)?.namespace?.trim();
  return {
    config,
    file: from,
    namespace: namespace === "" ? undefined : namespace,
    again: () => load(file, { root, context: name }),
    isCurrent: () => file !== undefined && text !== undefined && textOf(file) === text,
  };
}

/** The text of a list of files; undefined if one cannot be read. */
function textOf(list: string): string | undefined {
  try {
    return list
      .split(delimiter)
      .map((file) => (existsSync(file) ? readFileSync(file, "utf8") : ""))
      .join("\0");
  } catch {
    return undefined;
  }
}

function chooseFile(options: CredentialsOptions): string | undefined {
  if (options.kubeConfig !== undefined && options.kubeConfig !== "") return options.kubeConfig;
  if (readable(`${options.root ?? ""}${ACCOUNT}/token`)) return undefined;
  const file = join(options.home ?? homedir(), ".kube", "config");
  if (readable(file)) return file;
  throw new ProblemError({
    file,
    message: "no credentials for the Kubernetes API were found",
    remedy: REMEDY,
  });
}

function loadInCluster(root: string): KubeConfig {
  const config = new KubeConfig();
  config.loadFromCluster(root);
  const server = config.getCurrentCluster()?.server ?? "";
  if (!server.includes("undefined")) return config;
  const message = "a service account is mounted, but KUBERNETES_SERVICE_HOST or _PORT is not set";
  const remedy = "set both to the address of the API server, or use --kube-config";
  throw new ProblemError({ file: ACCOUNT, message, remedy });
}

function loadFiles(list: string): KubeConfig {
  const merged = new KubeConfig();
  const files = list.split(delimiter).filter((name) => name !== "");
  // As in kubectl, a list may name files that do not exist.
  const found = files.length > 1 ? files.filter((file) => existsSync(file)) : files;
  if (found.length === 0)
    throw new ProblemError({ file: list, message: "none of these files exists", remedy: REMEDY });
  for (const file of found) {
    const one = loadFile(file);
    const skip = <T extends { name: string }>(have: T[], more: T[]): T[] => [
      ...have,
      ...more.filter((entry) => !have.some((known) => known.name === entry.name)),
    ];
    // As in kubectl, the first file to name something wins.
    merged.loadFromOptions({
      clusters: skip(merged.clusters, one.clusters),
      users: skip(merged.users, one.users),
      contexts: skip(merged.contexts, one.contexts),
      currentContext: merged.currentContext || one.currentContext,
    });
  }
  return merged;
}

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

function useContext(config: KubeConfig, file: string, wanted: string | undefined): void {
  const name = wanted ?? config.getCurrentContext();
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
  const lacks = (what: string): ProblemError =>
    new ProblemError({ file, key, message: `names the ${what}, which is not in the file` });
  if (config.getCurrentCluster() === null) throw lacks(`cluster ${context.cluster}`);
  if (context.user && config.getCurrentUser() === null) throw lacks(`user ${context.user}`);
  if (!context.user) addEmptyUser(config, name);
}

// The library applies CA and server name only where there is a user.
function addEmptyUser(config: KubeConfig, contextName: string): void {
  config.users = [...config.users, { name: "(none)" }];
  config.contexts = config.contexts.map((context) =>
    context.name === contextName ? { ...context, user: "(none)" } : context,
  );
}

function readable(file: string): boolean {
  try {
    accessSync(file);
    return true;
  } catch {
    return false;
  }
}

type User = KubeConfig["users"][number];

/**
 * Adds to the users of a kubeconfig what kubectl supports and the library does not: `tokenFile` (read again as it
 * rotates), commands of exec plug-ins beside the file, and KUBERNETES_EXEC_INFO for plug-ins with `provideClusterInfo`.
 */
function completeUsers(users: readonly User[], text: string, file: string): User[] {
  const root = parseYaml(text, file).value;
  const raw = new Map(entries(root).map((entry) => [entry["name"], entry["user"]]));
  return users.map((user) => {
    const reported = raw.get(user.name);
    return isJsonObject(reported) ? complete(user, reported, dirname(file)) : user;
  });
}

function entries(root: Json): JsonObject[] {
  const users = isJsonObject(root) ? root["users"] : undefined;
  return Array.isArray(users) ? users.filter(isJsonObject) : [];
}

function complete(user: User, reported: JsonObject, folder: string): User {
  const tokenFile = reported["tokenFile"];
  if (typeof tokenFile === "string" && tokenFile !== "") {
    const { token: _, ...rest } = user;
    return {
      ...rest,
      authProvider: { name: "tokenFile", config: { tokenFile: resolve(folder, tokenFile) } },
    };
  }
  return isJsonObject(reported["exec"]) ? { ...user, exec: completeExec(reported["exec"], folder) } : user;
}

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
