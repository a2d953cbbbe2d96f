/** What applying definitions would do, without doing it. */

import { CUSTOM_RESOURCE_DEFINITIONS, get, ignoreNotFound } from "../../kube/index.ts";
import { sameJson } from "../../lib/index.ts";
import { ProblemError, type JsonObject, type Problem } from "../../model/index.ts";
import type { CrdRequest } from "../request.ts";
import { plain } from "../manifest/manifest-diff.ts";
import { judgeCrds } from "./breaking.ts";
import { nameOf, type CrdFile, type CrdTools } from "./crd.ts";
import { applyCrd, readCrds } from "./ensure-crds.ts";

/** A definition that would be created, where there is nothing before, or changed. */
interface CrdChange {
  readonly name: string;
  readonly before: JsonObject | undefined;
  readonly after: JsonObject;
}

export interface CrdPreview {
  readonly changes: readonly CrdChange[];
  /** Why nothing of it would happen: a broken file, or a change that is refused. */
  readonly problem: Problem | undefined;
}

/** Compares definitions in files with those in force, by dry runs. Throws ApiError, ConnectionError. */
export async function previewCrds({ files, confirmed }: CrdRequest, tools: CrdTools): Promise<CrdPreview> {
  try {
    const crds = readCrds(files);
    const { problem } = await judgeCrds(crds, { ...tools, confirmed });
    const changes = (await Promise.all(crds.map((each) => changeBy(each, tools)))).flat();
    return { changes, problem };
  } catch (error) {
    if (error instanceof ProblemError) return { changes: [], problem: error.problems[0] };
    throw error;
  }
}

async function changeBy(file: CrdFile, tools: CrdTools): Promise<CrdChange[]> {
  const name = nameOf(file.crd);
  const target = { resource: CUSTOM_RESOURCE_DEFINITIONS, name };
  const live = await get(tools.client, target, { signal: tools.signal }).catch(ignoreNotFound);
  const after = plain(await applyCrd(file, tools, true));
  const before = live === undefined ? undefined : plain(live);
  return sameJson(before, after) ? [] : [{ name, before, after }];
}
