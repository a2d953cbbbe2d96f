/** What the leader and a follower share of modules from registries. */

import {
  CONFIG_MAPS,
  toStoredObject,
  ObjectStore,
  type KubeAccess,
  type WatchedObject,
  type WatchHub,
} from "../kube/index.ts";
import { oneLine, type Failures } from "../lib/index.ts";
import type { Metrics } from "../metrics/index.ts";
import type { Tree } from "../model/index.ts";
import type { SuppliedModules } from "../modules/index.ts";
import type { Signer } from "../registry/index.ts";
import type { State } from "../state/index.ts";
import type { OperatorEvent } from "../status/index.ts";
import type { BlobStore } from "./disk/store.ts";
import type { Keys } from "./keys.ts";
import type { LockFile } from "./lock.ts";
import type { Sources } from "./sources.ts";
import type { Moved, Stock } from "./stock.ts";

export interface SupplyOptions extends KubeAccess {
  readonly hub: WatchHub;
  readonly failures: Failures;
  readonly state: State;
  readonly metrics: Metrics;
  readonly announce: (event: OperatorEvent) => void;
  /** The operator's time zone, in which windows open. */
  readonly zone: string;
  /** Proxies for registries. */
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly supplied: SuppliedModules;
  readonly readApart: (modulesDir: string) => Promise<Tree>;
  readonly serverVersion: () => Promise<string>;
  readonly hasRelease: (module: string) => boolean;
  /** The digest of the content from which the installed revision of a module was made; undefined if it does not say so. */
  readonly contentOf: (module: string) => string | undefined;
  readonly configMap: string;
  readonly dir: string;
  /** Name of the ConfigMap with keys. */
  readonly keys: string;
  readonly mostBytes: number;
  /** Registries and repositories whose charts may be unsigned. */
  readonly unsignedCharts: readonly string[];
}

/** What leader and follower share. */
export interface Shared {
  readonly options: SupplyOptions;
  readonly stock: Stock;
  readonly store: BlobStore;
  readonly lock: LockFile;
  /** All keys of the installer. */
  readonly keys: () => Keys;
  readonly sources: () => Sources;
  readonly setSources: (objects: readonly WatchedObject[]) => void;
  readonly list: () => Promise<readonly WatchedObject[]>;
  /** Records why the ModuleSources cannot be read, or why a missing one does not count as deleted. */
  readonly setProblem: (of: "watch" | "removal", why: string | undefined) => void;
  /** Runs work while no other work of this kind runs. */
  readonly exclusively: <T>(work: () => Promise<T>) => Promise<T>;
  readonly publish: () => Promise<Moved>;
  /** The keys that count for a module. */
  readonly keysOf: (module: string) => readonly Signer[];
  /** Reads the keys again, and verifies everything with them. */
  readonly rereadKeys: () => Promise<void>;
}

/** Watches one ConfigMap by name; calls back after the first list and after each change. */
export function followConfigMap(
  { hub, namespace, logger }: SupplyOptions,
  name: string,
  changed: () => void,
): { close(): void } {
  const store = new ObjectStore({ toStored: toStoredObject });
  const spec = { resource: CONFIG_MAPS, namespace, fieldSelector: `metadata.name=${name}` };
  return store.watch(hub, spec, {
    onChange: changed,
    onError: (error) => {
      if (error !== undefined) logger.warn("A ConfigMap cannot be watched", { name, error: oneLine(error) });
    },
  });
}
