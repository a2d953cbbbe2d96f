/** Waits, turn by turn of the event loop, until `condition` holds; the test's own time limit is the only limit. */
export async function until(condition: () => boolean): Promise<void> {
  while (!condition()) {
    await new Promise((resolve) => {
      setImmediate(resolve);
    });
  }
}
