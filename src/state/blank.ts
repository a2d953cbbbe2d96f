/** The state at a start, when nothing is known yet. */

import type { Tree } from "../model/index.ts";
import type { View } from "./view.ts";

/** What is known of the operator as a whole; nothing of it is derived. */
export type OperatorState = Omit<View, "tree" | "modules" | "coverage" | "enabledModules">;

/** The state before anything was seen. */
export const BLANK: OperatorState = {
  boot: "loading",
  config: { condition: "ok", problems: [], resourceVersion: undefined, unknownKeys: [], digest: "" },
  reload: {
    phase: "idle",
    cause: undefined,
    startedAt: undefined,
    finishedAt: undefined,
    remaining: 0,
    covered: undefined,
    rounds: 0,
  },
  globalCause: undefined,
  secondLook: false,
  holds: [],
  brake: undefined,
  confirmation: undefined,
  missingRights: [],
  troubles: [],
  requestedToken: undefined,
  handledToken: undefined,
};

export const NO_TREE: Tree = {
  modules: [],
  globalValues: undefined,
  globalSchemas: {},
  globalHookFiles: [],
  problems: [],
  warnings: [],
  purgeHolds: [],
};
