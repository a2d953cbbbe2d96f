/** The environment of child processes: without the operator's own credentials, with a kubeconfig of their own. */

import { attempt } from "./lib/index.ts";
import type { Environment } from "./environment.ts";
import { environmentNames, SETTINGS, type Settings } from "./settings.ts";

/** helm's own variables that name a server, a token or a user. */
const HELM_CONNECTION = /^HELM_KUBE/;
/** Headers of the collector: the operator's variable, and OpenTelemetry's for each signal. */
const COLLECTOR_HEADERS = /^(ADDON_OPERATOR_)?(OTEL_EXPORTER_)?OTLP_(\w+_)?HEADERS$/;
const PROXY = /_proxy$/i;
/** `http://user:password@proxy:3128`, also without the scheme. */
const USER_INFO = /^(?:[a-z][a-z0-9+.-]*:\/\/)?([^/?#\s]+)@/i;

/**
 * The operator's environment for hooks, scripts and helm, without headers of the collector and, by default, without proxies
 * that contain credentials. `kubeconfig` replaces all kubeconfigs that are set.
 */
export function childEnvironment(
  env: Environment,
  { hookProxyCredentials }: Pick<Settings, "hookProxyCredentials">,
  kubeconfig?: string,
): Environment {
  const withheld = new Set(hookProxyCredentials ? [] : credentialProxies(env));
  const passed = Object.entries(env).filter(
    ([name, value = ""]) => !withheld.has(name) && !isOwnCredential(name, value),
  );
  if (kubeconfig === undefined) return Object.fromEntries(passed);
  const others = passed.filter(([name]) => !HELM_CONNECTION.test(name));
  const names = variablesOf("kubeConfig").filter((name) => env[name] !== undefined);
  return Object.fromEntries([...others, ...[...names, "KUBECONFIG"].map((name) => [name, kubeconfig])]);
}

/** Names of variables with a proxy URL that contains credentials. */
export function credentialProxies(env: Environment): string[] {
  return Object.entries(env).flatMap(([name, value = ""]) =>
    PROXY.test(name) && USER_INFO.test(value) ? [name] : [],
  );
}

/** Secret texts of the collector's headers and of proxies, for redaction. */
export function ownSecrets(settings: Pick<Settings, "otlpHeaders">, env: Environment): string[] {
  const texts = [settings.otlpHeaders ?? "", ...headersIn(env)].flatMap(headerSecrets);
  const users = credentialProxies(env).flatMap((name) => userSecrets(env[name] ?? ""));
  return [...texts, ...users].flatMap((text) => [text, decoded(text)]).filter((text) => text !== "");
}

function isOwnCredential(name: string, value: string): boolean {
  return (
    COLLECTOR_HEADERS.test(name) || (variablesOf("otlpEndpoint").includes(name) && USER_INFO.test(value))
  );
}

function headersIn(env: Environment): string[] {
  return Object.entries(env).flatMap(([name, value = ""]) => (COLLECTOR_HEADERS.test(name) ? [value] : []));
}

/** Of `authorization=Bearer%20TOKEN` the value, and the token by itself. */
function headerSecrets(headers: string): string[] {
  const values = headers.split(",").map((pair) => pair.slice(pair.indexOf("=") + 1).trim());
  return values.flatMap((value) => [value, decoded(value).split(" ").at(-1) ?? ""]);
}

/** User and password together, and the password by itself. */
function userSecrets(url: string): string[] {
  const info = USER_INFO.exec(url)?.[1] ?? "";
  return [info, info.slice(info.indexOf(":") + 1)];
}

function decoded(text: string): string {
  return attempt(() => decodeURIComponent(text)) ?? text;
}

function variablesOf(key: keyof Settings): string[] {
  return SETTINGS.filter((setting) => setting.key === key).flatMap(environmentNames);
}
