/** CustomResourceDefinitions, and what a new one removes (docs/reference/modules.md, "CRDs that change"). */

import type { KubeClient, Resource } from "../../kube/index.ts";
import { sameJson, type Clock } from "../../lib/index.ts";
import { objectOf, objectsIn, asString, type JsonObject } from "../../model/index.ts";
import {
  createFiller,
  structuralSchema,
  createValidator,
  violationId,
  type Violation,
} from "../../values/index.ts";

/** Tools and options for work on CRDs. */
export interface CrdTools {
  readonly client: KubeClient;
  readonly clock: Clock;
  readonly signal?: AbortSignal | undefined;
  /** Field manager; the operator's own by default. */
  readonly fieldManager?: string;
  /** Labels that each definition gets (`--crd-extra-labels`). */
  readonly labels?: Readonly<Record<string, string>> | undefined;
  /** Namespace and name of the AddonModule whose annotation confirms a change. */
  readonly namespace?: string;
  readonly release?: string | undefined;
  /** Token of the breaking change that a user has confirmed. */
  readonly confirmed?: string | undefined;
  /** Called from time to time with the progress of long work on objects, in words. */
  readonly report?: ((progress: string) => void) | undefined;
  /** Called with unknown fields of definitions, by file; they are not applied. */
  readonly onDropped?: ((dropped: ReadonlyMap<string, readonly string[]>) => void) | undefined;
}

/** The CRDs of a module. */
export interface CrdRequest {
  /** The module; undefined = they are applied as the operator. */
  readonly release?: string | undefined;
  /** Including files of enabled sub-charts. */
  readonly files: readonly string[];
  /** Token of the breaking change that a user has confirmed. */
  readonly confirmed?: string | undefined;
}

/** A definition as a module has it. */
export interface CrdFile {
  readonly file: string;
  readonly crd: JsonObject;
}

/** An installed CRD, which the API server has validated. */
export interface StoredCrd {
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
function versionsOf(crd: JsonObject): readonly CrdVersion[] {
  return objectsIn(objectOf(crd["spec"])["versions"]) as unknown as readonly CrdVersion[];
}

/** Something that a new definition removes, and a test for the affected objects. */
export interface Loss {
  readonly what: string;
  /** The version in which objects are read. */
  readonly version: string;
  /** It counts even without objects. */
  readonly always: boolean;
  /** How an object is affected ("" without details); undefined where it is not. */
  readonly hits: (object: JsonObject) => string | undefined;
}

/** The versions in which objects may be stored and which `next` drops. */
export function unstored(live: StoredCrd, next: JsonObject): string[] {
  const kept = new Set(versionsOf(next).map(({ name }) => name));
  return (live.status?.storedVersions ?? []).filter((version) => !kept.has(version));
}

/** What `next` removes: stored versions, served versions, or values that the schema allowed. Pure. */
export function lossesOf(live: StoredCrd, next: JsonObject): Loss[] {
  const { versions, group } = live.spec;
  const served = versions.filter((version) => version.served);
  const readable = served.find((version) => version.storage) ?? served[0];
  if (readable === undefined) return [];
  const after = new Map(versionsOf(next).map((version) => [version.name, version]));
  const dropped = unstored(live, next).map((version): Loss => {
    const what = `drops version ${version}, in which objects are stored`;
    return { what, version: readable.name, always: true, hits: () => "" };
  });
  const others = served.flatMap((version): Loss[] => {
    const now = after.get(version.name);
    if (now?.served !== true) return [unserved(group, version.name)];
    return reshaped(version, now);
  });
  return [...dropped, ...others];
}

/** The loss of a served version. It affects the objects that someone still writes in that version. */
function unserved(group: string, version: string): Loss {
  const apiVersion = `${group}/${version}`;
  return {
    what: `no longer serves version ${version}`,
    version,
    always: false,
    hits: (object) => {
      const users = objectsIn(objectOf(object["metadata"])["managedFields"]).filter(
        (entry) => entry["apiVersion"] === apiVersion,
      );
      return users.length === 0
        ? undefined
        : `written in it by ${asString(users[0]?.["manager"]) ?? "an unknown manager"}`;
    },
  };
}

/** Losses by a changed schema: objects that were valid before and are invalid now. */
function reshaped(before: CrdVersion, after: CrdVersion): Loss[] {
  const old = objectOf(before.schema?.openAPIV3Schema);
  const now = objectOf(after.schema?.openAPIV3Schema);
  if (sameJson(old, now)) return [];
  const [checkBefore, checkNow] = [checkOf(old), checkOf(now)];
  const hits = (object: JsonObject): string | undefined => {
    const broken = checkNow(object);
    if (broken.length === 0) return undefined;
    const known = new Set(checkBefore(object).map(violationId));
    const fresh = broken.find((violation) => !known.has(violationId(violation)));
    return fresh && `${fresh.path} ${fresh.message}`;
  };
  return [
    { what: `has a stricter schema in version ${after.name}`, version: after.name, always: false, hits },
  ];
}

/** A validator that applies defaults first, as the server does. */
function checkOf(openApi: JsonObject): (object: JsonObject) => readonly Violation[] {
  const schema = structuralSchema(openApi);
  const [fill, validate] = [createFiller(schema), createValidator(schema)];
  return (object) => validate(fill({ ...object, metadata: {} }));
}
