/** Credentials for registries from a docker `config.json`, found as the kubelet finds them. */

import { matchesGlob, parseJson } from "../../lib/index.ts";
import { isJsonObject, type Json, type JsonObject } from "../../model/index.ts";
import type { Reference } from "../reference.ts";

/** Credentials of one registry. They never appear in logs or errors. */
export interface Login {
  readonly username?: string;
  readonly password?: string;
  /** A refresh token for the token server. */
  readonly identityToken?: string;
  /** Sent as it is. */
  readonly registryToken?: string;
}

/**
 * The credentials for a repository in the text of a docker config (`.dockerconfigjson`, or the older `.dockercfg`
 * without `auths`); the longest key that matches wins. Throws Error for text that is no such file.
 */
export function findLogin(text: string, { host, name }: Pick<Reference, "host" | "name">): Login | undefined {
  const config = parseJson(text);
  if (!isJsonObject(config)) throw new Error("it is not a docker config");
  const { auths = config } = config;
  if (!isJsonObject(auths)) throw new Error("its auths are not an object");
  const keys = Object.keys(auths)
    .filter((key) => matches(key, `${host}/${name}`))
    .sort((a, b) => (a < b ? 1 : -1));
  return keys.map((key) => loginOf(auths[key])).find((login) => login !== undefined);
}

const HUB = ["docker.io", "index.docker.io", "registry-1.docker.io"];

/** Whether a key is for a repository: globs for labels of the host, equal ports, and a prefix of the path. */
function matches(key: string, target: string): boolean {
  const [host = "", ...path] = key
    .replace(/^https?:\/\//, "")
    .replace(/\/(?:v[12]\/?)?$/, "")
    .split("/");
  const [targetHost = "", ...targetPath] = target.split("/");
  if (!path.every((segment, index) => segment === targetPath[index])) return false;
  if (HUB.includes(host) && HUB.includes(targetHost)) return true;
  const labels = host.split(".");
  const targetLabels = targetHost.split(".");
  return (
    labels.length === targetLabels.length &&
    labels.every((label, index) => matchesGlob(label, targetLabels[index] ?? ""))
  );
}

/** The credentials in one entry; undefined if it has none. */
function loginOf(value: Json | undefined): Login | undefined {
  if (!isJsonObject(value)) return undefined;
  const [user, password] = userAndPassword(value);
  const identityToken = stringIn(value, "identitytoken");
  const registryToken = stringIn(value, "registrytoken");
  if (user === undefined && identityToken === undefined && registryToken === undefined) return undefined;
  return {
    ...(user === undefined ? {} : { username: user, password: password ?? "" }),
    ...(identityToken === undefined ? {} : { identityToken }),
    ...(registryToken === undefined ? {} : { registryToken }),
  };
}

/** User and password, which may also stand in `auth` as base64. Empty without a user. */
function userAndPassword(value: JsonObject): readonly [user?: string, password?: string | undefined] {
  const user = stringIn(value, "username");
  if (user !== undefined) return [user, stringIn(value, "password")];
  const text = Buffer.from(stringIn(value, "auth") ?? "", "base64").toString("utf8");
  const colon = text.indexOf(":");
  return colon === -1 ? [] : [text.slice(0, colon), text.slice(colon + 1)];
}

function stringIn(value: JsonObject, key: string): string | undefined {
  const text = value[key];
  return typeof text === "string" && text !== "" ? text : undefined;
}
