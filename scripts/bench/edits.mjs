// How long it takes until what was edited shows in the API.
import { setTimeout as sleep } from "node:timers/promises";
import { nameOf } from "./modules.mjs";

export const EDITS = 10;
/**
 * After this time, an operator has written all that a run changes in statuses and Events: the status of the AddonOperator twice, a
 * second apart. A write between two lists of helm makes the second one wait, at the API server, for up to 100 ms.
 */
const REST_MS = 2200;

/**
 * Milliseconds from each of `count` calls of `edit(text)` until the ConfigMap of module 10 in `namespace` has that text; with
 * `goesOn`, of those only that were done while it returned true. Each edit meets an operator at rest, as an edit of a person does;
 * with `restMs` 0, one that may still write what the last edit has changed.
 */
export async function timesOfEdits(
  bench,
  { operator, namespace, count = EDITS, goesOn = () => true, restMs = REST_MS },
  edit,
) {
  const path = `/api/v1/namespaces/${namespace}/configmaps`;
  let arrived = () => {};
  const end = await bench.api.watch(`${path}?fieldSelector=metadata.name%3D${nameOf(10)}`, ({ object }) =>
    arrived(object.data?.text),
  );
  const times = [];
  for (let index = 0; index < count && goesOn(); index += 1) {
    await bench.quiet(operator);
    await sleep(restMs);
    const text = `edit ${index}`;
    const changed = new Promise(
      (resolve) => (arrived = (seen) => seen === text && resolve(performance.now())),
    );
    const from = performance.now();
    await edit(text);
    const took = (await changed) - from;
    if (goesOn()) times.push(took);
  }
  await bench.quiet(operator);
  end();
  return times;
}
