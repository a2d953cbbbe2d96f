/** Warnings about schemas that can be used. */

import type { JsonObject } from "../../model/index.ts";
import { knowsFormat } from "./ajv.ts";
import { allSchemas } from "./schema-tree.ts";

const KEYWORDS = new Set(
  `$ref $schema $id id $comment $defs title description default example examples nullable readOnly writeOnly
  deprecated externalDocs xml discriminator type enum const multipleOf minimum maximum exclusiveMinimum
  exclusiveMaximum minLength maxLength pattern format items additionalItems minItems maxItems uniqueItems contains
  properties patternProperties additionalProperties propertyNames required minProperties maxProperties
  dependencies definitions allOf anyOf oneOf not if then else contentEncoding contentMediaType`.split(/\s+/),
);

/** Warnings about a schema that can be used: misspelt keywords, unknown formats, CEL rules. */
export function schemaWarnings(root: JsonObject, file: string): string[] {
  const warnings: string[] = [];
  let hasRules = false;
  for (const [pointer, schema] of allSchemas(root)) {
    const at = `${file}: ${pointer === "" ? "/" : pointer}`;
    for (const keyword of Object.keys(schema)) {
      if (!KEYWORDS.has(keyword) && !keyword.startsWith("x-"))
        warnings.push(`${at}: unknown keyword "${keyword}"`);
    }
    const { format } = schema;
    if (typeof format === "string" && !knowsFormat(format))
      warnings.push(`${at}: unknown format "${format}"`);
    hasRules ||= schema["x-deckhouse-validations"] !== undefined;
  }
  if (hasRules) warnings.push(`${file}: x-deckhouse-validations (CEL) is not evaluated`);
  return warnings;
}
