/** Repeats work that somebody else's write has overtaken. */

import { isConflict } from "./api-errors.ts";

/** Does `work` anew while its write is overtaken, `most` times in all; every other error, and the last, is thrown. */
export async function retryConflicts<T>(
  most: number,
  work: () => Promise<T>,
  isOvertaken: (error: unknown) => boolean = isConflict,
): Promise<T> {
  for (let tries = 1; ; tries++) {
    try {
      return await work();
    } catch (error) {
      if (!isOvertaken(error) || tries >= most) throw error;
    }
  }
}
