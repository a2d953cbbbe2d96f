/** Removes the webhooks that this operator registered while it served some. */

import { MANAGED_BY_OPERATOR, MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS } from "../../kube/index.ts";
import {
  ignoreNotFound,
  formatLabelSelector,
  listMetadata,
  remove,
  type KubeAccess,
} from "../../kube/index.ts";
import { oneLine } from "../../lib/index.ts";

/**
 * Deletes the webhook configurations with one of these names that have the operator's label: nobody answers them any more.
 * A failure is logged; the operator may lack the permissions, and the next start tries again.
 */
export async function removeLeftoverWebhooks(
  { client, logger }: Pick<KubeAccess, "client" | "logger">,
  names: readonly string[],
): Promise<void> {
  const labelSelector = formatLabelSelector({ matchLabels: MANAGED_BY_OPERATOR });
  try {
    for (const resource of [VALIDATING_WEBHOOKS, MUTATING_WEBHOOKS]) {
      const { items } = await listMetadata(client, { resource }, { labelSelector });
      for (const { metadata } of items.filter((each) => names.includes(each.metadata.name))) {
        const { name, uid = "" } = metadata;
        await remove(client, { resource, name }, { preconditions: { uid } }).catch(ignoreNotFound);
        logger.info("Webhooks of an earlier start are removed", { kind: resource.kind, name });
      }
    }
  } catch (error) {
    logger.debug("Webhooks of an earlier start could not be looked for", { error: oneLine(error) });
  }
}
