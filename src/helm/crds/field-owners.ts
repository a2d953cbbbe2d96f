/**
 * Moves fields of an installed CRD to the operator's field manager in `managedFields`, so that the next apply removes those that the
 * definition no longer has. Helm 4 owns the fields of the CRDs that it has applied, and cert-manager that of a `caBundle`.
 */

import { HELM, moveFields, splitFields, type FieldSplit } from "../../kube/drift/index.ts";
import { FIELD_MANAGER } from "../../kube/index.ts";
import { objectOf, type JsonObject } from "../../base/model/index.ts";
import { readOwner, writeManagedFields } from "../objects/live-objects.ts";
import { crdName, crdTarget, type CrdTools } from "./crd.ts";

type Tools = Pick<CrdTools, "client" | "signal">;

const OWN_ENTRY = { manager: FIELD_MANAGER, apiVersion: "apiextensions.k8s.io/v1" };

/**
 * Takes over the fields that helm owns in an installed CRD, unless a helm release contains the CRD. Leaves out the conversion, which
 * stays if the definition has none. Returns whether there were any. Throws ApiError, ConnectionError.
 */
export function takeOverFromHelm(installed: JsonObject, tools: Tools): Promise<boolean> {
  const annotations = objectOf(objectOf(installed["metadata"])["annotations"]) as Record<string, string>;
  if (readOwner(annotations, "") !== undefined) return Promise.resolve(false);
  return takeOver(installed, tools, ({ manager, fieldsV1 }) => {
    const fields = objectOf(fieldsV1);
    const { moved, kept } = splitConversion(fields);
    return manager === HELM ? { moved: kept, kept: moved } : { moved: {}, kept: fields };
  });
}

/** Takes over the conversion of an installed CRD from all other managers. Throws ApiError, ConnectionError. */
export function takeOverConversion(installed: JsonObject, tools: Tools): Promise<boolean> {
  return takeOver(installed, tools, ({ fieldsV1 }) => splitConversion(objectOf(fieldsV1)));
}

/** Moves the fields that `split` selects in each entry of another manager to the operator's entry. Returns whether there were any. */
async function takeOver(
  installed: JsonObject,
  { client, signal }: Tools,
  split: (entry: JsonObject) => FieldSplit,
): Promise<boolean> {
  const managedFields = moveFields(installed, OWN_ENTRY, split);
  if (managedFields === undefined) return false;
  await writeManagedFields(
    client,
    crdTarget(crdName(installed)),
    { live: installed, managedFields },
    { signal },
  );
  return true;
}

/** Splits the tree of a CRD into the part at `spec.conversion` (`moved`) and all others. */
function splitConversion(fields: JsonObject): FieldSplit {
  return splitFields(fields, ["f:spec", "f:conversion"]);
}
