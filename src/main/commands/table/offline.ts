/** The rows of commands that need no operator (docs/reference/commands.md, "Without a cluster"). */

import { UsageError } from "../../../config/settings/index.ts";
import type * as Offline from "../../../surface/offline/index.ts";
import type { Flag, CommandLine, CommandRow, Terminal } from "./row.ts";

/** How a registry is reached. */
const REGISTRY_FLAGS: readonly Flag[] = [
  { flags: "--ca-file <FILE>", help: "CA certificates for the repository or registry" },
  { flags: "--plain-http", help: "call the registry without TLS" },
];

const CHART_FLAGS: readonly Flag[] = [
  { flags: "--chart <CHART>", help: "DIR, FILE.tgz, oci://…, or REPO/CHART" },
  { flags: "--version <VERSION>", help: "version of the chart (default: the newest)" },
  { flags: "--repo <URL>", help: "URL of the chart's repository" },
  ...REGISTRY_FLAGS,
];
const VALUES_FLAG: Flag = {
  flags: "--values <FILE>",
  help: "YAML or JSON file with the global values and the sections of modules",
};

const KUBE_VERSION_FLAG: Flag = {
  flags: "--kube-version <VERSION>",
  help: "render charts for this version of Kubernetes (default: the version that Helm assumes)",
};

/** A command that needs no operator. It calls the package `offline`, which is loaded only when the command runs. */
interface OfflineCommand extends Omit<CommandRow, "run"> {
  readonly work: (
    offline: typeof Offline,
    line: CommandLine,
    terminal: Terminal,
  ) => ReturnType<typeof Offline.lintDirs>;
}

/** A row whose command does its `work` (with the code of `surface/offline/`, which is loaded only then), prints the result and exits with the result's code. */
function offlineRow({ work, ...row }: OfflineCommand): CommandRow {
  return {
    ...row,
    run: async (line, terminal) => {
      const { text, code } = await work(await import("../../../surface/offline/index.ts"), line, terminal);
      terminal.print(text);
      return code;
    },
  };
}

const LANGUAGES = ["bash", "python"] as const;

/** Throws UsageError unless the line has either a flag that names a signer or `--unsigned`: nobody does without a signature by mistake. */
function requireSigner(signer: string | undefined, isUnsigned: true | undefined, remedy: string): void {
  if ((signer !== undefined) === (isUnsigned === true)) throw new UsageError([remedy]);
}

export const OFFLINE_COMMANDS: readonly CommandRow[] = [
  offlineRow({
    words: "hook run",
    args: "PATH",
    help: "run a hook without access to a cluster and print its results",
    example: "hook run modules/010-web/hooks/discover --context context.json --values values.yaml",
    flags: [
      { flags: "--context <FILE>", help: "file with the binding context, as a JSON array or as one context" },
      {
        flags: "--review <FILE>",
        help: "file with an AdmissionReview or ConversionReview, instead of --context",
      },
      { flags: "--binding <NAME>", help: "webhook binding that gets the review, if several bindings match" },
      {
        flags: "--item <N>",
        help: "number of a hook in a batch file (as in `hook list`), or ready for the readiness probe",
      },
      VALUES_FLAG,
      { flags: "--config-values <FILE>", help: "file with the values of the ConfigMap, in the same format" },
    ],
    work(offline, { args: [path = ""], flags, settings }, { env }) {
      if ((flags.context === undefined) === (flags.review === undefined))
        throw new UsageError([
          "usage: addon-operator hook run PATH (--context FILE | --review FILE [--binding NAME]) [--item N] [--values FILE] [--config-values FILE]",
        ]);
      return offline.runHookOffline({ path, ...flags }, settings(env).settings, env);
    },
  }),
  offlineRow({
    words: "new module",
    args: "NAME",
    help: "create a module in --modules-dir (default: modules), with a public chart or a starter chart",
    example:
      "new module ingress-nginx --chart ingress-nginx --repo https://kubernetes.github.io/ingress-nginx --version 4.14.0",
    flags: CHART_FLAGS,
    work(offline, { args: [name = ""], flags, settings }, { env }) {
      const { chart: ref } = flags;
      // All flags of the command select a chart.
      if (ref === undefined && Object.keys(flags).length > 0)
        throw new UsageError([
          "--version, --repo, --ca-file, --plain-http say where --chart comes from: name it",
        ]);
      const chart = ref === undefined ? undefined : { ...flags, ref };
      return offline.writeModule({ name, chart }, settings(env).settings, env);
    },
  }),
  offlineRow({
    words: "new hook",
    args: "MODULE NAME",
    offers: ["module"],
    help: "create a hook of a module and a test for the hook",
    example: "new hook ingress-nginx count-pods --on-event Pod",
    flags: [
      { flags: "--language <LANGUAGE>", help: "bash or python (default: bash)", values: LANGUAGES },
      { flags: "--on-event <KIND>", help: "run on events of objects of [GROUP/VERSION/]KIND" },
      { flags: "--schedule <CRONTAB>", help: "run on a schedule" },
    ],
    work(offline, { args: [module = "", name = ""], flags, settings }, { env }) {
      const { language: typed = "bash" } = flags;
      const language = LANGUAGES.find((each) => each === typed);
      if (language === undefined) throw new UsageError([`--language: "${typed}" is neither bash nor python`]);
      return offline.writeHook({ ...flags, module, name, language }, settings(env).settings, env);
    },
  }),
  offlineRow({
    words: "upgrade-chart",
    args: "NAME",
    offers: ["module"],
    help: "print the changes in another version of a module's public chart and, after your confirmation, replace the chart",
    example: "upgrade-chart ingress-nginx --version 4.15.1",
    flags: [...CHART_FLAGS, VALUES_FLAG, { flags: "--yes", help: "confirm the changes in advance" }],
    work(offline, { args: [module = ""], flags, settings }, { env, confirm, print }) {
      const agree = async (changes: string) => {
        print(changes);
        return true;
      };
      return offline.upgradeChart(
        { module, chart: { ...flags, ref: flags.chart }, values: flags.values },
        { settings: settings(env).settings, env, confirm: flags.yes === true ? agree : confirm },
      );
    },
  }),
  offlineRow({
    words: "lint",
    args: "DIR...",
    help: "check modules and hooks without a cluster, or print the RBAC rules that they need",
    example: "lint modules global-hooks",
    flags: [
      { flags: "--rbac", help: "print the rules that the operator's ServiceAccount needs" },
      {
        flags: "--role",
        help: "with --rbac, print the ServiceAccounts, roles, and bindings of the modules with serviceAccountName",
      },
      VALUES_FLAG,
      KUBE_VERSION_FLAG,
    ],
    work({ lintDirs, printRbac }, { args: dirs, flags, settings }, { env }) {
      const run = flags.rbac === true ? printRbac : lintDirs;
      return run({ dirs, ...flags }, settings(env).settings, env);
    },
  }),
  // Modules as artifacts in a registry (docs/guides/module-sources.md, "Push and pull modules").
  offlineRow({
    words: "source push",
    args: "DIR TARGET",
    help: "check, sign, and store a module in a registry as TARGET/NAME:VERSION",
    more: "The command never replaces the content of a version. The variable COSIGN_PASSWORD contains the passphrase of an encrypted key.",
    example: "source push modules/010-cert-manager oci://registry.example.com/modules --key ci.key",
    flags: [
      { flags: "--key <FILE>", help: "PEM file with a private key (ECDSA P-256 or RSA)" },
      { flags: "--unsigned", help: "store the module without a signature" },
      { flags: "--version <VERSION>", help: "version of the module (default: the version in Chart.yaml)" },
      { flags: "--tag <TAG>", help: "additional tag, such as a channel" },
      VALUES_FLAG,
      KUBE_VERSION_FLAG,
      ...REGISTRY_FLAGS,
    ],
    work(offline, { args: [dir = "", target = ""], flags, settings }, { env }) {
      const remedy = "set --key FILE, or --unsigned to store the module without a signature";
      requireSigner(flags.key, flags.unsigned, remedy);
      return offline.pushSource({ ...flags, dir, target }, settings(env).settings, env);
    },
  }),
  offlineRow({
    words: "source tag",
    args: "REFERENCE TAG",
    help: "move a tag, such as a channel, to a version in a registry",
    example: "source tag oci://registry.example.com/modules/cert-manager:1.4.2 stable",
    flags: REGISTRY_FLAGS,
    work: (offline, { args: [reference = "", tag = ""], flags }, { env }) =>
      offline.tagSource({ ...flags, reference, tag }, env),
  }),
  offlineRow({
    words: "source pull",
    args: "REFERENCE DIR",
    help: "verify a module from a registry and unpack it into a new directory",
    more: "Unless you set --unsigned, the command unpacks only a module with a valid signature.",
    example:
      "source pull oci://registry.example.com/modules/cert-manager:1.4.2 modules/010-cert-manager --key ci.pub",
    flags: [
      { flags: "--key <FILE>", help: "PEM file with public keys, one of which must verify the signature" },
      {
        flags: "--identity <FILE>",
        help: "file with the issuers and subjects of trusted certificates, for signatures without a key",
      },
      {
        flags: "--trusted-root <FILE>",
        help: "file with the trusted root for --identity, in the format of Sigstore",
      },
      { flags: "--unsigned", help: "do not verify the signature" },
      ...REGISTRY_FLAGS,
    ],
    work(offline, { args: [reference = "", dir = ""], flags }, { env }) {
      const remedy =
        "set --key FILE, or --identity FILE with --trusted-root FILE, or --unsigned to do without a signature";
      requireSigner(flags.key ?? flags.identity, flags.unsigned, remedy);
      return offline.pullSource({ ...flags, reference, dir }, env);
    },
  }),
];
