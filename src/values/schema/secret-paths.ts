/** Finds the paths of values that a schema marks as secret. */

import { toPointer } from "../../lib/index.ts";
import type { JsonObject } from "../../model/index.ts";
import { nextSchemas, type SubSchema } from "./schema-tree.ts";

/** A schema with more secret paths redacts all values: `$ref` can create any number of paths. */
const MAX_VISITS = 10_000;

/** JSON pointers of values to redact. `*` matches any member or item, `**` any number of levels, as below a recursive schema. */
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
  /** Ancestors of the visited schema, with their paths. */
  readonly above: Map<JsonObject, string>;
  visits: number;
}

/**
 * Visits a schema and those below it that lead to secrets, and records the paths of secrets. Stops at a schema that is its own
 * ancestor, and records where it occurred first.
 */
function collectSecretPaths(search: Search, schema: JsonObject, path: string): void {
  const { above } = search;
  if (!search.schemasAboveSecrets.has(schema) || search.visits++ > MAX_VISITS) return;
  const first = above.get(schema);
  if (first !== undefined) {
    if (first !== path) search.recursivePaths.add(first);
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
  const parents = new Map<JsonObject, JsonObject[]>([[root, []]]);
  // Both collections grow while they are walked: each schema is handled once.
  for (const schema of parents.keys())
    for (const { schema: below } of nextSchemas(root, schema)) {
      const known = parents.get(below);
      if (known === undefined) parents.set(below, [schema]);
      else known.push(schema);
    }
  const leading = new Set([...parents.keys()].filter(isSecret));
  for (const schema of leading) for (const parent of parents.get(schema) ?? []) leading.add(parent);
  return leading;
}

/** For the recursive schema at `path`: the secrets below it at any depth, as `**` and their last named segment. */
function toAnyLevelPaths(path: string, found: readonly string[]): string[] {
  return found
    .filter((each) => each.startsWith(`${path}/`))
    .map((each) => {
      const steps = each.split("/");
      const last = steps.findLastIndex((step) => step !== "*");
      return `${path}/**/${steps.slice(last).join("/")}`;
    });
}

function isSecret(schema: JsonObject): boolean {
  return (
    ["writeOnly", "x-secret", "x-sensitive"].some((keyword) => schema[keyword] === true) ||
    schema["format"] === "password"
  );
}
