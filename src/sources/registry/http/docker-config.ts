/** Credentials for registries from a docker `config.json`, found as the kubelet finds them. */

import { matchesGlob, parseJson } from "../../../base/index.ts";
import { isJsonObject, type Json, type JsonObject } from "../../../base/model/index.ts";
import type { Reference } from "../reference.ts";

/** Credentials of one registry. They never appear in logs or errors. */
export interface Login {
  readonly username?: string;
  readonly password?: string;
  /** A refresh token, which the token server exchanges for a bearer token. */
  readonly identityToken?: string;
  /** A bearer token that is sent to the registry as it is. */
  readonly registryToken?: string;
}

/**
 * Finds the credentials for a repository in the text of a docker config (`.dockerconfigjson`, or the older
 * `.dockercfg` without `auths`). If several keys match, the most specific one with credentials wins. Throws Error for
 * text that is no docker config.
 */
export function findLogin(text: string, { host, name }: Pick<Reference, "host" | "name">): Login | undefined {
  const config = parseJson(text);
  if (!isJsonObject(config)) throw new Error("it is not a docker config");
  const { auths = config } = config;
  if (!isJsonObject(auths)) throw new Error("its auths are not an object");
  const keys = Object.keys(auths)
    .filter((key) => matchesRepository(key, `${host}/${name}`))
    // In descending order a longer path comes before its prefix.
    .sort((a, b) => (a < b ? 1 : -1));
  return keys.map((key) => parseLogin(auths[key])).find((login) => login !== undefined);
}

/** Hosts that all mean Docker Hub. */
const DOCKER_HUB_HOSTS = ["docker.io", "index.docker.io", "registry-1.docker.io"];

/**
 * Whether a key of a docker config applies to `target` (`HOST/NAME`), by the rules of the kubelet: each label of the
 * host may be a glob, and the key's path must be a prefix of the repository's path.
 */
function matchesRepository(key: string, target: string): boolean {
  const [host = "", ...path] = key
    .replace(/^https?:\/\//, "")
    .replace(/\/(?:v[12]\/?)?$/, "")
    .split("/");
  const [targetHost = "", ...targetPath] = target.split("/");
  if (!path.every((segment, index) => segment === targetPath[index])) return false;
  if (DOCKER_HUB_HOSTS.includes(host) && DOCKER_HUB_HOSTS.includes(targetHost)) return true;
  const labels = host.split(".");
  const targetLabels = targetHost.split(".");
  return (
    labels.length === targetLabels.length &&
    labels.every((label, index) => matchesGlob(label, targetLabels[index] ?? ""))
  );
}

/** The credentials in one entry of a docker config; undefined if the entry has none. */
function parseLogin(value: Json | undefined): Login | undefined {
  if (!isJsonObject(value)) return undefined;
  const [username, password = ""] = parseUserAndPassword(value);
  const identityToken = readNonEmptyString(value, "identitytoken");
  const registryToken = readNonEmptyString(value, "registrytoken");
  const login = {
    ...(username === undefined ? {} : { username, password }),
    ...(identityToken === undefined ? {} : { identityToken }),
    ...(registryToken === undefined ? {} : { registryToken }),
  };
  return Object.keys(login).length === 0 ? undefined : login;
}

/** User and password of an entry: in fields of their own, or in `auth` as base64 of `USER:PASSWORD`. Empty without a user. */
function parseUserAndPassword(value: JsonObject): readonly [user?: string, password?: string | undefined] {
  const user = readNonEmptyString(value, "username");
  if (user !== undefined) return [user, readNonEmptyString(value, "password")];
  const text = Buffer.from(readNonEmptyString(value, "auth") ?? "", "base64").toString("utf8");
  const colon = text.indexOf(":");
  return colon === -1 ? [] : [text.slice(0, colon), text.slice(colon + 1)];
}

function readNonEmptyString(value: JsonObject, key: string): string | undefined {
  const text = value[key];
  return typeof text === "string" && text !== "" ? text : undefined;
}
