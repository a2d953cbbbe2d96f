/** Keeps helm from deleting objects that must stay (docs/RUNNING.md, "What outlives a release"). */

import type { Reconciler } from "../examine.ts";
import { documentsOf, keyIn, keyOf, nameOf, objectsOf, withoutObjects } from "../manifest/manifest.ts";
import type { ObjectRef } from "../manifest/manifest.ts";
import { outliving } from "./outliving.ts";
import type { ReleaseMeta } from "../release/revisions.ts";

/**
 * Before a release is removed: takes the objects that must stay out of its record, by which helm deletes. Throws
 * when an object cannot be looked at, or the record was changed meanwhile.
 */
export async function spareInRemoval(
  tools: Reconciler,
  release: string,
  signal?: AbortSignal,
): Promise<void> {
  const meta = await tools.store.refresh(release, signal);
  if (meta === undefined) return;
  const [manifest = ""] = await tools.store.manifests(meta, signal);
  await spare(tools, meta, { objects: objectsOf(documentsOf(manifest)), signal });
}

/**
 * The same before an upgrade, which deletes what the chart no longer makes. `made` is what it makes now; where that
 * is not known, all objects are looked at.
 */
export async function spareInUpgrade(
  tools: Reconciler,
  release: string,
  next: { readonly made: readonly ObjectRef[] | undefined; readonly signal: AbortSignal },
): Promise<void> {
  const made = new Set(next.made?.map(keyOf));
  for (const meta of inForce(tools.store.revisions(release))) {
    const { objects } = await tools.store.summary(meta);
    const dropped = objects.filter((object) => !made.has(keyOf(object)));
    if (dropped.length > 0) await spare(tools, meta, { objects: dropped, signal: next.signal });
  }
}

/** The revisions that helm may compare a chart with: the newest, and the one that was deployed last. */
function inForce(revisions: readonly ReleaseMeta[]): ReleaseMeta[] {
  const [newest] = revisions;
  if (newest === undefined || newest.status === "uninstalled") return [];
  const deployed = revisions.find(({ status }) => status === "deployed");
  return [...new Set([newest, deployed ?? newest])];
}

async function spare(
  tools: Reconciler,
  meta: ReleaseMeta,
  look: { readonly objects: readonly ObjectRef[]; readonly signal: AbortSignal | undefined },
): Promise<void> {
  const makers = await tools.makers(look.signal);
  const makerOf = (object: ObjectRef) => makers.get(keyIn(tools.namespace, object));
  const moved = look.objects.flatMap((object) => {
    const maker = makerOf(object);
    return maker === undefined ? [] : [{ object, why: `the chart of module ${maker} has it now` }];
  });
  const objects = look.objects.filter((object) => makerOf(object) === undefined);
  const spared = [...moved, ...(await outliving(tools, meta.name, { objects, signal: look.signal }))];
  if (spared.length === 0) return;
  for (const { object, why } of spared)
    tools.logger.warn("An object is not deleted", { release: meta.name, object: nameOf(object), why });
  const [manifest = ""] = await tools.store.manifests(meta, look.signal);
  const without = withoutObjects(
    manifest,
    spared.map(({ object }) => object),
  );
  await tools.store.replaceManifest(meta, without, look.signal);
}
