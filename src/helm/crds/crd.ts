/** CustomResourceDefinitions, as files and as the API server have them. */

import type { Clock } from "../../lib/index.ts";
import type { KubeClient, Resource } from "../../kube/index.ts";
import { objectOf, objectsIn, textOf, type JsonObject } from "../../model/index.ts";

/** What is needed to work on them. */
export interface CrdTools {
  readonly client: KubeClient;
  readonly clock: Clock;
  readonly signal?: AbortSignal | undefined;
  /** Field manager; the operator's own by default. */
  readonly fieldManager?: string;
  /** The breaking change that a person has confirmed, by its token. */
  readonly confirmed?: string | undefined;
  /** Called now and then with what a long work on objects has come to, in words. */
  readonly tell?: ((progress: string) => void) | undefined;
}

/** A definition as a module has it. */
export interface CrdFile {
  readonly file: string;
  readonly crd: JsonObject;
}

/** A CRD as the API server has it, which has validated it. */
export interface StoredCrd {
  readonly metadata: { readonly name: string };
  readonly spec: CrdSpec;
  readonly status?: { readonly storedVersions?: readonly string[] };
}

interface CrdSpec {
  readonly group: string;
  readonly scope: string;
  readonly names: { readonly plural: string; readonly kind: string };
  readonly versions: readonly CrdVersion[];
}

export interface CrdVersion {
  readonly name: string;
  readonly served: boolean;
  readonly storage: boolean;
  readonly schema?: { readonly openAPIV3Schema?: JsonObject };
}

/** The name of a definition, "" where it has none. */
export function nameOf(object: JsonObject): string {
  return textOf(objectOf(object["metadata"])["name"]) ?? "";
}

/** The path of a definition's objects in one version. */
export function resourceIn({ group, names, scope }: CrdSpec, version: string): Resource {
  const { plural, kind } = names;
  return { group, version, plural, kind, namespaced: scope === "Namespaced", verbs: [] };
}

/** The version in which a definition stores objects. */
export function storageVersion(crd: JsonObject): string | undefined {
  return versionsOf(crd).find(({ storage }) => storage)?.name;
}

/** The versions that a definition names. */
export function versionsOf(crd: JsonObject): readonly CrdVersion[] {
  return objectsIn(objectOf(crd["spec"])["versions"]) as unknown as readonly CrdVersion[];
}
