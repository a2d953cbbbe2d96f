/** One process works with one cluster: what a renewal of credentials may change, and the kubeconfig of children. */

import { homedir } from "node:os";

import type { KubeConfig } from "@kubernetes/client-node/dist/config.js";

import { isJsonObject, objectsIn, textOf, type Json, type JsonObject } from "../../model/index.ts";

type Cluster = KubeConfig["clusters"][number];
type User = KubeConfig["users"][number];

/** What a context leads to. */
interface Way {
  readonly cluster: Partial<Cluster>;
  readonly user: Partial<User>;
}

type Difference = (was: Way, is: Way) => string | false;

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
 * What the current context names in `after` that it did not name in `before`: another server or user, or a weaker
 * check of the server. Tokens, certificates and the CA itself may be replaced. Undefined where nothing else differs.
 */
export function differenceBetween(before: KubeConfig, after: KubeConfig): string | undefined {
  const [was, is] = [wayOf(before), wayOf(after)];
  for (const difference of DIFFERENCES) {
    const found = difference(was, is);
    if (found !== false) return found;
  }
  return undefined;
}

function wayOf(config: KubeConfig): Way {
  return { cluster: config.getCurrentCluster() ?? {}, user: config.getCurrentUser() ?? {} };
}

/** The library wants the flag for plain http, where it means nothing. */
function isUnchecked({ cluster: { server, skipTLSVerify } }: Way): boolean {
  return skipTLSVerify === true && server?.startsWith("https:") === true;
}

function hasCa({ cluster: { caData, caFile } }: Way): boolean {
  return [caData, caFile].some((each) => each !== undefined && each !== "");
}

/** A kubeconfig of the current context alone, as JSON. Files that it names are those of the original. */
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

/** Plug-ins keep their own files in the home directory, which is another one where helm starts them. */
function execOf(exec: JsonObject): JsonObject {
  const env = objectsIn(exec["env"]).filter(({ name }) => name !== "KUBERNETES_EXEC_INFO");
  const home = env.some(({ name }) => textOf(name) === "HOME") ? [] : [{ name: "HOME", value: homedir() }];
  return { ...exec, env: [...home, ...env] };
}
