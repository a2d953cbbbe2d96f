/** The rows of `kubectl addon`: they need a cluster with AddonModules, and no way to the operator. */

import { WAIT_ENDS, WAIT_FLAGS } from "./waiting.ts";
import { OUTPUT, WATCH } from "./asking.ts";
import type { Flag, Row } from "./row.ts";

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
export const ADDON: readonly Row[] = [
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
