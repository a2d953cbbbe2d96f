/** Runs the `enabled` script of a module (docs/reference/modules.md, "On and off"). */

import { dirname } from "node:path";

import { type Logger, oneLine } from "../base/index.ts";
import type { RunResult, ScratchDir, ScratchData } from "../base/process/index.ts";
import { span } from "../base/trace/index.ts";
import { homeVariables } from "./actor.ts";
import { OutputLog } from "./output/output-log.ts";
import { buildStartOptions, withScratchDirectory, type RunSettings } from "./run-hook.ts";

/** One call of a module's `enabled` script. Values are JSON texts. */
export interface EnabledScriptRun {
  readonly module: string;
  /** Absolute path of the script, which lies in the module's directory. */
  readonly path: string;
  readonly values: ScratchData;
  readonly configValues: ScratchData;
  readonly settings: RunSettings;
  readonly logger: Logger;
  readonly signal?: AbortSignal | undefined;
  /** Hides secrets of the values in everything that the script says. */
  readonly hide?: ((text: string) => string) | undefined;
}

export type EnabledAnswer =
  | { readonly enabled: boolean; readonly reason: string | undefined }
  | { readonly failure: string; readonly timedOut?: boolean };

const RESULT_FILE = "enabled-result";
const REASON_FILE = "enabled-reason";
const MAX_ANSWER_BYTES = 64 * 1024;
const MAX_REASON_LENGTH = 500;
/** The time limit without `--hook-timeout`: a script that hangs would delay all modules. */
const DEFAULT_TIMEOUT_MS = 120_000;

/** Runs a module's `enabled` script. Its answer is the content of MODULE_ENABLED_RESULT or, if that is empty, its last line on stdout. Never throws. */
export function runEnabledScript(request: EnabledScriptRun): Promise<EnabledAnswer> {
  const { module, settings } = request;
  return span({ kind: "hook", name: `enabled ${module}`, attributes: { module } }, async (openSpan) => {
    const answer = await withScratchDirectory(settings, `enabled-${module}`, (scratch) =>
      runScript(scratch, request),
    );
    if ("failure" in answer) openSpan.fail(answer.failure);
    return answer;
  });
}

/**
 * Runs the script in its scratch directory and reads its answer and its reason. Its output goes to the log, where `hide` masks
 * secret values. The script of a module with an account gets no access to the API server.
 */
async function runScript(scratch: ScratchDir, request: EnabledScriptRun): Promise<EnabledAnswer> {
  const { settings, logger, module, path, hide = (text) => text } = request;
  const { actor } = settings;
  const variables = await writeScriptFiles(scratch, request);
  const log = new OutputLog(logger.child({ module, script: "enabled" }), {
    proxyJson: settings.logProxyHookJson,
    hide,
  });
  const modulesDir = dirname(dirname(path));
  const { cwd, env } = buildStartOptions(path, modulesDir, settings);
  let lastLine = "";
  const result = await settings.children.run({
    file: path,
    args: [],
    cwd,
    env: {
      ...env,
      ...variables,
      ...actor?.variablesWithoutAccess,
      ...(actor && homeVariables(actor, scratch)),
    },
    uid: actor?.uid,
    timeoutMs: settings.hookTimeoutMs ?? DEFAULT_TIMEOUT_MS,
    signal: request.signal,
    redact: hide,
    onLine: (stream, line) => {
      if (stream === "stdout") lastLine = line;
      log.writeLine(stream, line);
    },
  });
  log.flush();
  if (result.outcome !== "succeeded")
    return {
      failure: describeFailure(result),
      ...(result.outcome === "timedOut" && { timedOut: true }),
    };
  const read = async (file: string, variable: string): Promise<string> => {
    const text = await scratch.read(file, MAX_ANSWER_BYTES).catch((error: unknown) => {
      throw new Error(`the file at ${variable} is refused: ${oneLine(error)}`);
    });
    return text.trim();
  };
  const writtenText = await read(RESULT_FILE, "MODULE_ENABLED_RESULT");
  const reason = await read(REASON_FILE, "MODULE_ENABLED_REASON");
  const text = writtenText || lastLine.trim();
  return parseAnswer({ text, reason: oneLine(hide(reason), MAX_REASON_LENGTH) }, hide);
}

/** The failure in one line; that of a script that took too long names the setting. */
function describeFailure({ outcome, message }: RunResult): string {
  return outcome === "timedOut"
    ? `${message}; make it answer faster, or set --hook-timeout to a longer time`
    : message;
}

/** Writes the files of the script; returns the environment variables that name them. */
async function writeScriptFiles(scratch: ScratchDir, { values, configValues }: EnabledScriptRun) {
  const [CONFIG_VALUES_PATH, VALUES_PATH, MODULE_ENABLED_RESULT, MODULE_ENABLED_REASON] = await Promise.all([
    scratch.write("config-values.json", configValues),
    scratch.write("values.json", values),
    scratch.write(RESULT_FILE, ""),
    scratch.write(REASON_FILE, ""),
  ]);
  return { CONFIG_VALUES_PATH, VALUES_PATH, MODULE_ENABLED_RESULT, MODULE_ENABLED_REASON };
}

/** Interprets the text that the script wrote: `true`, `false`, or a failure that quotes it. */
function parseAnswer(
  { text, reason }: { readonly text: string; readonly reason: string },
  hide: (text: string) => string,
): EnabledAnswer {
  if (text === "true" || text === "false") {
    return { enabled: text === "true", reason: reason === "" ? undefined : reason };
  }
  const answer = text === "" ? "nothing" : JSON.stringify(oneLine(hide(text), 100));
  return { failure: `it answered ${answer}; write true or false to the file at MODULE_ENABLED_RESULT` };
}
