/** The rows of commands that need no operator (docs/reference/commands.md, "Without a cluster"). */

import { UsageError } from "../../config.ts";
import type * as Offline from "../../offline/index.ts";
import type { Flag, CommandLine, CommandRow, Terminal } from "./row.ts";

type Printed = Awaited<ReturnType<typeof Offline.lintDirs>>;
type Chart = Parameters<typeof Offline.upgradeChart>[0]["chart"];

/** How a registry is reached. */
export const REGISTRY_FLAGS: readonly Flag[] = [
  { flags: "--ca-file <FILE>", help: "CA certificates for the repository or registry" },
  { flags: "--plain-http", help: "the registry serves no TLS" },
];

const CHART_FLAGS: readonly Flag[] = [
  { flags: "--chart <CHART>", help: "DIR, FILE.tgz, oci://… or REPO/CHART" },
  { flags: "--version <VERSION>", help: "version of the chart; default: the newest" },
  { flags: "--repo <URL>", help: "URL of the chart's repository" },
  ...REGISTRY_FLAGS,
];
const VALUES_FLAG: Flag = {
  flags: "--values <FILE>",
  help: "values: YAML or JSON, with global and the modules' sections",
};

/** A command that needs no operator. Gets the package `offline`, which is loaded only when the command runs. */
export type OfflineCommand = (
  offline: typeof Offline,
  line: CommandLine,
  terminal: Terminal,
) => Promise<Printed>;

/** A row whose command prints its result and exits with the result's code. */
export function offlineRow(row: Omit<CommandRow, "run">, work: OfflineCommand): CommandRow {
  return {
    ...row,
    run: async (line, terminal) => {
      const { text, code } = await work(await import("../../offline/index.ts"), line, terminal);
      terminal.print(text);
      return code;
    },
  };
}

/** The value of a flag; undefined if the flag is missing or has no value. */
export function textOfFlag({ flags }: CommandLine, name: string): string | undefined {
  const value = flags[name];
  return typeof value === "string" ? value : undefined;
}

/** Reads the flags `REGISTRY_FLAGS`. */
export function parseRegistryAccess(line: CommandLine): { caFile: string | undefined; plainHttp: boolean } {
  return { caFile: textOfFlag(line, "caFile"), plainHttp: line.flags["plainHttp"] === true };
}

/** Reads the flags that select a chart. */
function parseChartRequest(line: CommandLine): Chart {
  return {
    ref: textOfFlag(line, "chart"),
    version: textOfFlag(line, "version"),
    repo: textOfFlag(line, "repo"),
    ...parseRegistryAccess(line),
  };
}

/** `hook run`: reads its flags, of which exactly one of `--context` and `--review` is required. */
const runHookCommand: OfflineCommand = (offline, line, { env }) => {
  const [path = ""] = line.args;
  const context = textOfFlag(line, "context");
  const review = textOfFlag(line, "review");
  if ((context === undefined) === (review === undefined))
    throw new UsageError([
      "usage: addon-operator hook run PATH (--context FILE | --review FILE [--binding NAME]) [--item N] [--values FILE] [--config-values FILE]",
    ]);
  const options = {
    path,
    context,
    review,
    binding: textOfFlag(line, "binding"),
    item: textOfFlag(line, "item"),
    values: textOfFlag(line, "values"),
    configValues: textOfFlag(line, "configValues"),
  };
  return offline.runHookOffline(options, line.settings(env).settings, env);
};

/** `new module`: reads its flags. Flags that select a chart need `--chart`. */
const newModuleCommand: OfflineCommand = (offline, line, { env }) => {
  const [name = ""] = line.args;
  const chart = parseChartRequest(line);
  const { ref } = chart;
  // All flags of the command select a chart.
  if (ref === undefined && Object.keys(line.flags).length > 0)
    throw new UsageError([
      "--version, --repo, --ca-file, --plain-http say where --chart comes from: name it",
    ]);
  const wanted = { name, chart: ref === undefined ? undefined : { ...chart, ref } };
  return offline.writeModule(wanted, line.settings(env).settings, env);
};

/** `new hook`: reads its arguments and flags, and writes the hook. Throws UsageError for an unknown language. */
const newHookCommand: OfflineCommand = (offline, line, { env }) => {
  const [module = "", name = ""] = line.args;
  const typed = textOfFlag(line, "language") ?? "bash";
  const language = (["bash", "python"] as const).find((each) => each === typed);
  if (language === undefined) throw new UsageError([`--language: "${typed}" is neither bash nor python`]);
  const wanted = {
    module,
    name,
    language,
    onEvent: textOfFlag(line, "onEvent"),
    schedule: textOfFlag(line, "schedule"),
  };
  return offline.writeHook(wanted, line.settings(env).settings, env);
};

/** `upgrade-chart`: reads its flags. With `--yes`, the changes are printed together with the result, without a question. */
const upgradeChartCommand: OfflineCommand = async (offline, line, { env, confirm }) => {
  const [module = ""] = line.args;
  let changes = "";
  const agreeWithoutQuestion = (text: string): Promise<boolean> => {
    changes = text;
    return Promise.resolve(true);
  };
  const isConfirmed = line.flags["yes"] === true;
  const wanted = { module, chart: parseChartRequest(line), values: textOfFlag(line, "values") };
  const printed = await offline.upgradeChart(wanted, {
    settings: line.settings(env).settings,
    env,
    confirm: isConfirmed ? agreeWithoutQuestion : confirm,
  });
  return { ...printed, text: `${changes}${printed.text}` };
};

/** `lint`: checks directories, or prints RBAC rules with `--rbac`. */
const lintCommand: OfflineCommand = (offline, line, { env }) => {
  const request = {
    dirs: line.args,
    values: textOfFlag(line, "values"),
    kubeVersion: textOfFlag(line, "kubeVersion"),
    roles: line.flags["role"] === true,
  };
  const { settings } = line.settings(env);
  return line.flags["rbac"] === true
    ? offline.printRbac(request, settings, env)
    : offline.lintDirs(request, settings, env);
};

export const OFFLINE_COMMANDS: readonly CommandRow[] = [
  offlineRow(
    {
      words: "hook run",
      args: "PATH",
      help: "run one hook without a cluster and print what it would change",
      example: "hook run modules/010-web/hooks/discover --context context.json --values values.yaml",
      flags: [
        {
          flags: "--context <FILE>",
          help: "the binding context: a JSON array, or one context",
        },
        {
          flags: "--review <FILE>",
          help: "instead of a context: an AdmissionReview or ConversionReview for a webhook binding of the hook",
        },
        { flags: "--binding <NAME>", help: "which of its webhook bindings, if several could get the review" },
        { flags: "--item <N>", help: "the hook of a batch file: its number in `hook list`, or ready" },
        VALUES_FLAG,
        { flags: "--config-values <FILE>", help: "values of the ConfigMap, in the same form" },
      ],
    },
    runHookCommand,
  ),
  offlineRow(
    {
      words: "new module",
      args: "NAME",
      help: "write a module into --modules-dir (default modules), with a public chart or a starter chart",
      example:
        "new module ingress-nginx --chart ingress-nginx --repo https://kubernetes.github.io/ingress-nginx --version 4.14.0",
      flags: CHART_FLAGS,
    },
    newModuleCommand,
  ),
  offlineRow(
    {
      words: "new hook",
      args: "MODULE NAME",
      help: "write a hook of a module and a test for it",
      example: "new hook ingress-nginx count-pods --on-event Pod",
      flags: [
        { flags: "--language <LANGUAGE>", help: "bash or python; default bash", values: ["bash", "python"] },
        { flags: "--on-event <KIND>", help: "run on events of objects of [GROUP/VERSION/]KIND" },
        { flags: "--schedule <CRONTAB>", help: "run on a schedule" },
      ],
    },
    newHookCommand,
  ),
  offlineRow(
    {
      words: "upgrade-chart",
      args: "NAME",
      help: "show what another version of a module's public chart changes, and install it after confirmation",
      example: "upgrade-chart ingress-nginx --version 4.15.1",
      flags: [...CHART_FLAGS, VALUES_FLAG, { flags: "--yes", help: "do not ask for confirmation" }],
    },
    upgradeChartCommand,
  ),
  offlineRow(
    {
      words: "lint",
      args: "DIR...",
      help: "check modules and hooks without a cluster, or print the RBAC rules they need",
      example: "lint modules global-hooks",
      flags: [
        { flags: "--rbac", help: "print the rules that the operator's ServiceAccount needs" },
        {
          flags: "--role",
          help: "with --rbac: print ServiceAccounts, roles and bindings of the modules with serviceAccountName",
        },
        VALUES_FLAG,
        {
          flags: "--kube-version <VERSION>",
          help: "render charts for this version of Kubernetes; default: helm's",
        },
      ],
    },
    lintCommand,
  ),
];
