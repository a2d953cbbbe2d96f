/**
 * Moves fields of an installed CRD to the operator's field manager in `managedFields`, so that the next apply removes those that the
 * definition no longer has. Helm 4 owns the fields of the CRDs that it has applied, and cert-manager that of a `caBundle`.
 */

import { HELM } from "../../drift/index.ts";
import {
  CUSTOM_RESOURCE_DEFINITIONS,
  FIELD_MANAGER,
  mergePatch,
  type KubeClient,
  type WatchedObject,
} from "../../kube/index.ts";
import { isJsonObject, objectOf, objectsIn, type JsonObject } from "../../model/index.ts";
import { crdName } from "./crd.ts";

interface Tools {
  readonly client: KubeClient;
  readonly signal?: AbortSignal | undefined;
}

/** Trees of `managedFields`: the fields that move to the operator, and those that stay. */
interface Split {
  readonly moved: JsonObject;
  readonly kept: JsonObject;
}

/**
 * Takes over the fields that helm owns in an installed CRD, unless a helm release contains the CRD. Leaves out the conversion, which
 * stays if the definition has none. Returns whether there were any. Throws ApiError, ConnectionError.
 */
export function takeOverFromHelm(installed: JsonObject, tools: Tools): Promise<boolean> {
  const { annotations } = objectOf(installed["metadata"]);
  if ("meta.helm.sh/release-name" in objectOf(annotations)) return Promise.resolve(false);
  return moveFields(installed, tools, ({ manager, fieldsV1 }) => {
    const fields = objectOf(fieldsV1);
    const { moved, kept } = splitConversion(fields);
    return manager === HELM ? { moved: kept, kept: moved } : { moved: {}, kept: fields };
  });
}

/** Takes over the conversion of an installed CRD from all other managers. Throws ApiError, ConnectionError. */
export function takeOverConversion(installed: JsonObject, tools: Tools): Promise<boolean> {
  return moveFields(installed, tools, ({ fieldsV1 }) => splitConversion(objectOf(fieldsV1)));
}

/** Moves the fields that `split` selects in each entry of another manager to the operator's entry. Returns whether there were any. */
async function moveFields(
  installed: JsonObject,
  { client, signal }: Tools,
  split: (entry: JsonObject) => Split,
): Promise<boolean> {
  const { resourceVersion, managedFields } = objectOf(installed["metadata"]);
  const entries = objectsIn(managedFields);
  const isOwn = ({ manager, operation, subresource }: JsonObject): boolean =>
    manager === FIELD_MANAGER && operation === "Apply" && subresource === undefined;
  const apiVersion = "apiextensions.k8s.io/v1";
  const own = entries.find(isOwn) ?? {
    manager: FIELD_MANAGER,
    operation: "Apply",
    apiVersion,
    fieldsType: "FieldsV1",
    fieldsV1: {},
  };
  let owned = objectOf(own["fieldsV1"]);
  const others = entries.filter((entry) => !isOwn(entry));
  const remaining = others.flatMap((entry) => {
    // Trees of other versions have other fields.
    if (entry["subresource"] !== undefined || entry["apiVersion"] !== apiVersion) return [entry];
    const { moved, kept } = split(entry);
    if (Object.keys(moved).length === 0) return [entry];
    owned = mergeTrees(owned, moved);
    return Object.keys(kept).length === 0 ? [] : [{ ...entry, fieldsV1: kept }];
  });
  if (owned === own["fieldsV1"] || Object.keys(owned).length === 0) return false;
  const metadata = { resourceVersion, managedFields: [{ ...own, fieldsV1: owned }, ...remaining] };
  const target = { resource: CUSTOM_RESOURCE_DEFINITIONS, name: crdName(installed) };
  await mergePatch<WatchedObject>(client, target, { body: { metadata }, signal });
  return true;
}

/** Splits the tree of a CRD into the part below `spec.conversion` (`moved`) and all others. */
function splitConversion(fields: JsonObject): Split {
  const { "f:spec": spec, ...rest } = fields;
  const { "f:conversion": conversion, ...otherSpec } = objectOf(spec);
  if (conversion === undefined) return { moved: {}, kept: fields };
  const isSpecEmpty = Object.keys(otherSpec).every((segment) => segment === ".");
  return {
    moved: { "f:spec": { "f:conversion": conversion } },
    kept: isSpecEmpty ? rest : { ...rest, "f:spec": otherSpec },
  };
}

/** The union of two trees. */
function mergeTrees(first: JsonObject, second: JsonObject): JsonObject {
  const union = { ...first };
  for (const [segment, subtree] of Object.entries(second)) {
    const present = union[segment];
    union[segment] = isJsonObject(present) && isJsonObject(subtree) ? mergeTrees(present, subtree) : subtree;
  }
  return union;
}
