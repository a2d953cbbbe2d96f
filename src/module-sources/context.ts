/** What the leader and a standby operator share to provide modules from registries. */

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
import type { RegistryModules } from "../modules/index.ts";
import type { Signer } from "../registry/index.ts";
import type { State } from "../state/index.ts";
import type { OperatorEvent } from "../status/index.ts";
import type { BlobStore } from "./disk/blob-store.ts";
import type { InstallerKeys } from "./trusted-keys.ts";
import type { LockConfigMap } from "./lock.ts";
import type { SourceList } from "./source-list.ts";
import type { ChangedModules, LockedModules } from "./locked-modules.ts";

/** What the operator gives to the package, and its settings. */
export interface ModuleSourcesOptions extends KubeAccess {
  readonly hub: WatchHub;
  readonly failures: Failures;
  readonly state: State;
  readonly metrics: Metrics;
  readonly announce: (event: OperatorEvent) => void;
  /** The operator's time zone, in which windows open. */
  readonly timeZone: string;
  /** Proxies for registries. */
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly registryModules: RegistryModules;
  readonly readModulesDir: (modulesDir: string) => Promise<Tree>;
  readonly serverVersion: () => Promise<string>;
  readonly hasRelease: (module: string) => boolean;
  /**
   * The digest of the content from which the installed revision of a module was made; undefined if the revision does not
   * record it.
   */
  readonly getInstalledDigest: (module: string) => string | undefined;
  readonly configMap: string;
  readonly dir: string;
  /** Name of the ConfigMap with keys. */
  readonly keysConfigMap: string;
  readonly maxBytes: number;
  /** Registries and repositories whose charts may be unsigned. */
  readonly unsignedCharts: readonly string[];
}

/** The lock, the content on disk and the ModuleSources, with the functions that leader and standby use on them. */
export interface SourcesContext {
  readonly options: ModuleSourcesOptions;
  readonly lockedModules: LockedModules;
  readonly blobStore: BlobStore;
  readonly lock: LockConfigMap;
  /** All keys of the installer. */
  readonly installerKeys: () => InstallerKeys;
  readonly currentSources: () => SourceList;
  readonly setSources: (objects: readonly WatchedObject[]) => void;
  readonly listSources: () => Promise<readonly WatchedObject[]>;
  /** Records why the ModuleSources cannot be read, or why a missing one does not count as deleted. */
  readonly setProblem: (kind: "watch" | "removal", message: string | undefined) => void;
  /** Runs work that reads or changes the lock, after all such work that was started before. */
  readonly runExclusively: <T>(work: () => Promise<T>) => Promise<T>;
  readonly publish: () => Promise<ChangedModules>;
  /** The keys that may sign content of a module: those of its source. */
  readonly keysForModule: (module: string) => readonly Signer[];
  /** Reads the installer's keys again, and verifies all locked content with them if they have changed: then it is true. */
  readonly rereadKeys: () => Promise<boolean>;
}

/** Watches one ConfigMap by name. Calls `changed` after the first list and after each change. */
export function watchConfigMap(
  { hub, namespace, logger }: ModuleSourcesOptions,
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
