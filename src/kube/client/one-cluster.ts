/** A process works with one cluster: decides which credential changes are accepted, and exports the kubeconfig of child processes. */

import { homedir } from "node:os";

import type { KubeConfig } from "@kubernetes/client-node/dist/config.js";

import { isJsonObject, objectsIn, asString, type Json, type JsonObject } from "../../model/index.ts";

type Cluster = KubeConfig["clusters"][number];
type User = KubeConfig["users"][number];

/** Cluster and user of a context. */
interface ContextTarget {
  readonly cluster: Partial<Cluster>;
  readonly user: Partial<User>;
}

/** Describes a difference that is refused; false if there is none. */
type DifferenceCheck = (before: ContextTarget, now: ContextTarget) => string | false;

const REFUSED_DIFFERENCES: readonly DifferenceCheck[] = [
  (before, now) =>
    before.cluster.server !== now.cluster.server &&
    `names the server ${now.cluster.server} now, not ${before.cluster.server}`,
  (before, now) =>
    before.user.name !== now.user.name && `names the user ${now.user.name} now, not ${before.user.name}`,
  (before, now) =>
    before.user.impersonateUser !== now.user.impersonateUser && "impersonates another user now",
  (before, now) => before.cluster.proxyUrl !== now.cluster.proxyUrl && "names another proxy-url now",
  (before, now) =>
    before.cluster.tlsServerName !== now.cluster.tlsServerName && "names another tls-server-name now",
  (before, now) =>
    !skipsTlsVerification(before) &&
    skipsTlsVerification(now) &&
    "no longer has the server's certificate verified",
  (before, now) => hasCa(before) && !hasCa(now) && "names no certificate authority any more",
];

/**
 * Describes a change of the current context from `before` to `after` that is refused: another server or user, or weaker TLS verification.
 * The state of the operator would not fit another cluster. Undefined if only tokens, certificates or the CA differ.
 */
export function describeRefusedDifference(before: KubeConfig, after: KubeConfig): string | undefined {
  const messages = REFUSED_DIFFERENCES.map((check) => check(contextTargetOf(before), contextTargetOf(after)));
  return messages.find((message) => message !== false);
}

function contextTargetOf(config: KubeConfig): ContextTarget {
  return { cluster: config.getCurrentCluster() ?? {}, user: config.getCurrentUser() ?? {} };
}

/** Whether TLS verification is off. Ignores the flag for plain http, where the library requires it. */
function skipsTlsVerification({ cluster: { server, skipTLSVerify } }: ContextTarget): boolean {
  return skipTLSVerify === true && server?.startsWith("https:") === true;
}

function hasCa({ cluster: { caData, caFile } }: ContextTarget): boolean {
  return [caData, caFile].some((each) => each !== undefined && each !== "");
}

/** Exports a kubeconfig of only the current context, as JSON, for child processes. Keeps references to files. */
export function exportContext(config: KubeConfig): string {
  const [cluster, user] = [config.getCurrentCluster(), config.getCurrentUser()];
  const name = config.getCurrentContext();
  const namespace = config.getContextObject(name)?.namespace?.trim();
  return JSON.stringify({
    apiVersion: "v1",
    kind: "Config",
    "current-context": name,
    clusters: [{ name: cluster?.name, cluster: cluster && toClusterEntry(cluster) }],
    users: [{ name: user?.name, user: user && toUserEntry(user) }],
    contexts: [{ name, context: { cluster: cluster?.name, user: user?.name, namespace } }],
  });
}

/** Converts a cluster of the library into the form of kubeconfig files. */
function toClusterEntry(cluster: Cluster): object {
  const { server, caData, caFile, tlsServerName, proxyUrl } = cluster;
  return {
    server,
    "certificate-authority-data": caData,
    "certificate-authority": caFile,
    "tls-server-name": tlsServerName,
    "proxy-url": proxyUrl,
    "insecure-skip-tls-verify": skipsTlsVerification({ cluster, user: {} }) ? true : undefined,
  };
}

/** Converts a user of the library into the form of kubeconfig files. */
function toUserEntry(user: User): object {
  const { certData, certFile, keyData, keyFile, token, username, password, impersonateUser } = user;
  const provider = user.authProvider as { name?: string; config?: { tokenFile?: string } } | undefined;
  const isFile = provider?.name === "tokenFile";
  return {
    "client-certificate-data": certData,
    "client-certificate": certFile,
    "client-key-data": keyData,
    "client-key": keyFile,
    token,
    tokenFile: isFile ? provider.config?.tokenFile : undefined,
    "auth-provider": isFile ? undefined : (provider ?? undefined),
    exec: isJsonObject(user.exec as Json) ? addHomeVariable(user.exec as JsonObject) : undefined,
    username,
    password,
    as: impersonateUser,
  };
}

/** Sets HOME for exec plug-ins: helm runs with another home directory, but plug-ins keep their files in the operator's one. */
function addHomeVariable(exec: JsonObject): JsonObject {
  const env = objectsIn(exec["env"]).filter(({ name }) => name !== "KUBERNETES_EXEC_INFO");
  const home = env.some(({ name }) => asString(name) === "HOME") ? [] : [{ name: "HOME", value: homedir() }];
  return { ...exec, env: [...home, ...env] };
}
