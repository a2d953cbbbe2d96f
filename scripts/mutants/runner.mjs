// A test runner for Stryker that loads the tests once and then runs, for each mutant, those that touch it. Stryker's
// own runner for vitest loads every file again for each mutant, which takes a hundred times as long.
import { existsSync, globSync, readFileSync, writeFileSync } from "node:fs";
import { registerHooks } from "node:module";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";

const COLLECT = new URL("collect.mjs", import.meta.url).href;
/** How long tests took, so that the quick ones have the first word. */
const TIMES = "times.json";
/** What a test may take beyond what it takes without a mutant, in ms: of processor time, and of waiting for nothing. */
const SLACK_MS = 2000;

registerHooks({
  resolve: (name, context, next) =>
    name === "vitest" && context.parentURL !== COLLECT
      ? { url: COLLECT, shortCircuit: true }
      : next(name, context),
});
const { beginFile, runTest, tests } = await import(COLLECT);

class InProcessRunner {
  static inject = ["options"];
  #select;
  #ns = (globalThis.__stryker__ ??= {});
  #loaded = new Set();
  /** Nothing ran here yet with a mutant. */
  #fresh = true;
  /** A mutant left something behind. */
  #dirty = false;
  #times = {};

  constructor(options) {
    this.#select = options.inProcess;
  }

  capabilities() {
    return { reloadEnvironment: false };
  }

  async dryRun() {
    await this.#load(this.#files());
    const results = [];
    for (const test of tests) {
      this.#ns.currentTestId = test.id;
      const { failure, cpuMs, idleMs, wallMs } = await attempt(test, { cpuMs: Infinity, idleMs: Infinity });
      this.#ns.currentTestId = undefined;
      this.#times[test.id] = { cpuMs, idleMs };
      const reported = { id: test.id, name: test.id, fileName: resolve(test.file), timeSpentMs: wallMs };
      results.push({ ...reported, status: failure === undefined ? 0 : 1, failureMessage: failure });
    }
    writeFileSync(TIMES, JSON.stringify(this.#times));
    return { status: "complete", tests: results, mutantCoverage: this.#ns.mutantCoverage };
  }

  async mutantRun({ activeMutant, mutantActivation, testFilter, hitLimit }) {
    if (this.#dirty) throw new Error("a mutant left something behind");
    const isStatic = mutantActivation === "static";
    if (isStatic) this.#ns.activeMutant = activeMutant.id;
    await this.#load(testFilter?.map((id) => id.slice(0, id.indexOf(" "))) ?? this.#files());
    const wasFresh = this.#fresh;
    this.#fresh = false;
    Object.assign(this.#ns, { activeMutant: activeMutant.id, hitCount: 0, hitLimit: hitLimit ?? Infinity });
    const result = await this.#judge(testFilter);
    if (result.status === "survived" && this.#ns.hitCount === 0 && !wasFresh)
      throw new Error("an answer from before the mutant was remembered");
    this.#ns.activeMutant = undefined;
    const by = result.killedBy?.[0] ?? result.reason;
    if (by !== undefined && !isStatic && !this.#dirty && (await this.#isSpoilt(by))) {
      if (!wasFresh) throw new Error("fails without the mutant too");
      this.#dirty = true;
    }
    return result;
  }

  async dispose() {}

  #files() {
    const { include, exclude } = this.#select;
    return globSync(include, { exclude }).sort();
  }

  async #load(files) {
    if (this.#loaded.size === 0 && existsSync(TIMES)) this.#times = JSON.parse(readFileSync(TIMES, "utf8"));
    for (const file of new Set(files).difference(this.#loaded)) {
      this.#loaded.add(file);
      beginFile(file);
      await import(pathToFileURL(join(process.cwd(), file)).href);
    }
  }

  async #judge(filter) {
    const wanted = filter === undefined ? undefined : new Set(filter);
    const cost = ({ id }) => this.#times[id]?.cpuMs ?? 0;
    const chosen = tests.filter(({ id }) => wanted?.has(id) ?? true).sort((a, b) => cost(a) - cost(b));
    let nrOfTests = 0;
    for (const test of chosen) {
      nrOfTests += 1;
      const { failure, over } = await attempt(test, this.#limits(test));
      this.#dirty ||= over === "busy";
      if (over !== undefined || this.#ns.hitCount > this.#ns.hitLimit)
        return { status: "timeout", reason: test.id };
      if (failure !== undefined)
        return { status: "killed", killedBy: [test.id], failureMessage: failure, nrOfTests };
    }
    return { status: "survived", nrOfTests };
  }

  async #isSpoilt(id) {
    const test = tests.find((each) => each.id === id);
    const { failure, over } = await attempt(test, this.#limits(test));
    return failure !== undefined || over !== undefined;
  }

  #limits({ id }) {
    const { cpuMs = 0, idleMs = 0 } = this.#times[id] ?? {};
    return { cpuMs: SLACK_MS + 5 * cpuMs, idleMs: SLACK_MS + 5 * idleMs };
  }
}

/** Runs a test until it ends or has used up its limits; limits are no clock time, for the machine may be busy. */
async function attempt(test, limits) {
  const startedAt = performance.now();
  const used = meter();
  let poll;
  const over = new Promise((resolve) => {
    poll = setInterval(() => {
      const { cpuMs, idleMs } = used();
      if (cpuMs > limits.cpuMs) resolve({ over: "busy" });
      if (idleMs > limits.idleMs) resolve({ over: "idle" });
    }, 100);
  });
  const ended = runTest(test).then(
    () => ({ failure: undefined }),
    (error) => ({ failure: String(error?.message ?? error) }),
  );
  const result = await Promise.race([ended, over, uncaught()]);
  clearInterval(poll);
  return { ...result, ...used(), wallMs: performance.now() - startedAt };
}

let onUncaught = () => {};
for (const event of ["uncaughtException", "unhandledRejection"])
  process.on(event, (error) => onUncaught({ failure: String(error?.message ?? error) }));

/** What nobody catches while a test runs is a failure of the test. */
function uncaught() {
  return new Promise((resolve) => {
    onUncaught = resolve;
  });
}

function meter() {
  const cpu = process.cpuUsage();
  const loop = performance.eventLoopUtilization();
  return () => {
    const { user, system } = process.cpuUsage(cpu);
    return { cpuMs: (user + system) / 1000, idleMs: performance.eventLoopUtilization(loop).idle };
  };
}

export const strykerPlugins = [{ kind: "TestRunner", name: "in-process", injectableClass: InProcessRunner }];
