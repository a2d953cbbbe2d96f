/** The commands of `kubectl addon`: what a cluster's AddonModules say, without a way to the operator. */

import { systemClock, visible, type Clock } from "../../lib/index.ts";
import { codeOf, showAll, type Showing } from "../asking/overview.ts";
import { modulesTable, statusText } from "../asking/tables.ts";
import { awaitModule } from "../asking/wait.ts";
import type { Line, World } from "../table/row.ts";
import { explanationFrom, overviewFrom, rowFrom } from "./from-resources.ts";
import { resourceReader, type Reader } from "./read-resources.ts";

/** Which of them: the second word of the row. */
export type Which = "status" | "list" | "why" | "wait";

/** Runs one of them. */
export async function runAddon(which: Which, line: Line, world: World): Promise<number> {
  const { settings } = line.settings(world.env);
  const namespace = line.flags["n"] ?? settings.namespace;
  const reader = resourceReader({ ...settings, namespace: namespace === true ? undefined : namespace });
  try {
    return await WORKS[which](reader, line, world);
  } finally {
    await reader.close();
  }
}

type Work = (reader: Reader, line: Line, world: World) => Promise<number>;

const GONE = (name: string): string => `there is no AddonModule ${name}\n`;

/** `status` and `list`. */
function show(how: Pick<Showing, "draw" | "code">): Work {
  return (reader, line, world) => {
    const fetch = async () => {
      const { operator, modules } = await reader.all();
      if (operator !== undefined || modules.length > 0)
        return overviewFrom(operator, modules, systemClock.now());
      world.complain("There is no AddonOperator there (-n names another namespace)\n");
      return 1;
    };
    return showAll(line, world, { ...how, clock: systemClock, fetch });
  };
}

const why: Work = async (reader, { args: [name = ""] }, { print, complain }) => {
  const found = await reader.module(name);
  if (found === undefined) complain(GONE(name));
  else print(`${visible(explanationFrom(found).join("\n"))}\n`);
  return found === undefined ? 1 : 0;
};

/** The operator may be about to make it. */
const NOT_YET = {
  state: "Pending",
  message: "there is no AddonModule yet",
  ready: "Unknown",
  healthy: "Unknown",
};

const wait: Work = (reader, line, world) => {
  const clock: Clock = systemClock;
  return awaitModule(line, world, {
    clock,
    look: async (name) => {
      const found = await reader.module(name);
      return found === undefined ? NOT_YET : rowFrom(found, clock.now());
    },
  });
};

const WORKS: Readonly<Record<Which, Work>> = {
  status: show({ draw: statusText, code: codeOf }),
  list: show({ draw: modulesTable, code: () => 0 }),
  why,
  wait,
};
