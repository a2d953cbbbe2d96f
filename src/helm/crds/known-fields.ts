/**
 * The fields of a CustomResourceDefinition of apiextensions.k8s.io/v1. A test compares them with the types of
 * `@kubernetes/client-node`.
 */

import { isJsonObject, type Json, type JsonObject } from "../../model/index.ts";

/**
 * The type of each field: "" is any value, `T` a value or a list of values of that type, `*T` a map of these. A value of
 * another JSON type is kept, so that the API server reports it.
 */
export const FIELDS: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  V1CustomResourceDefinition: {
    ...anyOf("apiVersion kind status"),
    metadata: "V1ObjectMeta",
    spec: "V1CustomResourceDefinitionSpec",
  },
  V1ObjectMeta: anyOf(
    "annotations creationTimestamp deletionGracePeriodSeconds deletionTimestamp finalizers generateName generation",
    "labels managedFields name namespace ownerReferences resourceVersion selfLink uid",
  ),
  V1CustomResourceDefinitionSpec: {
    ...anyOf("group preserveUnknownFields scope"),
    conversion: "V1CustomResourceConversion",
    names: "V1CustomResourceDefinitionNames",
    versions: "V1CustomResourceDefinitionVersion",
  },
  V1CustomResourceDefinitionNames: anyOf("categories kind listKind plural shortNames singular"),
  V1CustomResourceConversion: { ...anyOf("strategy"), webhook: "V1WebhookConversion" },
  V1WebhookConversion: {
    ...anyOf("conversionReviewVersions"),
    clientConfig: "ApiextensionsV1WebhookClientConfig",
  },
  ApiextensionsV1WebhookClientConfig: {
    ...anyOf("caBundle url"),
    service: "ApiextensionsV1ServiceReference",
  },
  ApiextensionsV1ServiceReference: anyOf("name namespace path port"),
  V1CustomResourceDefinitionVersion: {
    ...anyOf("deprecated deprecationWarning name served storage"),
    additionalPrinterColumns: "V1CustomResourceColumnDefinition",
    schema: "V1CustomResourceValidation",
    selectableFields: "V1SelectableField",
    subresources: "V1CustomResourceSubresources",
  },
  V1CustomResourceColumnDefinition: anyOf("description format jsonPath name priority type"),
  V1SelectableField: anyOf("jsonPath"),
  V1CustomResourceSubresources: { ...anyOf("status"), scale: "V1CustomResourceSubresourceScale" },
  V1CustomResourceSubresourceScale: anyOf("labelSelectorPath specReplicasPath statusReplicasPath"),
  V1CustomResourceValidation: { openAPIV3Schema: "V1JSONSchemaProps" },
  V1JSONSchemaProps: {
    ...anyOf(
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
  V1ExternalDocumentation: anyOf("description url"),
  V1ValidationRule: anyOf("fieldPath message messageExpression optionalOldSelf reason rule"),
};

/** Fields of any type, named in lines of words. */
function anyOf(...names: readonly string[]): Record<string, string> {
  return Object.fromEntries(names.flatMap((line) => line.split(" ")).map((name) => [name, ""]));
}

/**
 * A definition without the fields that its type does not have, as a typed client sends it. Server-side apply refuses
 * unknown fields. Adds the names of these fields to `dropped`.
 */
export function withKnownFields(definition: JsonObject, dropped: Set<string>): JsonObject {
  return objectBy("V1CustomResourceDefinition", definition, dropped);
}

/** An object without the fields that its type does not have. */
function objectBy(type: string, object: JsonObject, dropped: Set<string>): JsonObject {
  const fields = FIELDS[type] ?? {};
  const names = Object.keys(object);
  for (const name of names) if (!Object.hasOwn(fields, name)) dropped.add(name);
  const known = names.filter((name) => Object.hasOwn(fields, name));
  return Object.fromEntries(known.map((name) => [name, valueBy(fields[name] ?? "", object[name], dropped)]));
}

/** A value of a type as in `FIELDS`, without unknown fields at any depth. */
function valueBy(type: string, value: Json | undefined, dropped: Set<string>): Json | undefined {
  if (type === "") return value;
  if (Array.isArray(value)) return value.map((each) => valueBy(type, each, dropped) ?? null);
  if (!isJsonObject(value)) return value;
  if (!type.startsWith("*")) return objectBy(type, value, dropped);
  const members = Object.entries(value);
  return Object.fromEntries(members.map(([name, each]) => [name, valueBy(type.slice(1), each, dropped)]));
}
