/**
 * Finds the paths of values that a schema marks as secret. A *recursive* schema contains itself (a tree of nodes), so its secrets have
 * endlessly many paths: `**` in a path stands for any number of levels, `*` for any member or item.
 */

import { toPointer } from "../../base/index.ts";
import type { JsonObject } from "../../base/model/index.ts";
import { nextSchemas, type SubSchema } from "./schema-tree.ts";

/** A schema with more secret paths redacts all values: `$ref` can create any number of paths. */
const MAX_VISITS = 10_000;

/** JSON pointers of the values that a schema marks as secret; `[""]`, all values, if there are very many. */
export function findSecretPaths(root: JsonObject): string[] {
  const search: Search = {
    root,
    schemasAboveSecrets: findSchemasAboveSecrets(root),
    found: new Set(),
    recursivePaths: new Set(),
    above: new Map(),
    visits: 0,
  };
  collectSecretPaths(search, root, "");
  if (search.visits > MAX_VISITS) return [""];
  const found = [...search.found];
  return [...found, ...[...search.recursivePaths].flatMap((path) => toAnyLevelPaths(path, found))];
}

interface Search {
  readonly root: JsonObject;
  /** Schemas that are marked, or have a marked one below them. */
  readonly schemasAboveSecrets: ReadonlySet<JsonObject>;
  readonly found: Set<string>;
  /** Paths of schemas that occur again below themselves. */
  readonly recursivePaths: Set<string>;
  /** Paths of the schemas around the visited one. */
  readonly above: Map<JsonObject, string>;
  visits: number;
}

/**
 * Visits a schema, which describes the value at `path`, and those below it that lead to secrets. Adds the paths of secrets to
 * `search.found`. Stops at a schema that contains itself, and adds the path at which the schema occurred first to `search.recursivePaths`.
 */
function collectSecretPaths(search: Search, schema: JsonObject, path: string): void {
  const { above } = search;
  if (!search.schemasAboveSecrets.has(schema)) return;
  search.visits++;
  if (search.visits > MAX_VISITS) return;
  const firstPath = above.get(schema);
  if (firstPath !== undefined) {
    // With the same path, the schema leads back to itself for the same value, which adds no secrets.
    if (firstPath !== path) search.recursivePaths.add(firstPath);
    return;
  }
  if (isSecret(schema)) search.found.add(path);
  above.set(schema, path);
  for (const below of nextSchemas(search.root, schema))
    collectSecretPaths(search, below.schema, path + toPathSegment(below));
  above.delete(schema);
}

/** The path segment from a value to the value of its sub-schema. */
function toPathSegment({ path: [keyword, name = ""], relation }: SubSchema): string {
  if (relation === "same") return "";
  return keyword === "properties" ? toPointer([name]) : "/*";
}

/** Finds the schemas that are marked as secret or have a marked one below them, so that the search skips all others. */
function findSchemasAboveSecrets(root: JsonObject): ReadonlySet<JsonObject> {
  const parentsBySchema = new Map<JsonObject, JsonObject[]>([[root, []]]);
  // Both collections grow while they are walked: each schema is handled once.
  for (const schema of parentsBySchema.keys())
    for (const { schema: below } of nextSchemas(root, schema)) {
      const parents = parentsBySchema.get(below);
      if (parents === undefined) parentsBySchema.set(below, [schema]);
      else parents.push(schema);
    }
  const aboveSecrets = new Set([...parentsBySchema.keys()].filter(isSecret));
  for (const schema of aboveSecrets)
    for (const parent of parentsBySchema.get(schema) ?? []) aboveSecrets.add(parent);
  return aboveSecrets;
}

/**
 * The paths of the secrets below the recursive schema at `path`, at any depth: the path, `**` and the last segment with a name. For the
 * secret `password` in any node of the tree at `/tree`, that is `/tree/**` and `/password`.
 */
function toAnyLevelPaths(path: string, secretPaths: readonly string[]): string[] {
  return secretPaths
    .filter((each) => each.startsWith(`${path}/`))
    .map((each) => {
      const segments = each.split("/");
      const lastKey = segments.findLastIndex((segment) => segment !== "*");
      return `${path}/**/${segments.slice(lastKey).join("/")}`;
    });
}

function isSecret(schema: JsonObject): boolean {
  return (
    ["writeOnly", "x-secret", "x-sensitive"].some((keyword) => schema[keyword] === true) ||
    schema["format"] === "password"
  );
}
