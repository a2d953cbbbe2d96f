/**
 * CustomResourceDefinitions (*definitions*), and what a new one takes away from the installed one: its *losses*, each with a test which
 * objects it affects (docs/reference/modules.md, "CRDs that change").
 */

import { CUSTOM_RESOURCE_DEFINITIONS, get, ignoreNotFound } from "../../kube/index.ts";
import type { KubeClient, Resource } from "../../kube/index.ts";
import { sameJson, type Clock } from "../../base/index.ts";
import { objectOf, objectsIn, asString, type JsonObject } from "../../base/model/index.ts";
import {
  createDefaultsFiller,
  structuralSchema,
  createValidator,
  violationId,
  type Violation,
} from "../../values/index.ts";

export interface CrdTools {
  readonly client: KubeClient;
  readonly clock: Clock;
  readonly signal?: AbortSignal | undefined;
  /** Labels that each definition gets (`--crd-extra-labels`). */
  readonly labels?: Readonly<Record<string, string>> | undefined;
  /** Namespace and name of the AddonModule whose annotation confirms a change. */
  readonly namespace?: string;
  readonly release?: string | undefined;
  /** Token of the breaking change that a user has confirmed. */
  readonly confirmed?: string | undefined;
  /** Called from time to time with the progress of long work on objects, in words. */
  readonly onProgress?: ((progress: string) => void) | undefined;
  /** Called with unknown fields of definitions, by file; they are not applied. */
  readonly onDropped?: ((dropped: ReadonlyMap<string, readonly string[]>) => void) | undefined;
}

export interface CrdRequest {
  /** The module; undefined = they are applied as the operator. */
  readonly release?: string | undefined;
  /** Including files of enabled sub-charts. */
  readonly files: readonly string[];
  /** Token of the breaking change that a user has confirmed. */
  readonly confirmed?: string | undefined;
}

export interface CrdFile {
  readonly file: string;
  readonly crd: JsonObject;
}

/** An installed CRD, which the API server has validated. */
export interface InstalledCrd {
  readonly metadata: {
    readonly name: string;
    readonly uid?: string;
    readonly generation?: number;
    readonly annotations?: Readonly<Record<string, string>>;
  };
  readonly spec: CrdSpec;
  readonly status?: { readonly storedVersions?: readonly string[] };
}

interface CrdSpec {
  readonly group: string;
  readonly scope: string;
  readonly names: { readonly plural: string; readonly kind: string };
  readonly versions: readonly CrdVersion[];
}

interface CrdVersion {
  readonly name: string;
  readonly served: boolean;
  readonly storage: boolean;
  readonly schema?: { readonly openAPIV3Schema?: JsonObject };
}

/** The name of a definition, "" where it has none. */
export function crdName(object: JsonObject): string {
  return asString(objectOf(object["metadata"])["name"]) ?? "";
}

/** The installed definition of this name, as the target of requests. */
export function crdTarget(name: string) {
  return { resource: CUSTOM_RESOURCE_DEFINITIONS, name };
}

/** Reads the installed definition of this name; undefined if there is none. Throws ApiError, ConnectionError. */
export function readInstalledCrd(
  name: string,
  { client, signal }: Pick<CrdTools, "client" | "signal">,
): Promise<JsonObject | undefined> {
  return get(client, crdTarget(name), { signal }).catch(ignoreNotFound);
}

/** The resource in one version of a definition, for requests about its objects. */
export function toResource({ group, names, scope }: CrdSpec, version: string): Resource {
  const { plural, kind } = names;
  return { group, version, plural, kind, namespaced: scope === "Namespaced", verbs: [] };
}

/** The version in which a definition stores objects. */
export function storageVersion(crd: JsonObject): string | undefined {
  return listVersions(crd).find(({ storage }) => storage)?.name;
}

function listVersions(crd: JsonObject): readonly CrdVersion[] {
  return objectsIn(objectOf(crd["spec"])["versions"]) as unknown as readonly CrdVersion[];
}

export interface Loss {
  readonly description: string;
  /** The version in which objects are read. */
  readonly version: string;
  /** The loss is reported even if it affects no object. */
  readonly countsWithoutObjects: boolean;
  /** Describes how the loss affects an object ("" without details); undefined where it does not. */
  readonly describeEffect: (object: JsonObject) => string | undefined;
}

/** Finds the versions in which objects may be stored and which the new definition `next` no longer has. */
export function findDroppedStoredVersions(live: InstalledCrd, next: JsonObject): string[] {
  const nextVersions = new Set(listVersions(next).map(({ name }) => name));
  return (live.status?.storedVersions ?? []).filter((version) => !nextVersions.has(version));
}

/** Finds what the new definition `next` takes away from the installed one: stored versions, served versions, or values that the schema allowed. */
export function findLosses(live: InstalledCrd, next: JsonObject): Loss[] {
  const { versions, group } = live.spec;
  const served = versions.filter((version) => version.served);
  const readable = served.find((version) => version.storage) ?? served[0];
  // Objects of a definition without a served version cannot be read, nor do clients use them.
  if (readable === undefined) return [];
  const nextVersions = new Map(listVersions(next).map((version) => [version.name, version]));
  const dropped = findDroppedStoredVersions(live, next).map((version): Loss => ({
    description: `drops version ${version}, in which objects are stored`,
    version: readable.name,
    // The API server refuses the definition while the status lists the version, even if no object exists.
    countsWithoutObjects: true,
    describeEffect: () => "",
  }));
  const others = served.flatMap((version): Loss[] => {
    const nextVersion = nextVersions.get(version.name);
    if (nextVersion?.served !== true) return [buildUnservedVersionLoss(group, version.name)];
    return findSchemaLosses(version, nextVersion);
  });
  return [...dropped, ...others];
}

/** The loss of a served version. It affects objects that a field manager still writes in that version, by their `managedFields`. */
function buildUnservedVersionLoss(group: string, version: string): Loss {
  const apiVersion = `${group}/${version}`;
  return {
    description: `no longer serves version ${version}`,
    version,
    countsWithoutObjects: false,
    describeEffect: (object) => {
      const users = objectsIn(objectOf(object["metadata"])["managedFields"]).filter(
        (entry) => entry["apiVersion"] === apiVersion,
      );
      return users.length === 0
        ? undefined
        : `written in it by ${asString(users[0]?.["manager"]) ?? "an unknown manager"}`;
    },
  };
}

/** The loss by a changed schema, as a list of at most one. It affects objects that violate the new schema but not the old one. */
function findSchemaLosses(before: CrdVersion, after: CrdVersion): Loss[] {
  const oldSchema = objectOf(before.schema?.openAPIV3Schema);
  const newSchema = objectOf(after.schema?.openAPIV3Schema);
  if (sameJson(oldSchema, newSchema)) return [];
  const [validateOld, validateNew] = [buildValidator(oldSchema), buildValidator(newSchema)];
  const describeNewViolation = (object: JsonObject): string | undefined => {
    const violations = validateNew(object);
    if (violations.length === 0) return undefined;
    const oldIds = new Set(validateOld(object).map(violationId));
    const newViolation = violations.find((violation) => !oldIds.has(violationId(violation)));
    return newViolation && `${newViolation.path} ${newViolation.message}`;
  };
  return [
    {
      description: `has a stricter schema in version ${after.name}`,
      version: after.name,
      countsWithoutObjects: false,
      describeEffect: describeNewViolation,
    },
  ];
}

/**
 * Builds a validator for objects of an OpenAPI schema. The validator applies defaults first, as the server does, and ignores metadata,
 * whose schema is the server's.
 */
function buildValidator(openApi: JsonObject): (object: JsonObject) => readonly Violation[] {
  const schema = structuralSchema(openApi);
  const [fill, validate] = [createDefaultsFiller(schema), createValidator(schema)];
  return (object) => validate(fill({ ...object, metadata: {} }));
}
