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

type Difference = (was: ContextTarget, is: ContextTarget) => string | false;

const DIFFERENCES: readonly Difference[] = [
  (was, is) =>
    was.cluster.server !== is.cluster.server &&
    `names the server ${is.cluster.server} now, not ${was.cluster.server}`,
  (was, is) => was.user.name !== is.user.name && `names the user ${is.user.name} now, not ${was.user.name}`,
  (was, is) => was.user.impersonateUser !== is.user.impersonateUser && "impersonates another user now",
  (was, is) => was.cluster.proxyUrl !== is.cluster.proxyUrl && "names another proxy-url now",
  (was, is) => was.cluster.tlsServerName !== is.cluster.tlsServerName && "names another tls-server-name now",
  (was, is) => !isUnchecked(was) && isUnchecked(is) && "no longer has the server's certificate verified",
  (was, is) => hasCa(was) && !hasCa(is) && "names no certificate authority any more",
];

/**
 * Describes a change of the current context from `before` to `after` that is refused: another server or user, or weaker
 * TLS verification. Undefined if only tokens, certificates or the CA differ.
 */
export function differenceBetween(before: KubeConfig, after: KubeConfig): string | undefined {
  const [was, is] = [contextTargetOf(before), contextTargetOf(after)];
  for (const difference of DIFFERENCES) {
    const found = difference(was, is);
    if (found !== false) return found;
  }
  return undefined;
}

function contextTargetOf(config: KubeConfig): ContextTarget {
  return { cluster: config.getCurrentCluster() ?? {}, user: config.getCurrentUser() ?? {} };
}

/** Whether TLS verification is off; ignores the flag for plain http, where the library requires it. */
function isUnchecked({ cluster: { server, skipTLSVerify } }: ContextTarget): boolean {
  return skipTLSVerify === true && server?.startsWith("https:") === true;
}

function hasCa({ cluster: { caData, caFile } }: ContextTarget): boolean {
  return [caData, caFile].some((each) => each !== undefined && each !== "");
}

/** A kubeconfig of only the current context, as JSON. File references are kept. */
export function exportContext(config: KubeConfig): string {
  const [cluster, user] = [config.getCurrentCluster(), config.getCurrentUser()];
  const name = config.getCurrentContext();
  const namespace = config.getContextObject(name)?.namespace?.trim();
  return JSON.stringify({
    apiVersion: "v1",
    kind: "Config",
    "current-context": name,
    clusters: [{ name: cluster?.name, cluster: cluster && clusterOf(cluster) }],
    users: [{ name: user?.name, user: user && userOf(user) }],
    contexts: [{ name, context: { cluster: cluster?.name, user: user?.name, namespace } }],
  });
}

function clusterOf(cluster: Cluster): object {
  const { server, caData, caFile, tlsServerName, proxyUrl } = cluster;
  return {
    server,
    "certificate-authority-data": caData,
    "certificate-authority": caFile,
    "tls-server-name": tlsServerName,
    "proxy-url": proxyUrl,
    "insecure-skip-tls-verify": isUnchecked({ cluster, user: {} }) ? true : undefined,
  };
}

function userOf(user: User): object {
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
    exec: isJsonObject(user.exec as Json) ? execOf(user.exec as JsonObject) : undefined,
    username,
    password,
    as: impersonateUser,
  };
}

/** Sets HOME for exec plug-ins: helm runs with another home directory, but plug-ins keep their files in the original one. */
function execOf(exec: JsonObject): JsonObject {
  const env = objectsIn(exec["env"]).filter(({ name }) => name !== "KUBERNETES_EXEC_INFO");
  const home = env.some(({ name }) => asString(name) === "HOME") ? [] : [{ name: "HOME", value: homedir() }];
  return { ...exec, env: [...home, ...env] };
}
