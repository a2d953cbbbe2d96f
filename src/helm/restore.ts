/** Puts missing objects of a release back. */

import { isAlreadyExists } from "../kube/index.ts";
import { inParallel, oneLine } from "../lib/index.ts";
import type { JsonObject } from "../model/index.ts";
import { ServedObject, marked } from "./as-helm.ts";
import { RestoreError } from "./binary/helm-errors.ts";
import type { Reconciler } from "./examine.ts";
import { documentsOf, lastingBodies, nameOf, refOf, type ObjectRef } from "./manifest/manifest.ts";
import type { ReleaseMeta } from "./release/revisions.ts";

interface RestoreRequest {
  readonly release: ReleaseMeta;
  /** Objects as `nameOf` names them, with their namespaces. */
  readonly absent: readonly string[];
  readonly signal: AbortSignal;
}

const AT_ONCE = 4;
/** After this many refusals of one kind (by a webhook, a quota) the others would be refused too. */
const MOST_REFUSED = 3;

interface Absent {
  readonly ref: ObjectRef;
  readonly name: string;
  readonly body: JsonObject;
}

/**
 * Puts objects of a release back as its record has them, in helm's order and with helm's marks: nothing is
 * rendered, so passwords made by templates stay, and there is no new revision. Puts back all it can, then throws
 * RestoreError for the rest.
 */
export async function restoreObjects(tools: Reconciler, request: RestoreRequest): Promise<void> {
  const { release, signal } = request;
  const [manifest = ""] = await tools.store.manifests(release, signal);
  const { applyMethod } = await tools.store.summary(release);
  const left = new Set(request.absent);
  const refusals: string[] = [];
  for (const group of byKind(absentOf(manifest, tools.namespace, left))) {
    const before = refusals.length;
    await inParallel(AT_ONCE, group, async ({ ref, body, name }) => {
      if (refusals.length - before >= MOST_REFUSED) return;
      try {
        await putBack(tools, { ref, body: marked(body, release.name, tools.namespace), applyMethod, signal });
        left.delete(name);
      } catch (error) {
        signal.throwIfAborted();
        refusals.push(`${name}: ${oneLine(error)}`);
      }
    });
  }
  if (refusals.length > 0) throw new RestoreError(refusals, [...left]);
}

function absentOf(manifest: string, own: string, absent: ReadonlySet<string>): Absent[] {
  return lastingBodies(documentsOf(manifest)).flatMap((body) => {
    const [ref] = refOf(body);
    if (ref === undefined) return [];
    const names = [ref.namespace ?? own, undefined].map((namespace) => nameOf({ ...ref, namespace }));
    const name = names.find((each) => absent.has(each));
    return name === undefined ? [] : [{ ref, body, name }];
  });
}

/** Groups of one kind: helm keeps its manifests in the order of installation. */
function byKind(objects: readonly Absent[]): Absent[][] {
  const groups: Absent[][] = [];
  for (const object of objects) {
    const last = groups.at(-1);
    if (last?.[0]?.ref.kind === object.ref.kind) last.push(object);
    else groups.push([object]);
  }
  return groups;
}

interface Putting extends Pick<Absent, "ref" | "body"> {
  readonly applyMethod: "csa" | "ssa";
  readonly signal: AbortSignal;
}

async function putBack(tools: Reconciler, { ref, body, applyMethod, signal }: Putting): Promise<void> {
  const served = await ServedObject.of(tools, ref);
  if (served === undefined) throw new Error(`the server knows no ${ref.kind} of ${ref.apiVersion}`);
  try {
    await (applyMethod === "ssa" ? served.apply(body, { signal }) : served.create(body, { signal }));
  } catch (error) {
    if (applyMethod === "ssa" || !isAlreadyExists(error)) throw error;
  }
}
