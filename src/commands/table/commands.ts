/** The one table of all commands, in the order of the help. */

import { UsageError } from "../../config.ts";
import { createLogger, logSink } from "../../lib/index.ts";
import { stopOnSignals } from "../../stop-signals.ts";
import { VERSION } from "../../version.ts";
import { ASKING, OUTPUT, WATCH } from "./asking.ts";
import { OFFLINE } from "./offline.ts";
import { WAIT_ENDS, WAIT_FLAGS, type Flag, type Row } from "./row.ts";

/** Without a command the operator starts; on a terminal that takes a flag at least. */
export const DEFAULT_COMMAND = "start";

/** Groups, with what each is about, and the word that counts where none is given. */
export const GROUPS: Readonly<Record<string, { readonly help: string; readonly usual?: string }>> = {
  queue: { help: "the queues of the running operator", usual: "list" },
  global: { help: "what is known globally" },
  module: { help: "the modules of the running operator" },
  config: { help: "runtime parameters", usual: "list" },
  hook: { help: "hooks, without a cluster" },
  addon: {
    help: "what the AddonModules of a cluster tell; kubectl addon, where kubectl-addon is on the PATH",
  },
  new: { help: "write a module, or a hook and its test" },
};

/** Commands of a group that may stand without it. */
export const SHORT: ReadonlyMap<string, string> = new Map(
  ["why", "diff", "graph", "render"].map((word) => [word, "module"]),
);

const RUNNING: readonly Row[] = [
  {
    words: "start",
    help: "run the operator (the default, but not on a terminal)",
    example: "start --namespace addon-operator --modules-dir modules",
    run: async ({ settings }, { env }) => {
      const parsed = settings(env);
      const request = stopOnSignals();
      // Loaded only now, so that the log shows early where a slow start spends its time.
      createLogger(logSink(parsed.settings)).info("Starting", { version: VERSION });
      const { operate } = await import("../../run-operator.ts");
      return operate(parsed, env, request);
    },
  },
  {
    words: "version",
    help: "print the version",
    example: "version",
    run: (_, { print }) => {
      print(`addon-operator ${VERSION}\n`);
      return 0;
    },
  },
];

const STATUS: Row = {
  words: "status",
  help: "what is wrong and why, on one screen",
  more: "Ends with 0 where all enabled modules are Ready, and with 1 where one is not.",
  example: "status",
  flags: [WATCH, OUTPUT],
  run: async (line, world) => (await import("../asking/overview.ts")).showStatus(line, world),
};

const WAITING: Row = {
  words: "wait",
  args: "NAME",
  help: "print what a module does until it is Ready, or its objects are healthy",
  more: WAIT_ENDS,
  example: "wait ingress-nginx --for=healthy --timeout=10m",
  flags: WAIT_FLAGS,
  run: async (line, world) => (await import("../asking/wait.ts")).wait(line, world),
};

const BUNDLING: Row = {
  words: "bundle",
  args: "[FILE]",
  help: "write states, queues, values without secrets, the last runs with their lines and series into an archive",
  more: "FILE is addon-operator-bundle-TIME.tgz here, unless it is given; - is standard output.",
  example: "bundle report.tgz",
  run: async (line, world) => (await import("../asking/bundle.ts")).bundle(line, world),
};

const LOGS: Row = {
  words: "logs",
  args: "[NAME]",
  help: "what the last runs of a module have logged, or of everything",
  more: "The operator keeps the last runs in memory, within bounds: after a restart there are none. Times are UTC.",
  example: "logs ingress-nginx --follow",
  flags: [
    { flags: "-f, --follow", help: "and what comes, until it is interrupted" },
    { flags: "-o, --output <FORMAT>", help: "text, or json: each run as a line", values: ["text", "json"] },
  ],
  run: async (line, world) => (await import("../asking/logs.ts")).showLogs(line, world),
};

const COMPLETION: readonly Row[] = [
  {
    words: "completion",
    args: "SHELL",
    help: "print what bash, zsh or fish has to read to complete commands, flags and names of modules",
    more: "For bash: source <(addon-operator completion bash). For zsh the same behind compinit. For fish: addon-operator completion fish | source.",
    example: "completion bash",
    run: async ({ args: [shell = ""] }, { print }) => {
      const { scriptFor } = await import("../asking/completion.ts");
      const script = scriptFor(shell);
      if (script === undefined) throw new UsageError([`"${shell}" is not accepted; use bash, zsh or fish`]);
      print(script);
      return 0;
    },
  },
  {
    words: "__complete",
    args: "WORD...",
    help: "what may stand in the place of the last word",
    example: "__complete mod",
    isHidden: true,
    run: async (line, world) => (await import("../asking/completion.ts")).complete(line, world),
  },
];

const SHOWING: Row = {
  words: "ui",
  help: "show the running operator on a page in the browser",
  more: "Serves it on loopback, for whoever is on this machine, until it is interrupted; opens it from a terminal.",
  example: "ui --port=9116",
  flags: [{ flags: "--port <PORT>", help: "port of loopback; default any that is free" }],
  run: async (line, world) => (await import("../asking/ui.ts")).ui(line, world),
};

const NAMESPACE: Flag = {
  flags: "-n <NAMESPACE>",
  help: "of the operator; where there is only one it is found",
};

function addon(
  what: "status" | "list" | "why" | "wait",
  row: Pick<Row, "help" | "args" | "more" | "flags">,
): Row {
  return {
    ...row,
    words: `addon ${what}`,
    example: `addon ${what}${row.args === undefined ? "" : " ingress-nginx"} -n addon-operator`,
    flags: [...(row.flags ?? []), NAMESPACE],
    run: async (line, world) => (await import("../cluster/addon.ts")).runAddon(what, line, world),
  };
}

/** Commands of `kubectl addon`. */
const ADDON: readonly Row[] = [
  addon("status", {
    help: "what is wrong in a cluster and why, as its AddonModules tell it",
    more: "Ends with 0 where all enabled modules are Ready, and with 1 where one is not.",
    flags: [WATCH, OUTPUT],
  }),
  addon("list", {
    help: "modules of a cluster with state, health, drift, version, last run and message",
    flags: [WATCH, OUTPUT],
  }),
  addon("why", { args: "NAME", help: "all that an AddonModule says of why its module is as it is" }),
  addon("wait", {
    args: "NAME",
    help: "print what a module of a cluster does until it is Ready, or its objects are healthy",
    more: WAIT_ENDS,
    flags: WAIT_FLAGS,
  }),
];

export const COMMANDS: readonly Row[] = [
  ...RUNNING,
  STATUS,
  ...ASKING,
  LOGS,
  WAITING,
  BUNDLING,
  SHOWING,
  ...OFFLINE,
  ...ADDON,
  ...COMPLETION,
];
