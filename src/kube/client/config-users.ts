/** Adds features of kubectl to the users of a kubeconfig. */

import { dirname, resolve } from "node:path";

import type { KubeConfig } from "@kubernetes/client-node/dist/config.js";

import { parseYaml } from "../../lib/index.ts";
import type { Json, JsonObject } from "../../model/index.ts";
import { isJsonObject } from "../../model/index.ts";

type User = KubeConfig["users"][number];

/**
 * Adds to the users of a kubeconfig what kubectl knows and the library does not: `tokenFile` (read again as it
 * rotates), commands of exec plug-ins beside the file, and the KUBERNETES_EXEC_INFO that plug-ins ask for.
 */
export function completeUsers(users: readonly User[], text: string, file: string): User[] {
  const root = parseYaml(text, file).value;
  const raw = new Map(entries(root).map((entry) => [entry["name"], entry["user"]]));
  return users.map((user) => {
    const told = raw.get(user.name);
    return isJsonObject(told) ? complete(user, told, dirname(file)) : user;
  });
}

function entries(root: Json): JsonObject[] {
  const users = isJsonObject(root) ? root["users"] : undefined;
  return Array.isArray(users) ? users.filter(isJsonObject) : [];
}

function complete(user: User, told: JsonObject, folder: string): User {
  const tokenFile = told["tokenFile"];
  if (typeof tokenFile === "string" && tokenFile !== "") {
    const { token: _, ...rest } = user;
    return {
      ...rest,
      authProvider: { name: "tokenFile", config: { tokenFile: resolve(folder, tokenFile) } },
    };
  }
  return isJsonObject(told["exec"]) ? { ...user, exec: completeExec(told["exec"], folder) } : user;
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
