/** What tests record in the state. */

import type { Module } from "../../src/base/model/index.ts";
import type { ModuleActivity, State } from "../../src/engine/state/index.ts";

/** A run of the module begins. */
export function begin(state: State, name: string, activity: ModuleActivity = "running"): void {
  const cause = { kind: "config" } as const;
  state.recordModule(name, "runStarted", { activity, cause, startedAt: 0, attempts: 1 });
}

/** The files of a module are read again, with this change. */
export function reread(state: State, name: string, change: Partial<Module>): void {
  const modules = state.tree.modules.map((each) => (each.name === name ? { ...each, ...change } : each));
  state.recordTree({ ...state.tree, modules });
}

/** A user requests a run of the module, or (undefined) a converge. */
export function request(state: State, name: string | undefined, token: string): void {
  if (name === undefined) state.record("convergeRequested", token);
  else state.recordModule(name, "runRequested", token);
}

/** Whether the converge handles the configuration in force. */
export function handlesConfig({ view: { converge, convergeDigests } }: State): boolean {
  return converge.handled?.globalConfig === convergeDigests.globalConfig;
}
