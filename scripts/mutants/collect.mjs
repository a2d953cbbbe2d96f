// Stands in for vitest while mutants are tried: the same words, but tests are only collected, to be run again and again
// in one process (`runner.mjs`).
import { format } from "node:util";

export { expect } from "vitest";

/** Every test that was collected, in the order of the files. */
export const tests = [];
const hooks = { beforeEach: [], afterEach: [] };
let finished = [];
let path = [];
let file = "";

/** Says whose tests come next. */
export function beginFile(name) {
  file = name;
  path = [];
  hooks.beforeEach = [];
  hooks.afterEach = [];
}

/** Runs one test with the hooks around it. */
export async function runTest({ body, before, after }) {
  finished = [];
  try {
    for (const hook of before) await hook();
    await body();
  } finally {
    for (const hook of [...after, ...finished.toReversed()]) await hook();
  }
}

export function describe(name, ...rest) {
  const kept = { before: hooks.beforeEach, after: hooks.afterEach };
  path = [...path, name];
  rest.find((each) => typeof each === "function")();
  path = path.slice(0, -1);
  hooks.beforeEach = kept.before;
  hooks.afterEach = kept.after;
}

export function it(name, ...rest) {
  const body = rest.find((each) => typeof each === "function");
  const id = `${file} ${[...path, name].join(" > ")}`;
  const same = tests.filter((each) => each.title === id).length;
  const { beforeEach: before, afterEach: after } = hooks;
  tests.push({ id: same === 0 ? id : `${id} #${same + 1}`, title: id, file, body, before, after });
}

export function beforeEach(hook) {
  hooks.beforeEach = [...hooks.beforeEach, hook];
}

export function afterEach(hook) {
  hooks.afterEach = [...hooks.afterEach, hook];
}

export function onTestFinished(hook) {
  finished.push(hook);
}

const each =
  (collect) =>
  (cases) =>
  (name, ...rest) => {
    const body = rest.find((each) => typeof each === "function");
    for (const one of cases) {
      const args = Array.isArray(one) ? one : [one];
      const title = name.replaceAll(/\$(\w+)/g, (_, key) => String(one[key]));
      collect(title.includes("%") ? format(title, ...args) : title, () => body(...args));
    }
  };
it.each = each(it);
describe.each = each(describe);
export const test = it;
