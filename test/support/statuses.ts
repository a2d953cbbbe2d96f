import { inject } from "vitest";

import { WatchHub, connect, pathOf } from "../../src/kube/index.ts";
import { silentLogger, systemClock } from "../../src/base/index.ts";
import { ADDON_MODULES, ADDON_OPERATORS } from "../../src/report/index.ts";
import { eventually } from "../../scripts/eventually.mjs";
import { installCrds } from "./crds.ts";
import { StatusOracle } from "./kstatus.ts";
import type { SeenObject } from "./kstatus.ts";

const RESOURCES = [ADDON_MODULES, ADDON_OPERATORS];

/** A watch of all statuses in one namespace. */
export interface StatusWatch {
  /** Every version of every object seen so far. */
  readonly seen: readonly SeenObject[];
  /** Resolves when everything written so far has been seen; throws when some status broke a rule. Idempotent. */
  readonly end: () => Promise<void>;
}

/**
 * Holds every status written in `namespace` from now on against the rules of kstatus and of Flux. `kubeconfig` must
 * have the right to see them; the shared cluster gets the CRDs first, so that no version is missed.
 */
export async function watchStatuses(namespace: string, kubeconfig?: string): Promise<StatusWatch> {
  if (kubeconfig === undefined) await installCrds();
  const base = { logger: silentLogger, clock: systemClock };
  const client = connect({
    ...base,
    kubeConfig: kubeconfig ?? inject("cluster").kubeconfig,
    userAgent: "oracle",
  });
  const hub = new WatchHub({ client, ...base });
  const oracle = new StatusOracle();
  const broken: string[] = [];
  const versions = new Set<string>();
  const see = (object: unknown): void => {
    const seen = object as SeenObject;
    versions.add(`${seen.metadata.name}/${seen.metadata.resourceVersion ?? ""}`);
    try {
      oracle.record(seen);
    } catch (error) {
      broken.push(String(error));
    }
  };
  const consumer = { onListed: see, onSynced: () => {}, onApplied: see, onDeleted: () => {} };
  const watches = RESOURCES.map((resource) => hub.subscribe({ resource, namespace }, consumer));
  if (kubeconfig === undefined) await Promise.all(watches.map(({ whenSynced }) => whenSynced));
  /** The watch reports the versions of an object in order: who has seen the last one has seen all. */
  const isSeen = async (): Promise<boolean> => {
    const lists = RESOURCES.map((resource) =>
      client.json<{ items: SeenObject[] }>({ path: pathOf(resource, { namespace }) }),
    );
    const items = (await Promise.all(lists)).flatMap((list) => list.items);
    return items.every(({ metadata }) => versions.has(`${metadata.name}/${metadata.resourceVersion ?? ""}`));
  };
  let ended: Promise<void> | undefined;
  const end = async (): Promise<void> => {
    await eventually(isSeen, "the last status seen");
    hub.close();
    await client.close();
    if (broken.length > 0)
      throw new Error(`A status broke a rule, the first of ${broken.length}: ${broken[0]}`);
  };
  return { seen: oracle.seen, end: () => (ended ??= end()) };
}
