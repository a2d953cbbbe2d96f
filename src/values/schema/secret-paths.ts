/** Where the values are that a schema marks as secret. */

import { pointerOf } from "../../lib/index.ts";
import type { JsonObject } from "../../model/index.ts";
import { nextSchemas, type SubSchema } from "./schema-tree.ts";

/** A schema whose secrets are in more places than this hides all values: `$ref` can make any number of them. */
const MOST_PLACES = 10_000;

/**
 * JSON pointers of values that must never be shown. `*` is any member or item, `**` any number of levels, as below a
 * schema that refers to itself.
 */
export function secretPathsOf(root: JsonObject): string[] {
  const search: Search = {
    root,
    leading: leadingToSecrets(root),
    found: new Set(),
    repeated: new Set(),
    places: 0,
  };
  visit(search, { schema: root, path: "", above: new Map() });
  if (search.places > MOST_PLACES) return [""];
  const found = [...search.found];
  return [...found, ...[...search.repeated].flatMap((path) => atAnyLevel(path, found))];
}

interface Search {
  readonly root: JsonObject;
  /** Schemas that are marked, or have a marked one below them. */
  readonly leading: ReadonlySet<JsonObject>;
  readonly found: Set<string>;
  /** Paths of schemas that occur again below themselves. */
  readonly repeated: Set<string>;
  places: number;
}

interface Place {
  readonly schema: JsonObject;
  readonly path: string;
  /** The schemas that lead here, with their paths. */
  readonly above: ReadonlyMap<JsonObject, string>;
}

function visit(search: Search, { schema, path, above }: Place): void {
  if (!search.leading.has(schema) || search.places++ > MOST_PLACES) return;
  const first = above.get(schema);
  if (first !== undefined) {
    if (first !== path) search.repeated.add(first);
    return;
  }
  if (isSecret(schema)) search.found.add(path);
  const next = new Map(above).set(schema, path);
  for (const below of nextSchemas(search.root, schema))
    visit(search, { schema: below.schema, path: path + stepTo(below), above: next });
}

/** The step of a path that leads from a value to the one that a schema below describes. */
function stepTo({ path: [keyword, name = ""], relation }: SubSchema): string {
  if (relation === "same") return "";
  return keyword === "properties" ? pointerOf([name]) : "/*";
}

function leadingToSecrets(root: JsonObject): ReadonlySet<JsonObject> {
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

/** What was found below `path` is secret at each level below it, by its last name. */
function atAnyLevel(path: string, found: readonly string[]): string[] {
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
