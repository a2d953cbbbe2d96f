/** Answers to requests for admission: whether an edit is stored, why not, and warnings for the user. */

import type { AdmissionResponse } from "../../webhooks/index.ts";

export type ReviewAnswer = Pick<AdmissionResponse, "allowed" | "message"> & {
  readonly warnings: readonly string[];
};

/** Kubernetes shortens warnings above 4,096 bytes together. */
export const MAX_WARNINGS = 20;

/** Lets an edit pass. The user sees the first warnings, and the number of the others. */
export function allow(warnings: readonly string[] = []): ReviewAnswer {
  const more = warnings.length - MAX_WARNINGS;
  const note = more > 0 ? [`${more} more warnings are left out`] : [];
  return { allowed: true, warnings: [...warnings.slice(0, MAX_WARNINGS), ...note] };
}

export function refuse(message: string): ReviewAnswer {
  return { allowed: false, message, warnings: [] };
}
