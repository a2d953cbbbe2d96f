/** Asks the API server what the operator may do. */

import type { KubeClient } from "../client/client.ts";
import type { AccessReview } from "../objects.ts";
import { inParallel } from "../parallel.ts";

/** One thing to be allowed. No `namespace` = in all namespaces (or cluster-wide); no `name` = any. */
export interface Right {
  readonly verb: string;
  readonly group: string;
  readonly resource: string;
  readonly subresource?: string;
  readonly namespace?: string;
  readonly name?: string;
}

const PARALLEL = 8;

/**
 * Those of `wanted` that the server would refuse, in order (SelfSubjectAccessReview). Errors: ApiError,
 * ConnectionError.
 */
export async function missingRights(client: KubeClient, wanted: readonly Right[]): Promise<Right[]> {
  const allowed = await inParallel(PARALLEL, wanted, (right) => isAllowed(client, right));
  return wanted.filter((_, index) => !allowed[index]);
}

/** A right in words: `create configmaps in namespace ops`. */
export function describeRight(right: Right): string {
  const resource = right.group === "" ? right.resource : `${right.resource}.${right.group}`;
  const what = right.subresource === undefined ? resource : `${resource}/${right.subresource}`;
  const named = right.name === undefined ? what : `${what} "${right.name}"`;
  return `${right.verb} ${named}${right.namespace === undefined ? "" : ` in namespace ${right.namespace}`}`;
}

async function isAllowed(client: KubeClient, right: Right): Promise<boolean> {
  const review = await client.json<AccessReview>({
    method: "POST",
    path: "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
    body: {
      apiVersion: "authorization.k8s.io/v1",
      kind: "SelfSubjectAccessReview",
      spec: { resourceAttributes: right },
    },
  });
  return review.status?.allowed === true;
}
