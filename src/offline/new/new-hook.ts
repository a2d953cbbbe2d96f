/** The sub-command `new hook`. */

import { chmodSync, existsSync, mkdirSync, mkdtempSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";

import type { Environment, Settings } from "../../config.ts";
import { parseHookConfig } from "../../hooks/index.ts";
import { toYaml } from "../../lib/index.ts";
import { ProblemError } from "../../model/index.ts";
import type { JsonObject } from "../../model/index.ts";
import { lintDirs } from "../lint.ts";
import type { Printed } from "../surroundings.ts";
import { findModule } from "./find-module.ts";
import { ENDINGS, hookText, testText } from "./hook-texts.ts";
import type { Language } from "./hook-texts.ts";

/** A hook to write. */
export interface NewHook {
  /** The module's name, or its directory's. */
  readonly module: string;
  readonly name: string;
  readonly language: Language;
  /** `KIND`, or `GROUP/VERSION/KIND`. */
  readonly onEvent: string | undefined;
  /** A crontab. */
  readonly schedule: string | undefined;
}

const NAME = /^[a-z0-9][a-z0-9_-]{0,62}$/;

/**
 * Writes a hook with a test for it, checks the module, and tells how to run the test. Both are there at the end, or
 * neither. Throws ProblemError.
 */
export async function writeHook(wanted: NewHook, settings: Settings, env: Environment): Promise<Printed> {
  const { dir, name: module } = findModule(settings, wanted.module);
  const script = `${wanted.name}.${ENDINGS[wanted.language]}`;
  const hook = join(dir, "hooks", script);
  const test = join(dir, "tests", wanted.name);
  check(wanted, [hook, test]);
  const metric = `${module}_${wanted.name}`.replaceAll(/[^a-z0-9]/g, "_");
  const hookParts = {
    config: configOf(wanted),
    what: whatOf(wanted),
    metric,
    byEvent: wanted.onEvent !== undefined,
  };
  const draft = mkdtempSync(join(dir, ".new-"));
  try {
    writeFileSync(join(draft, "hook"), hookText(wanted.language, hookParts));
    chmodSync(join(draft, "hook"), 0o755);
    mkdirSync(join(draft, "test"));
    const files = testText({ ...hookParts, script });
    for (const [file, text] of Object.entries(files)) writeFileSync(join(draft, "test", file), text);
    for (const path of [hook, test]) mkdirSync(dirname(path), { recursive: true });
    renameSync(join(draft, "test"), test);
    renameSync(join(draft, "hook"), hook);
  } finally {
    rmSync(draft, { recursive: true, force: true });
  }
  const found = await lintDirs({ dirs: [dir], values: undefined }, settings, env);
  return { text: `${found.text}${hook}: written. Test it:\n  sh ${test}/test.sh\n`, code: found.code };
}

function check(wanted: NewHook, paths: readonly string[]): void {
  const { name, onEvent, schedule } = wanted;
  const refuse = (file: string, message: string, remedy: string): never => {
    throw new ProblemError([{ file, message, remedy }]);
  };
  const [hook = name] = paths;
  if (!NAME.test(name)) refuse(hook, `"${name}" is no name of a hook`, "small letters, digits and dashes");
  if (onEvent !== undefined && schedule !== undefined)
    refuse(hook, "--on-event and --schedule are two hooks", "give one of them");
  const there = paths.find((path) => existsSync(path));
  if (there !== undefined) refuse(there, "is there already", "choose another name");
  const parsed = parseHookConfig(toYaml(configOf(wanted)), "module");
  if ("errors" in parsed) refuse(hook, parsed.errors.join("; "), "correct --on-event or --schedule");
}

function configOf({ onEvent, schedule, name }: NewHook): JsonObject {
  if (schedule !== undefined) return { configVersion: "v1", schedule: [{ name, crontab: schedule }] };
  if (onEvent === undefined) return { configVersion: "v1", beforeHelm: 10 };
  const at = onEvent.lastIndexOf("/");
  const binding = {
    name: "objects",
    ...(at < 0 ? {} : { apiVersion: onEvent.slice(0, at) }),
    kind: onEvent.slice(at + 1),
    jqFilter: ".metadata.name",
    keepFullObjectsInMemory: false,
    includeSnapshotsFrom: ["objects"],
  };
  return { configVersion: "v1", kubernetes: [binding] };
}

function whatOf({ onEvent, schedule }: NewHook): string {
  if (schedule !== undefined) return `Runs by the clock: ${schedule}`;
  return onEvent === undefined
    ? "Runs before each run of the module's chart"
    : `Runs when a ${onEvent} comes, changes or goes`;
}
