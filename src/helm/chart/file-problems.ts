/** Finds problems in the files of a module that no value of a hook can solve, for `lint` and for new content of sources. */

import { join } from "node:path";

import { collect, type Module, type Problem } from "../../model/index.ts";
import { checkCrdFiles } from "../crds/ensure-crds.ts";
import { findUnreadKeys } from "./lint-templates.ts";
import { listEnabledCrdFiles } from "./sub-charts.ts";

/** What is wrong with a module, and what its author hardly means. */
export interface FileFindings {
  readonly problems: readonly Problem[];
  readonly warnings: readonly Problem[];
}

/**
 * Finds invalid CRDs, fields of CRDs that are not applied, and values that nothing reads. `values` is the JSON text that helm gets, which
 * enables sub-charts.
 */
export async function findFileProblems(module: Module, values: string): Promise<FileFindings> {
  const crds = await checkCrdFiles(listEnabledCrdFiles(module, () => values));
  const problems: Problem[] = [...crds.problems];
  const unreadKeys = collect(problems, () => findUnreadKeys(module)) ?? [];
  const remedy = `put values of the module under ${module.valuesKey}, and values of a sub-chart under its name or alias`;
  for (const key of unreadKeys)
    problems.push({ file: join(module.dir, "values.yaml"), key, message: "nothing reads it", remedy });
  return { problems, warnings: crds.warnings };
}
