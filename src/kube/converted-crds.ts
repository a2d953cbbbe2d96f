/** Finds CRDs whose conversion webhook an operator has configured. */

import { objectOf } from "../base/model/index.ts";
import type { KubeClient } from "./client/client.ts";
import { listMetadata } from "./client/verbs.ts";
import { CUSTOM_RESOURCE_DEFINITIONS } from "./resources.ts";
import { formatLabelSelector, type WatchedObject } from "./watch/watch-spec.ts";

/** Annotation of a CRD: the operator that configured its conversion, which recognizes it even after its own address has changed. */
export const CONVERSION_ANNOTATION = "addon-operator.io/conversion";
/** Label of the same CRDs, by which an operator finds them without reading all CRDs. */
export const CONVERSION_LABEL = { [CONVERSION_ANNOTATION]: "true" };

/** Lists the CRDs whose conversion an operator of this name has configured. Throws ApiError, ConnectionError. */
export async function listConvertedCrds(client: KubeClient, operatorName: string): Promise<string[]> {
  const labelSelector = formatLabelSelector({ matchLabels: CONVERSION_LABEL });
  const { items } = await listMetadata(client, { resource: CUSTOM_RESOURCE_DEFINITIONS }, { labelSelector });
  return items.filter((crd) => isConvertedBy(crd, operatorName)).map(({ metadata }) => metadata.name);
}

/** Whether the annotation of a CRD names this operator. */
export function isConvertedBy({ metadata }: WatchedObject, operatorName: string): boolean {
  return objectOf(metadata["annotations"])[CONVERSION_ANNOTATION] === operatorName;
}
