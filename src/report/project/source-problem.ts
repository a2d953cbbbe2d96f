/** Describes what is wrong with a ModuleSource, from its status. */

import type { IModuleSource } from "../models/module-source.ts";

/** What a user has to know about a ModuleSource, in one line: it is not Ready, or its checks fail. Undefined if all is well. */
export function describeSourceProblem({ metadata, status }: IModuleSource): string | undefined {
  const conditions = status?.conditions ?? [];
  const ready = conditions.find(({ type }) => type === "Ready");
  const failed = conditions.find(({ type }) => type === "CheckFailed");
  if (ready?.status === "False") return `${metadata.name}: ${ready.reason}: ${ready.message}`;
  return failed?.status === "True" ? `${metadata.name}: ${failed.reason}: ${failed.message}` : undefined;
}
