// How long it takes until what was edited shows in the API.
import { nameOf } from "./modules.mjs";

export const EDITS = 10;

/**
 * Milliseconds from each of `count` calls of `edit(text)` until the ConfigMap of module 10 in `namespace` has that text; with
 * `goesOn`, of those only that were done while it returned true.
 */
export async function timesOfEdits(bench, { operator, namespace, count = EDITS, goesOn = () => true }, edit) {
  const path = `/api/v1/namespaces/${namespace}/configmaps`;
  let arrived = () => {};
  const end = await bench.api.watch(`${path}?fieldSelector=metadata.name%3D${nameOf(10)}`, ({ object }) =>
    arrived(object.data?.text),
  );
  const times = [];
  for (let index = 0; index < count && goesOn(); index += 1) {
    const text = `edit ${index}`;
    const changed = new Promise(
      (resolve) => (arrived = (seen) => seen === text && resolve(performance.now())),
    );
    const from = performance.now();
    await edit(text);
    const took = (await changed) - from;
    if (goesOn()) times.push(took);
    // The next edit meets an operator at rest, as an edit of a person does.
    await bench.quiet(operator);
  }
  end();
  return times;
}
