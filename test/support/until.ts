/** What takes more turns than these waits for a process, a disk, or a network, which need the processor. */
const TURNS = 50;

/** Waits, turn by turn of the event loop, until `condition` holds; the test's own time limit is the only limit. */
export async function until(condition: () => boolean): Promise<void> {
  for (let turn = 0; !condition(); turn += 1)
    await new Promise<void>((resolve) => {
      if (turn < TURNS) setImmediate(resolve);
      else setTimeout(resolve, 1);
    });
}
