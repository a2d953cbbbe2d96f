/** CustomResourceDefinitions, and what a new one takes away (docs/MODULES.md, "CRDs that change"). */

import type { KubeClient, Resource } from "../../kube/index.ts";
import { sameJson, type Clock } from "../../lib/index.ts";
import { objectOf, objectsIn, textOf, type JsonObject } from "../../model/index.ts";
import { fillerOf, structuralSchema, validatorOf, violationId, type Violation } from "../../values/index.ts";

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
  /** Called with fields that no definition has, by file; they are not applied. */
  readonly onDropped?: ((dropped: ReadonlyMap<string, readonly string[]>) => void) | undefined;
}

/** A definition as a module has it. */
export interface CrdFile {
  readonly file: string;
  readonly crd: JsonObject;
}

/** A CRD as the API server has it, which has validated it. */
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
function versionsOf(crd: JsonObject): readonly CrdVersion[] {
  return objectsIn(objectOf(crd["spec"])["versions"]) as unknown as readonly CrdVersion[];
}

/** Something that a new definition takes away, and who it is taken from. */
export interface Loss {
  readonly what: string;
  /** The version to read objects in. */
  readonly version: string;
  /** It counts even where there are no objects. */
  readonly always: boolean;
  /** How an object is hit, "" where there is nothing to add; undefined: it is not. */
  readonly hits: (object: JsonObject) => string | undefined;
}

/** The versions in which objects may be stored, and which `next` does not have any more. */
export function unstored(live: StoredCrd, next: JsonObject): string[] {
  const kept = new Set(versionsOf(next).map(({ name }) => name));
  return (live.status?.storedVersions ?? []).filter((version) => !kept.has(version));
}

/** What `next` takes away: a stored version, a served one, or room in a schema. Pure. */
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
        : `written in it by ${textOf(users[0]?.["manager"]) ?? "somebody"}`;
    },
  };
}

/** What fitted before and does not fit now; what did not fit before is nobody's loss. */
function reshaped(before: CrdVersion, after: CrdVersion): Loss[] {
  const old = objectOf(before.schema?.openAPIV3Schema);
  const now = objectOf(after.schema?.openAPIV3Schema);
  if (sameJson(old, now)) return [];
  const [fitted, fits] = [checkOf(old), checkOf(now)];
  const hits = (object: JsonObject): string | undefined => {
    const broken = fits(object);
    if (broken.length === 0) return undefined;
    const known = new Set(fitted(object).map(violationId));
    const fresh = broken.find((violation) => !known.has(violationId(violation)));
    return fresh && `${fresh.path} ${fresh.message}`;
  };
  return [
    { what: `has a stricter schema in version ${after.name}`, version: after.name, always: false, hits },
  ];
}

/** Defaults fill what is missing before the server validates. */
function checkOf(openApi: JsonObject): (object: JsonObject) => readonly Violation[] {
  const schema = structuralSchema(openApi);
  const [fill, validate] = [fillerOf(schema), validatorOf(schema)];
  return (object) => validate(fill({ ...object, metadata: {} }));
}
