/** The text of `--help`. */

import { environmentNames } from "./config.ts";
import { SETTINGS, type SettingRow } from "./settings.ts";

const COMMANDS: readonly (readonly [string, string])[] = [
  ["start", "run the operator (the default)"],
  ["version", "print the version"],
  ["queue list|main", "show the queues of the running operator; list takes --show-empty, both take --watch"],
  ["global list|values|config|patches|snapshots", "show what is known globally"],
  [
    "module list|resource-monitor|graph",
    "show enabled modules, the objects watched for each, or what each requires; graph takes -o dot and -o mermaid",
  ],
  [
    "module values|config|render|patches|snapshots|why|status|diff NAME",
    "show one module; values take --explain and --global, render takes --diff; diff asks the cluster what a run would change, and ends with 10 where it would",
  ],
  ["module run NAME", "run a module now"],
  [
    "wait NAME [--for=ready|healthy] [--timeout=5m]",
    "print what a module does until it is Ready, or its objects are healthy; ends with 1 when time is up",
  ],
  ["config list|set NAME VALUE [DURATION]", "show or set runtime parameters"],
  ["plan", "show what a start would install, upgrade, delete and purge"],
  ["raw PATH", "ask any path of the debug socket"],
  [
    "hook run PATH --context FILE [--values FILE] [--config-values FILE]",
    "run one hook without a cluster and print what it would change",
  ],
  [
    "new module NAME [--chart DIR|FILE.tgz|oci://…|REPO/CHART] [--version VERSION] [--repo URL] [--ca-file FILE] [--plain-http]",
    "write a module into --modules-dir (default modules), of a public chart or of its own",
  ],
  [
    "new hook MODULE NAME [--language bash|python] [--on-event [GROUP/VERSION/]KIND | --schedule CRONTAB]",
    "write a hook of a module and a test for it",
  ],
  [
    "upgrade-chart NAME [--version VERSION] [--chart …] [--repo URL] [--ca-file FILE] [--plain-http] [--values FILE] [--yes]",
    "show what another version of a module's public chart changes, ask, and take it",
  ],
  [
    "lint [--rbac] [--values FILE] DIR…",
    "check modules and hooks without a cluster, or print the RBAC rules they need",
  ],
];

const OUTPUT = "What asks the running operator takes -o text|yaml|json.";

function inBrackets(setting: SettingRow): string {
  const notes = [
    setting.choices === undefined ? [] : [setting.choices.join(", ")],
    setting.default === undefined ? [] : [`default ${setting.default}`],
  ].flat();
  return notes.length === 0 ? "" : ` (${notes.join("; ")})`;
}

/** The help text. */
export function usage(): string {
  const commands = COMMANDS.map(([words, help]) => `  ${words}\n      ${help}`);
  const settings = SETTINGS.map((setting) => {
    const env = environmentNames(setting).join(", ");
    return `  --${setting.flags[0]}${env === "" ? "" : `  [${env}]`}\n      ${setting.help}${inBrackets(setting)}`;
  });
  return `usage: addon-operator [command] [flags]\n\nCommands:\n${commands.join("\n")}\n\n${OUTPUT}\n\nSettings (flag > environment > default):\n${settings.join("\n")}\n`;
}
