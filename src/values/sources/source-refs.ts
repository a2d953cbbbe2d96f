/** Reads `<camel>ValuesFrom` and `globalValuesFrom` of the ConfigMap, and names the objects that they mean. */

import { ProblemError, type Json, type JsonObject, type ValuesSource } from "../../model/index.ts";
import { createValidator } from "../schema/validator.ts";

/** Default of `key`. */
export const DEFAULT_SOURCE_KEY = "values.yaml";

/** As `valuesFrom` in `modules/addon.schema.json`; a test compares both. */
export const SOURCES_SCHEMA: JsonObject = {
  type: "array",
  maxItems: 50,
  items: {
    type: "object",
    additionalProperties: false,
    required: ["kind", "name"],
    properties: {
      kind: { enum: ["Secret", "ConfigMap"] },
      name: { type: "string", minLength: 1, maxLength: 253, pattern: "^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$" },
      namespace: { type: "string", minLength: 1, maxLength: 63, pattern: "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$" },
      key: { type: "string", minLength: 1, maxLength: 253, pattern: "^[-._a-zA-Z0-9]+$" },
      path: { type: "string", maxLength: 1024, pattern: "^(/([^/~]|~[01])+)+$" },
      optional: { type: "boolean" },
    },
  },
};

const validate = createValidator(SOURCES_SCHEMA);

/** The sources that a key of the ConfigMap lists. Throws ProblemError. */
export function readSources(value: Json, file: string, key: string): readonly ValuesSource[] {
  const [wrong] = validate(value);
  if (wrong === undefined) return value as unknown as readonly ValuesSource[];
  const message = wrong.path === "/" ? wrong.message : `${wrong.path}: ${wrong.message}`;
  const remedy = "write a list of {kind: Secret, name: …}; docs/reference/values.md has its keys";
  throw new ProblemError({ file, key, message, remedy });
}

/** The object of a source, and how messages name it. */
export interface SourceObject {
  readonly kind: ValuesSource["kind"];
  readonly namespace: string;
  readonly name: string;
  /** `Secret NAMESPACE/NAME`. */
  readonly title: string;
}

/** The object that a source means; `namespace` is the operator's. */
export function toSourceObject(
  { kind, name, namespace: own }: ValuesSource,
  namespace: string,
): SourceObject {
  const objectNamespace = own ?? namespace;
  return { kind, name, namespace: objectNamespace, title: `${kind} ${objectNamespace}/${name}` };
}
