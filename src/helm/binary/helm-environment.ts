/** The environment of helm: its home, its marks, and nothing that leads it to another cluster. */

import { join } from "node:path";

import type { HelmOptions } from "./helm.ts";

/** Environment variable that marks every helm of this operator with its release. */
export const MARK = "ADDON_OPERATOR_HELM_RELEASE";

/** The same for the API server that it works with. */
export const SERVER = "ADDON_OPERATOR_HELM_SERVER";

interface HelmPlace extends Pick<HelmOptions, "env" | "kubeconfig" | "managedBy" | "server"> {
  /** The directory of helm's own files. */
  readonly home: string;
  readonly release: string;
}

/** The whole environment of one helm process. */
export function helmEnvironment(place: HelmPlace): Record<string, string> {
  const { env, kubeconfig, managedBy, server, home, release } = place;
  return {
    // helm lives for a short time: collecting garbage below this size only costs time (10 % of an upgrade).
    GOGC: "off",
    GOMEMLIMIT: "256MiB",
    ...withoutConnection(env),
    ...withoutProxy(env, server),
    // Not the home of hooks, where they may write a kubeconfig.
    HOME: home,
    KUBECONFIG: kubeconfig?.path ?? "/dev/null",
    HELM_CACHE_HOME: join(home, "cache"),
    HELM_CONFIG_HOME: join(home, "config"),
    HELM_DATA_HOME: join(home, "data"),
    KUBECACHEDIR: join(home, "kube"),
    HELM_DRIVER: "secret",
    [MARK]: `${managedBy}/${release}`,
    [SERVER]: server,
  };
}

/** helm's own variables name servers, tokens and users that would win over the kubeconfig. */
function withoutConnection(env: Readonly<Record<string, string>>): Record<string, string> {
  return Object.fromEntries(Object.entries(env).filter(([name]) => !/^HELM_(KUBE|NAMESPACE$)/.test(name)));
}

/** The operator uses no proxy of the environment for the API server, so helm uses none. */
function withoutProxy(env: Readonly<Record<string, string>>, server: string): Record<string, string> {
  const host = URL.parse(server)?.hostname.replace(/^\[|\]$/g, "");
  if (host === undefined) return {};
  const given = env["NO_PROXY"] || env["no_proxy"];
  return { NO_PROXY: given === undefined ? host : `${given},${host}` };
}
