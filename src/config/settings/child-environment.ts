/**
 * The environment of child processes: without the operator's own credentials, with a kubeconfig of their own. Credentials are headers for the
 * OpenTelemetry collector, and user name and password in URLs.
 */

import { attempt } from "../../base/index.ts";
import type { Environment } from "./environment.ts";
import { environmentNames, SETTINGS } from "./setting-names.ts";
import type { Settings } from "./settings.ts";

/** helm's own variables that name a server, a token or a user; they would override the kubeconfig. */
const HELM_CONNECTION = /^HELM_KUBE/;
/** Variables with headers for the OpenTelemetry collector: the operator's, and OpenTelemetry's for each signal. They hold tokens. */
const COLLECTOR_HEADERS = /^(ADDON_OPERATOR_)?(OTEL_EXPORTER_)?OTLP_(\w+_)?HEADERS$/;
const PROXY = /_proxy$/i;
/** The user and password of a URL such as `http://user:password@proxy:3128`, also without the scheme. */
const USER_INFO = /^(?:[a-z][a-z0-9+.-]*:\/\/)?([^/?#\s]+)@/i;

/**
 * The environment that hooks, scripts and helm get: the operator's without the credentials for the collector and, unless
 * `--hook-proxy-credentials` is set, without proxy URLs that contain credentials. With `kubeconfig`, all variables that
 * name a kubeconfig get this path, and helm's connection variables are removed.
 */
export function buildChildEnvironment(
  env: Environment,
  { hookProxyCredentials }: Pick<Settings, "hookProxyCredentials">,
  kubeconfig?: string,
): Environment {
  const withheldNames = new Set(hookProxyCredentials ? [] : findCredentialProxies(env));
  const passedVariables = Object.entries(env).filter(
    ([name, value = ""]) => !withheldNames.has(name) && !isOwnCredential(name, value),
  );
  if (kubeconfig === undefined) return Object.fromEntries(passedVariables);
  const withoutConnection = passedVariables.filter(([name]) => !HELM_CONNECTION.test(name));
  const kubeconfigNames = listVariablesOfSetting("kubeConfig").filter((name) => env[name] !== undefined);
  return Object.fromEntries([
    ...withoutConnection,
    ...[...kubeconfigNames, "KUBECONFIG"].map((name) => [name, kubeconfig]),
  ]);
}

/** Finds the names of variables, such as HTTPS_PROXY, whose proxy URL contains a user name or password. */
export function findCredentialProxies(env: Environment): string[] {
  return Object.entries(env).flatMap(([name, value = ""]) =>
    PROXY.test(name) && USER_INFO.test(value) ? [name] : [],
  );
}

/** Collects the secrets in headers for the collector and in proxy URLs, as written and percent-decoded, so that logs can redact them. */
export function collectOwnSecrets(settings: Pick<Settings, "otlpHeaders">, env: Environment): string[] {
  const headerTexts = [settings.otlpHeaders ?? "", ...listCollectorHeaders(env)].flatMap(findHeaderSecrets);
  const userInfos = findCredentialProxies(env).flatMap((name) => findUrlSecrets(env[name] ?? ""));
  return [...headerTexts, ...userInfos]
    .flatMap((text) => [text, decodePercent(text)])
    .filter((text) => text !== "");
}

/** Whether a variable holds credentials for the collector, which only the operator calls. */
function isOwnCredential(name: string, value: string): boolean {
  return (
    COLLECTOR_HEADERS.test(name) ||
    (listVariablesOfSetting("otlpEndpoint").includes(name) && USER_INFO.test(value))
  );
}

/** The values of all variables with headers for the collector. */
function listCollectorHeaders(env: Environment): string[] {
  return Object.entries(env).flatMap(([name, value = ""]) => (COLLECTOR_HEADERS.test(name) ? [value] : []));
}

/** The secrets in a list of headers: for `authorization=Bearer%20TOKEN` the whole value, and TOKEN by itself. */
function findHeaderSecrets(headers: string): string[] {
  const values = headers.split(",").map((pair) => pair.slice(pair.indexOf("=") + 1).trim());
  return values.flatMap((value) => [value, decodePercent(value).split(" ").at(-1) ?? ""]);
}

/** The secrets in a URL: `user:password`, and the password by itself. */
function findUrlSecrets(url: string): string[] {
  const userInfo = USER_INFO.exec(url)?.[1] ?? "";
  return [userInfo, userInfo.slice(userInfo.indexOf(":") + 1)];
}

/** Decodes percent-encoding; returns the text unchanged if its encoding is invalid. */
function decodePercent(text: string): string {
  return attempt(() => decodeURIComponent(text)) ?? text;
}

/** The names of the environment variables of a setting, all that are accepted. */
function listVariablesOfSetting(key: keyof Settings): string[] {
  return SETTINGS.filter((setting) => setting.key === key).flatMap(environmentNames);
}
