/**
 * Credentials of a source for one registry, from the Secret that the source names. A user who may write ModuleSources may not
 * be allowed to read Secrets. So only a Secret for registries counts, and only for the hosts that the Secret itself names.
 */

import type { Secret } from "../../kube/index.ts";
import { ProblemError } from "../../base/model/index.ts";
import { findLogin, type Login } from "../registry/index.ts";
import type { SourceSpec } from "../types.ts";

/** Annotation of a `kubernetes.io/basic-auth` Secret with its host, in the form of a key of a docker config: `HOST[:PORT][/PATH]`. */
const HOST_ANNOTATION = "addon-operator.io/host";

/** Entries that contain a docker config, by type of the Secret. */
const DOCKER_CONFIG_ENTRIES: Readonly<Partial<Record<string, string>>> = {
  "kubernetes.io/dockerconfigjson": ".dockerconfigjson",
  "kubernetes.io/dockercfg": ".dockercfg",
};
const BASIC_AUTH = "kubernetes.io/basic-auth";

interface NamedSecret {
  readonly metadata: Pick<Secret["metadata"], "name" | "namespace">;
}

/** The credentials of a Secret for a registry; undefined if the Secret names other hosts only. Throws ProblemError. */
export function findSecretLogin(secret: Secret, registry: SourceSpec["registry"]): Login | undefined {
  const config = readDockerConfig(secret);
  try {
    return findLogin(config, registry);
  } catch {
    // The cause could quote the content.
    throw toSecretError(secret, "has a docker config that cannot be read");
  }
}

/** The docker config in a Secret, which names the hosts. Throws ProblemError for a Secret without one. */
function readDockerConfig(secret: Secret): string {
  const { type = "Opaque", data = {} } = secret;
  if (type === BASIC_AUTH) return toDockerConfig(secret);
  const entry = DOCKER_CONFIG_ENTRIES[type];
  if (entry === undefined) throw toSecretError(secret, `is of type ${type}, not of a type for registries`);
  return decodeBase64(data[entry]);
}

/** Converts a `kubernetes.io/basic-auth` Secret to a docker config. Throws ProblemError if it names no host. */
function toDockerConfig(secret: Secret): string {
  const { metadata, data = {} } = secret;
  const { name, namespace = "", annotations = {} } = metadata;
  const host = annotations[HOST_ANNOTATION];
  if (host === undefined) {
    const remedy = `annotate it with the host that the user is for: kubectl annotate secret ${name} -n ${namespace} ${HOST_ANNOTATION}=HOST`;
    throw toSecretError(secret, "does not name the host of its user", remedy);
  }
  const [username, password] = [data["username"], data["password"]].map(decodeBase64);
  return JSON.stringify({ auths: { [host]: { username, password } } });
}

/** The error about a Secret; by default, the remedy is to create another one. */
function toSecretError({ metadata }: NamedSecret, message: string, remedy?: string): Error {
  const { name, namespace = "" } = metadata;
  const file = `Secret ${name}`;
  return new ProblemError({ file, message, remedy: remedy ?? describeCreation(name, namespace) });
}

/** The error about a Secret that does not exist. */
export function toMissingSecretError(name: string, namespace: string): Error {
  return toSecretError({ metadata: { name, namespace } }, "does not exist");
}

function describeCreation(name: string, namespace: string): string {
  return `create it with kubectl create secret docker-registry ${name} -n ${namespace}`;
}

function decodeBase64(text = ""): string {
  return Buffer.from(text, "base64").toString("utf8");
}
