/** Finds what of a schema cannot be used, and what is probably a mistake. */

import { oneLine, pointerOf } from "../../lib/index.ts";
import { objectOf, type JsonObject, type Problem } from "../../model/index.ts";
import { knowsFormat } from "./validator.ts";
import { compilePattern } from "./pattern.ts";
import { allSchemas, subSchemas, targetOf } from "./schema-tree.ts";

/** Everything that is wrong with the references and patterns of a schema, with paths. */
export function checkSchema(root: JsonObject, file: string): Problem[] {
  const problems: Problem[] = [];
  for (const [pointer, schema] of allSchemas(root)) {
    const report = (message: string, remedy?: string): void => {
      problems.push({
        file,
        key: pointer === "" ? "/" : pointer,
        message,
        ...(remedy === undefined ? {} : { remedy }),
      });
    };
    checkRef(root, schema, report);
    for (const pattern of patternsIn(schema)) checkPattern(pattern, report);
  }
  return problems;
}

type Report = (message: string, remedy?: string) => void;

function checkRef(root: JsonObject, schema: JsonObject, report: Report): void {
  const { $ref } = schema;
  if ($ref === undefined) return;
  if (typeof $ref !== "string") return report("$ref must be a string");
  if (!$ref.startsWith("#")) return report(`$ref "${$ref}" leaves the file`, "refer to #/definitions/… only");
  if (targetOf(root, schema) === undefined) return report(`$ref "${$ref}" points to nothing`);
  if (isEndless(root, schema, [])) report(`$ref "${$ref}" leads back to itself`);
}

/** True when following references and branches, without going into any member or item, never ends. */
function isEndless(root: JsonObject, schema: JsonObject, above: readonly JsonObject[]): boolean {
  if (above.includes(schema)) return schema === above[0];
  const path = [...above, schema];
  const target = targetOf(root, schema);
  if (target !== undefined && isEndless(root, target, path)) return true;
  return subSchemas(schema).some((sub) => sub.relation === "same" && isEndless(root, sub.schema, path));
}

function patternsIn(schema: JsonObject): string[] {
  const { pattern, patternProperties } = schema;
  const named = Object.keys(objectOf(patternProperties));
  return typeof pattern === "string" ? [pattern, ...named] : named;
}

function checkPattern(pattern: string, report: Report): void {
  try {
    compilePattern(pattern);
  } catch (error) {
    report(`pattern ${JSON.stringify(pattern)} cannot be used: ${oneLine(error, 200)}`);
  }
}

/** JSON pointers (with `*` for any member or item) of values that must never be shown. */
export function secretPathsOf(root: JsonObject): string[] {
  const found = new Set<string>();
  collectSecrets(root, { schema: root, path: "", above: [] }, found);
  return [...found];
}

interface SchemaNode {
  readonly schema: JsonObject;
  readonly path: string;
  readonly above: readonly JsonObject[];
}

function collectSecrets(root: JsonObject, place: SchemaNode, found: Set<string>): void {
  const { schema, path, above } = place;
  if (above.includes(schema)) return;
  if (isSecret(schema)) found.add(path);
  const next = [...above, schema];
  const target = targetOf(root, schema);
  if (target !== undefined) collectSecrets(root, { schema: target, path, above: next }, found);
  for (const sub of subSchemas(schema)) {
    if (sub.relation === "definition") continue;
    const [keyword, name] = sub.path;
    const step = keyword === "properties" ? pointerOf([name ?? ""]) : "/*";
    const below = sub.relation === "same" ? path : path + step;
    collectSecrets(root, { schema: sub.schema, path: below, above: next }, found);
  }
}

function isSecret(schema: JsonObject): boolean {
  return (
    ["writeOnly", "x-secret", "x-sensitive"].some((keyword) => schema[keyword] === true) ||
    schema["format"] === "password"
  );
}

const KEYWORDS = new Set(
  `$ref $schema $id id $comment $defs title description default example examples nullable readOnly writeOnly
  deprecated externalDocs xml discriminator type enum const multipleOf minimum maximum exclusiveMinimum
  exclusiveMaximum minLength maxLength pattern format items additionalItems minItems maxItems uniqueItems contains
  properties patternProperties additionalProperties propertyNames required minProperties maxProperties
  dependencies definitions allOf anyOf oneOf not if then else contentEncoding contentMediaType`.split(/\s+/),
);

/** Warnings about a schema that can be used: misspelt keywords, unknown formats, CEL rules. Each is told once. */
export function schemaWarnings(root: JsonObject, file: string): string[] {
  const places = new Map<string, string[]>();
  let hasRules = false;
  for (const [pointer, schema] of allSchemas(root)) {
    const { format } = schema;
    const told = Object.keys(schema)
      .filter((keyword) => !KEYWORDS.has(keyword) && !keyword.startsWith("x-"))
      .map((keyword) => `unknown keyword "${keyword}"`);
    if (typeof format === "string" && !knowsFormat(format)) told.push(`unknown format "${format}"`);
    for (const text of told) places.set(text, [...(places.get(text) ?? []), pointer === "" ? "/" : pointer]);
    hasRules ||= schema["x-deckhouse-validations"] !== undefined;
  }
  const warnings = [...places].map(([text, [first, ...more]]) => {
    const rest =
      more.length === 0 ? "" : `, also in ${more.length} other place${more.length === 1 ? "" : "s"}`;
    return `${file}: ${first}: ${text}${rest}`;
  });
  if (hasRules) warnings.push(`${file}: x-deckhouse-validations (CEL) is not evaluated`);
  return warnings;
}
