import { chownSync } from "node:fs";
import { onTestFinished, vi } from "vitest";

const OTHER = 4242;

/** Has a file or directory belong to another user; where only root may do that, this process says that it is another one. */
export function giveAway(path: string): void {
  if (process.getuid?.() === 0) return chownSync(path, OTHER, OTHER);
  const spy = vi.spyOn(process, "getuid").mockReturnValue(OTHER);
  onTestFinished(() => spy.mockRestore());
}
