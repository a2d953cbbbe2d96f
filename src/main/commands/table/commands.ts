/** The one table of all commands, in the order of the help. */

import { UsageError } from "../../../config/settings/index.ts";
import { createLogger, createStdoutSink } from "../../../base/index.ts";
import { handleStopSignals } from "../../stop-signals.ts";
import { VERSION } from "../../../config/settings/index.ts";
import { OPERATOR_COMMANDS, OUTPUT_FLAG, WATCH_FLAG } from "./operator.ts";
import { OFFLINE_COMMANDS } from "./offline.ts";
import { selectsJson, TEXT_OR_JSON_FLAG, type Flag, type CommandRow } from "./row.ts";

/** The command of a line that names none. A terminal shows the help for a line without any words. */
export const DEFAULT_COMMAND = "start";

/** Groups of commands. `usual` is the command of a line that names only the group. */
export const GROUPS: Readonly<Record<string, { readonly help: string; readonly usual?: string }>> = {
  queue: { help: "the queues of the running operator", usual: "list" },
  global: { help: "global hooks and values" },
  module: { help: "the modules of the running operator" },
  config: { help: "runtime parameters", usual: "list" },
  hook: { help: "hooks, without a cluster" },
  addon: {
    help: "state of a cluster from its AddonModules; also kubectl addon, if kubectl-addon is on the PATH",
  },
  source: { help: "modules from registries: signed artifacts and ModuleSources" },
  new: { help: "create a module, or a hook and its test" },
};

/** Commands that work without the name of their group. */
export const SHORTCUTS: ReadonlyMap<string, string> = new Map(
  ["why", "diff", "graph", "render"].map((word) => [word, "module"]),
);

const WAIT_ENDS =
  "The exit code is 1 after the timeout or when the module has been Invalid or RolledBack for five seconds.";
const WAIT_FLAGS: readonly Flag[] = [
  { ...TEXT_OR_JSON_FLAG, help: "text, or json with one line for each change" },
  { flags: "--for <CONDITION>", help: "ready or healthy (default: ready)", values: ["ready", "healthy"] },
  { flags: "--timeout <DURATION>", help: "maximum time to wait (default: 5m)" },
];
const NAMESPACE_FLAG: Flag = {
  flags: "-n <NAMESPACE>",
  help: "namespace of the operator (default: the namespace of the only operator in the cluster)",
};

/** The row of a command of `kubectl addon`: it reads the cluster with the caller's permissions and needs no access to the operator. */
function addonRow(
  name: "status" | "list" | "why" | "wait",
  row: Pick<CommandRow, "help" | "args" | "offers" | "more" | "flags">,
): CommandRow {
  return {
    ...row,
    words: `addon ${name}`,
    example: `addon ${name}${row.args === undefined ? "" : " ingress-nginx"} -n addon-operator`,
    flags: [...(row.flags ?? []), NAMESPACE_FLAG],
    run: async (line, terminal) => (await import("../cluster/addon.ts")).runAddon(name, line, terminal),
  };
}

/** The row of a command about ModuleSources. It uses the caller's own permissions in the cluster. */
function sourceRow(
  name: "list" | "sync" | "approve",
  row: Pick<CommandRow, "help" | "args" | "offers" | "more" | "example" | "flags">,
): CommandRow {
  return {
    ...row,
    words: `source ${name}`,
    flags: [...(row.flags ?? []), NAMESPACE_FLAG],
    run: async (line, terminal) => (await import("../cluster/sources.ts")).runSource(name, line, terminal),
  };
}

export const COMMANDS: readonly CommandRow[] = [
  {
    words: "start",
    help: "run the operator (default, except on a terminal)",
    example: "start --namespace addon-operator --modules-dir modules",
    run: async ({ settings }, { env }) => {
      const parsed = settings(env);
      const request = handleStopSignals();
      // Logs before it loads the rest, so that the log shows where a slow start spends its time.
      createLogger(createStdoutSink(parsed.settings)).info("Starting", { version: VERSION });
      const { runOperator } = await import("../../run-operator.ts");
      return runOperator(parsed, env, request);
    },
  },
  {
    words: "version",
    help: "print the version",
    example: "version",
    flags: [TEXT_OR_JSON_FLAG],
    run: (line, { print }) => {
      print(selectsJson(line) ? `${JSON.stringify({ version: VERSION })}\n` : `addon-operator ${VERSION}\n`);
      return 0;
    },
  },
  {
    words: "status",
    help: "print the problems and their reasons",
    more: "In a pipe with --watch, the output contains a line for each change. The exit code is 0 if the operator is Ready, or else 1.",
    example: "status",
    flags: [WATCH_FLAG, OUTPUT_FLAG],
    run: async (line, terminal) => (await import("../operator/overview.ts")).showStatus(line, terminal),
  },
  ...OPERATOR_COMMANDS,
  {
    words: "logs",
    args: "[NAME]",
    offers: ["module"],
    help: "print the log lines of the last runs of one module or of all modules",
    more: "The operator keeps at most 1,000 runs in memory. Times are UTC.",
    example: "logs ingress-nginx --follow",
    flags: [
      { flags: "-f, --follow", help: "also print new lines until you interrupt the command" },
      { ...TEXT_OR_JSON_FLAG, help: "text, or json with one line for each run" },
    ],
    run: async (line, terminal) => (await import("../operator/logs.ts")).printLogs(line, terminal),
  },
  {
    words: "wait",
    args: "NAME",
    offers: ["module"],
    help: "print the state changes of a module until the module is Ready or healthy",
    more: WAIT_ENDS,
    example: "wait ingress-nginx --for=healthy --timeout=10m",
    flags: WAIT_FLAGS,
    run: async (line, terminal) => (await import("../operator/wait.ts")).waitForModule(line, terminal),
  },
  {
    words: "bundle",
    args: "[FILE]",
    help: "write an archive with states, queues, values without secrets, the last runs with log lines, and metrics",
    more: "The default FILE is addon-operator-bundle-TIME.tgz in the current directory. If FILE is -, the command writes the archive to the standard output.",
    example: "bundle report.tgz",
    run: async (line, terminal) => (await import("../operator/bundle.ts")).saveBundle(line, terminal),
  },
  {
    words: "ui",
    help: "serve the web page of the running operator on this machine",
    more: "The command serves the page on loopback to all users of this machine until you interrupt the command. On a terminal, it also opens a browser.",
    example: "ui --port=9116",
    flags: [{ flags: "--port <PORT>", help: "port on loopback (default: any free port)" }],
    run: async (line, terminal) => (await import("../operator/ui.ts")).serveUi(line, terminal),
  },
  ...OFFLINE_COMMANDS,
  sourceRow("list", {
    help: "print the ModuleSources of a cluster, their modules, and the waiting updates with the reasons",
    more: "The exit code is 0 if all ModuleSources are Ready, or else 1.",
    example: "source list -n addon-operator",
    flags: [TEXT_OR_JSON_FLAG],
  }),
  sourceRow("sync", {
    args: "[NAME]",
    offers: ["source"],
    help: "check one ModuleSource or all ModuleSources, and wait for the result",
    more: "The exit code is 0 if the ModuleSources are Ready, or else 1.",
    example: "source sync platform",
  }),
  sourceRow("approve", {
    args: "MODULE [VERSION]",
    offers: ["update"],
    help: "approve the waiting update of a module",
    more: "With VERSION, the command approves only this version.",
    example: "source approve cert-manager 1.5.0",
  }),
  addonRow("status", {
    help: "print the problems and their reasons from the AddonModules of a cluster",
    more: "In a pipe with --watch, the output contains a line for each change. The exit code is 0 if the operator is Ready, or else 1.",
    flags: [WATCH_FLAG, OUTPUT_FLAG],
  }),
  addonRow("list", {
    help: "print the modules of a cluster with state, health, drift, version, last run, and message",
    flags: [WATCH_FLAG, OUTPUT_FLAG],
  }),
  addonRow("why", {
    args: "NAME",
    offers: ["addonmodule"],
    help: "print the reasons for the state of a module from its AddonModule",
    flags: [TEXT_OR_JSON_FLAG],
  }),
  addonRow("wait", {
    args: "NAME",
    offers: ["addonmodule"],
    help: "print the state changes of a module of a cluster until the module is Ready or healthy",
    more: WAIT_ENDS,
    flags: WAIT_FLAGS,
  }),
  {
    words: "completion",
    args: "SHELL",
    offers: [["bash", "zsh", "fish"]],
    help: "print a script for bash, zsh, or fish that completes commands, flags, values, and names",
    more: "In bash, run `source <(addon-operator completion bash)`. In zsh, run `source <(addon-operator completion zsh)` after compinit. In fish, run `addon-operator completion fish | source`.",
    example: "completion bash",
    run: async ({ args: [shell = ""] }, { print }) => {
      const { completionScript } = await import("../operator/completion.ts");
      const script = completionScript(shell);
      if (script === undefined) throw new UsageError([`"${shell}" is not accepted; use bash, zsh or fish`]);
      print(script);
      return 0;
    },
  },
  {
    words: "__complete",
    args: "[WORD...]",
    help: "candidates for the last word",
    example: "__complete mod",
    isHidden: true,
    run: async (line, terminal) =>
      (await import("../operator/completion.ts")).printCandidates(line, terminal, COMPLETED),
  },
];

/** The commands that help and completion list. */
export const VISIBLE_COMMANDS = COMMANDS.filter(({ isHidden }) => isHidden !== true);

/** What completion knows of commands. */
export const COMPLETED = { commands: VISIBLE_COMMANDS, groups: GROUPS, shortcuts: SHORTCUTS };
