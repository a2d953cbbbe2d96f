/** Answers to requests for admission. */

/** Whether an edit is stored, why not, and warnings for the user. */
export interface Answer {
  readonly allowed: boolean;
  readonly message?: string;
  readonly warnings: readonly string[];
}

/** Kubernetes shortens warnings above 4,096 bytes together. */
export const MAX_WARNINGS = 20;

export function allow(warnings: readonly string[] = []): Answer {
  const more = warnings.length - MAX_WARNINGS;
  const note = more > 0 ? [`${more} more warnings are left out`] : [];
  return { allowed: true, warnings: [...warnings.slice(0, MAX_WARNINGS), ...note] };
}

export function refuse(message: string): Answer {
  return { allowed: false, message, warnings: [] };
}
