/**
 * The fields of a CustomResourceDefinition of apiextensions.k8s.io/v1. `FIELDS` has for each type the types of its fields: `""` is any
 * value, `T` a value or a list of values of that type, `*T` a map of these. A test compares them with `@kubernetes/client-node`.
 */

import { isJsonObject, type Json, type JsonObject } from "../../base/model/index.ts";

export const FIELDS: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  V1CustomResourceDefinition: {
    ...fieldsOfAnyType("apiVersion kind status"),
    metadata: "V1ObjectMeta",
    spec: "V1CustomResourceDefinitionSpec",
  },
  V1ObjectMeta: fieldsOfAnyType(
    "annotations creationTimestamp deletionGracePeriodSeconds deletionTimestamp finalizers generateName generation",
    "labels managedFields name namespace ownerReferences resourceVersion selfLink uid",
  ),
  V1CustomResourceDefinitionSpec: {
    ...fieldsOfAnyType("group preserveUnknownFields scope"),
    conversion: "V1CustomResourceConversion",
    names: "V1CustomResourceDefinitionNames",
    versions: "V1CustomResourceDefinitionVersion",
  },
  V1CustomResourceDefinitionNames: fieldsOfAnyType("categories kind listKind plural shortNames singular"),
  V1CustomResourceConversion: { ...fieldsOfAnyType("strategy"), webhook: "V1WebhookConversion" },
  V1WebhookConversion: {
    ...fieldsOfAnyType("conversionReviewVersions"),
    clientConfig: "ApiextensionsV1WebhookClientConfig",
  },
  ApiextensionsV1WebhookClientConfig: {
    ...fieldsOfAnyType("caBundle url"),
    service: "ApiextensionsV1ServiceReference",
  },
  ApiextensionsV1ServiceReference: fieldsOfAnyType("name namespace path port"),
  V1CustomResourceDefinitionVersion: {
    ...fieldsOfAnyType("deprecated deprecationWarning name served storage"),
    additionalPrinterColumns: "V1CustomResourceColumnDefinition",
    schema: "V1CustomResourceValidation",
    selectableFields: "V1SelectableField",
    subresources: "V1CustomResourceSubresources",
  },
  V1CustomResourceColumnDefinition: fieldsOfAnyType("description format jsonPath name priority type"),
  V1SelectableField: fieldsOfAnyType("jsonPath"),
  V1CustomResourceSubresources: { ...fieldsOfAnyType("status"), scale: "V1CustomResourceSubresourceScale" },
  V1CustomResourceSubresourceScale: fieldsOfAnyType("labelSelectorPath specReplicasPath statusReplicasPath"),
  V1CustomResourceValidation: { openAPIV3Schema: "V1JSONSchemaProps" },
  V1JSONSchemaProps: {
    ...fieldsOfAnyType(
      "$ref $schema default description enum example exclusiveMaximum exclusiveMinimum format id maxItems maxLength",
      "maxProperties maximum minItems minLength minProperties minimum multipleOf nullable pattern required title type",
      "uniqueItems x-kubernetes-embedded-resource x-kubernetes-int-or-string x-kubernetes-list-map-keys",
      "x-kubernetes-list-type x-kubernetes-map-type x-kubernetes-preserve-unknown-fields",
    ),
    additionalItems: "V1JSONSchemaProps",
    additionalProperties: "V1JSONSchemaProps",
    allOf: "V1JSONSchemaProps",
    anyOf: "V1JSONSchemaProps",
    definitions: "*V1JSONSchemaProps",
    dependencies: "*V1JSONSchemaProps",
    externalDocs: "V1ExternalDocumentation",
    items: "V1JSONSchemaProps",
    not: "V1JSONSchemaProps",
    oneOf: "V1JSONSchemaProps",
    patternProperties: "*V1JSONSchemaProps",
    properties: "*V1JSONSchemaProps",
    "x-kubernetes-validations": "V1ValidationRule",
  },
  V1ExternalDocumentation: fieldsOfAnyType("description url"),
  V1ValidationRule: fieldsOfAnyType("fieldPath message messageExpression optionalOldSelf reason rule"),
};

/** Entries of `FIELDS` for fields whose values are not examined. Each argument is a line of names separated by blanks. */
function fieldsOfAnyType(...names: readonly string[]): Record<string, string> {
  return Object.fromEntries(names.flatMap((line) => line.split(" ")).map((name) => [name, ""]));
}

/**
 * Removes from a CRD the fields that its type does not have, at any depth, as a typed client does: server-side apply refuses
 * unknown fields. Adds the names of the removed fields to `dropped`.
 */
export function withKnownFields(definition: JsonObject, dropped: Set<string>): JsonObject {
  return keepFieldsOfType("V1CustomResourceDefinition", definition, dropped);
}

/** Removes from an object the fields that its `type`, a key of `FIELDS`, does not have. Adds their names to `dropped`. */
function keepFieldsOfType(type: string, object: JsonObject, dropped: Set<string>): JsonObject {
  const fields = FIELDS[type] ?? {};
  const names = Object.keys(object);
  for (const name of names) if (!Object.hasOwn(fields, name)) dropped.add(name);
  const known = names.filter((name) => Object.hasOwn(fields, name));
  return Object.fromEntries(
    known.map((name) => [name, keepKnownFields(fields[name] ?? "", object[name], dropped)]),
  );
}

/**
 * Removes unknown fields from the value of one field, at any depth. `type` is the field's entry in `FIELDS`. A value of another JSON
 * type stays, so that the API server reports it.
 */
function keepKnownFields(type: string, value: Json | undefined, dropped: Set<string>): Json | undefined {
  if (type === "") return value;
  if (Array.isArray(value)) return value.map((each) => keepKnownFields(type, each, dropped) ?? null);
  if (!isJsonObject(value)) return value;
  if (!type.startsWith("*")) return keepFieldsOfType(type, value, dropped);
  const members = Object.entries(value);
  return Object.fromEntries(
    members.map(([name, each]) => [name, keepKnownFields(type.slice(1), each, dropped)]),
  );
}
