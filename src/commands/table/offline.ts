/** The rows of commands that need no operator (docs/DEBUG.md, "Without a cluster"). */

import { UsageError } from "../../config.ts";
import type * as Offline from "../../offline/index.ts";
import type { Flag, Line, Row, World } from "./row.ts";

type Printed = Awaited<ReturnType<typeof Offline.lintDirs>>;
type Chart = Parameters<typeof Offline.upgradeChart>[0]["chart"];

const CHART: readonly Flag[] = [
  { flags: "--chart <CHART>", help: "DIR, FILE.tgz, oci://… or REPO/CHART" },
  { flags: "--version <VERSION>", help: "of the chart; the newest, unless it is given" },
  { flags: "--repo <URL>", help: "the repository that has the chart" },
  {
    flags: "--ca-file <FILE>",
    help: "authorities that may have signed the certificate of repository or registry",
  },
  { flags: "--plain-http", help: "the registry has no TLS" },
];
const VALUES: Flag = {
  flags: "--values <FILE>",
  help: "values: YAML or JSON, with global and the modules' sections",
};

type Work = (offline: typeof Offline, line: Line, world: World) => Promise<Printed>;

/** Prints what comes out; the exit code is what it says. */
function offline(row: Omit<Row, "run">, work: Work): Row {
  return {
    ...row,
    run: async (line, world) => {
      const { text, code } = await work(await import("../../offline/index.ts"), line, world);
      world.print(text);
      return code;
    },
  };
}

function textOf({ flags }: Line, name: string): string | undefined {
  const given = flags[name];
  return typeof given === "string" ? given : undefined;
}

function chartIn(line: Line): Chart {
  const [ref, version, repo, caFile] = ["chart", "version", "repo", "caFile"].map((name) =>
    textOf(line, name),
  );
  return { ref, version, repo, caFile, plainHttp: line.flags["plainHttp"] === true };
}

const runHook: Work = (rooms, line, { env }) => {
  const [path = ""] = line.args;
  const context = textOf(line, "context");
  if (context === undefined)
    throw new UsageError([
      "usage: addon-operator hook run PATH --context FILE [--item N] [--values FILE] [--config-values FILE]",
    ]);
  const [item, values, configValues] = ["item", "values", "configValues"].map((name) => textOf(line, name));
  const files = { path, item, context, values, configValues };
  return rooms.runHookOffline(files, line.settings(env).settings, env);
};

const newModule: Work = (rooms, line, { env }) => {
  const [name = ""] = line.args;
  const chart = chartIn(line);
  const { ref } = chart;
  if (ref === undefined && Object.keys(line.flags).length > 0)
    throw new UsageError([
      "--version, --repo, --ca-file, --plain-http say where --chart comes from: name it",
    ]);
  const wanted = { name, chart: ref === undefined ? undefined : { ...chart, ref } };
  return rooms.writeModule(wanted, line.settings(env).settings, env);
};

const newHook: Work = (rooms, line, { env }) => {
  const [module = "", name = ""] = line.args;
  const given = textOf(line, "language") ?? "bash";
  const language = (["bash", "python"] as const).find((each) => each === given);
  if (language === undefined) throw new UsageError([`--language: "${given}" is neither bash nor python`]);
  const wanted = {
    module,
    name,
    language,
    onEvent: textOf(line, "onEvent"),
    schedule: textOf(line, "schedule"),
  };
  return rooms.writeHook(wanted, line.settings(env).settings, env);
};

const upgradeChart: Work = async (rooms, line, { env, ask }) => {
  const [module = ""] = line.args;
  let shown = "";
  const agreed = (text: string): Promise<boolean> => {
    shown = text;
    return Promise.resolve(true);
  };
  const asking = line.flags["yes"] === true ? agreed : ask;
  const wanted = { module, chart: chartIn(line), values: textOf(line, "values") };
  const printed = await rooms.upgradeChart(wanted, {
    settings: line.settings(env).settings,
    env,
    ask: asking,
  });
  return { ...printed, text: `${shown}${printed.text}` };
};

const lint: Work = (rooms, line, { env }) => {
  const request = {
    dirs: line.args,
    values: textOf(line, "values"),
    kubeVersion: textOf(line, "kubeVersion"),
  };
  const { settings } = line.settings(env);
  return line.flags["rbac"] === true
    ? rooms.rbacOf(request, settings, env)
    : rooms.lintDirs(request, settings, env);
};

/** Commands that need no operator. */
export const OFFLINE: readonly Row[] = [
  offline(
    {
      words: "hook run",
      args: "PATH",
      help: "run one hook without a cluster and print what it would change",
      example: "hook run modules/010-web/hooks/discover --context context.json --values values.yaml",
      flags: [
        {
          flags: "--context <FILE>",
          help: "the binding context: a JSON array, or one context; it has to be given",
        },
        { flags: "--item <N>", help: "which hook of a batch file: its number in `hook list`, or ready" },
        VALUES,
        { flags: "--config-values <FILE>", help: "values of the ConfigMap, in the same form" },
      ],
    },
    runHook,
  ),
  offline(
    {
      words: "new module",
      args: "NAME",
      help: "write a module into --modules-dir (default modules), of a public chart or of its own",
      example:
        "new module ingress-nginx --chart ingress-nginx --repo https://kubernetes.github.io/ingress-nginx --version 4.14.0",
      flags: CHART,
    },
    newModule,
  ),
  offline(
    {
      words: "new hook",
      args: "MODULE NAME",
      help: "write a hook of a module and a test for it",
      example: "new hook ingress-nginx count-pods --on-event Pod",
      flags: [
        { flags: "--language <LANGUAGE>", help: "bash or python; default bash", values: ["bash", "python"] },
        { flags: "--on-event <KIND>", help: "run on events of objects of [GROUP/VERSION/]KIND" },
        { flags: "--schedule <CRONTAB>", help: "run by the clock" },
      ],
    },
    newHook,
  ),
  offline(
    {
      words: "upgrade-chart",
      args: "NAME",
      help: "show what another version of a module's public chart changes, ask, and take it",
      example: "upgrade-chart ingress-nginx --version 4.15.1",
      flags: [...CHART, VALUES, { flags: "--yes", help: "agree beforehand" }],
    },
    upgradeChart,
  ),
  offline(
    {
      words: "lint",
      args: "DIR...",
      help: "check modules and hooks without a cluster, or print the RBAC rules they need",
      example: "lint modules global-hooks",
      flags: [
        { flags: "--rbac", help: "print the rules that the operator's ServiceAccount needs" },
        VALUES,
        {
          flags: "--kube-version <VERSION>",
          help: "render charts for this version of Kubernetes, not for helm's own",
        },
      ],
    },
    lint,
  ),
];
