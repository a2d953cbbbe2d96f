/** A child that is still alive. */
export interface Living {
  end(graceMs: number): void;
  readonly ended: Promise<unknown>;
}

const living = new Set<Living>();

/** Remembers a child until it has ended. */
export function remember(child: Living): void {
  living.add(child);
  void child.ended.then(() => living.delete(child));
}

/**
 * Ends every child that is still alive, with its process group: SIGTERM, and SIGKILL after `graceMs`.
 * Resolves when all are gone.
 */
export async function endChildren(graceMs: number): Promise<void> {
  const all = [...living];
  for (const child of all) child.end(graceMs);
  await Promise.all(all.map((child) => child.ended));
}
