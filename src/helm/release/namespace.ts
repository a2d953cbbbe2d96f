/** Creates the namespaces of modules. */

import { create, getMetadata, ignoreNotFound, isAlreadyExists, isForbidden } from "../../kube/index.ts";
import { MANAGED_BY_OPERATOR, NAMESPACES, type WatchedObject } from "../../kube/index.ts";
import { oneLine } from "../../lib/index.ts";
import type { Reconciler } from "../types.ts";

/** A module cannot have its namespace now. */
class NamespaceError extends Error {}

/**
 * Creates a namespace if it is missing. Never changes an existing one. Throws NamespaceError if it is being deleted or may not
 * be created; ApiError, ConnectionError.
 */
export async function ensureNamespace(
  { operator }: Pick<Reconciler, "operator">,
  namespace: string,
  signal: AbortSignal,
): Promise<void> {
  const { client, namespaceLabels } = operator;
  const target = { resource: NAMESPACES, name: namespace };
  const found = await getMetadata<WatchedObject>(client, target, { signal }).catch(ignoreNotFound);
  if (found?.metadata["deletionTimestamp"] !== undefined)
    throw new NamespaceError(
      `namespace ${namespace} is being deleted; the module runs once it is deleted, or with another namespace`,
    );
  if (found !== undefined) return;
  const metadata = { name: namespace, labels: { ...MANAGED_BY_OPERATOR, ...namespaceLabels } };
  const body = { apiVersion: "v1", kind: "Namespace", metadata };
  try {
    await create(client, { resource: NAMESPACES }, { body, signal });
  } catch (error) {
    if (isAlreadyExists(error)) return;
    if (!isForbidden(error)) throw error;
    throw new NamespaceError(
      `namespace ${namespace} does not exist and cannot be created: ${oneLine(error)}`,
    );
  }
}
