/** Builds the functions that read files of modules. */

import type { Settings } from "../config.ts";
import type { Accounts } from "../kube/index.ts";
import type { Clock } from "../lib/index.ts";
import type { Tree } from "../model/index.ts";
import {
  resolveDirectories,
  readTree,
  rereadModule,
  type ChartArchives,
  type RegistryModules,
} from "../modules/index.ts";

/** Why no release is purged before the modules of registries are verified and unpacked: until then, they seem to be missing. */
const REGISTRY_MODULES_UNKNOWN = "the modules of registries are known to the running operator alone";

/** Builds the functions that read modules, global hooks and charts from the directories that the settings name. */
export function makeReaders(
  settings: Settings,
  from: { readonly accounts: Accounts; readonly archives: ChartArchives; readonly clock: Clock },
) {
  const { unnumberedOrder, strictValues: strict, crdFilters } = settings;
  const { accounts, archives, clock } = from;
  const schemaDirs = settings.schemaDirs?.split(":") ?? [];
  const findRefusal: Accounts["findProblem"] = (module, file) => accounts.findProblem(module, file);
  const { moduleNamespaceTemplate: namespaceTemplate } = settings;
  const readOptions = { unnumberedOrder, strict, crdFilters, schemaDirs, findRefusal, namespaceTemplate };
  const registryModules: RegistryModules | undefined = settings.sources
    ? { dir: undefined, origins: new Map(), purgeBlockers: [REGISTRY_MODULES_UNKNOWN] }
    : undefined;
  const treeOptions = { ...resolveDirectories(settings), ...readOptions, archives, clock, registryModules };
  const onlyModules = { globalHooksDir: undefined, registryModules: undefined };
  return {
    /** Modules from registries; undefined = `--sources` is off. */
    registryModules,
    /** Reads a modules directory that is not part of the operator's settings, such as a candidate from a registry. */
    readModulesDir: (modulesDir: string): Promise<Tree> =>
      readTree({ ...treeOptions, ...onlyModules, modulesDirs: [modulesDir] }),
    restoreChart: (chartDir: string): Promise<void> => archives.restore(chartDir),
    /** Reads all directories. `previous` is the tree that was read before; undefined at a start. */
    readTree: (previous?: Tree, names?: ReadonlySet<string>): Promise<Tree> =>
      readTree({ ...treeOptions, previous, namesToRead: names }),
    rereadModule: (previous: Tree, name: string): Promise<Tree> => rereadModule(treeOptions, previous, name),
  };
}
