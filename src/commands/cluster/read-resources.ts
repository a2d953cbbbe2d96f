/** Reads AddonOperator and AddonModules of a cluster, as `kubectl addon` needs them. */

import { UsageError } from "../../config.ts";
import { connect, pathOf } from "../../kube/index.ts";
import type { KubeClient } from "../../kube/index.ts";
import { oneLine, silentLogger, systemClock } from "../../lib/index.ts";
import { ProblemError } from "../../model/index.ts";
import type { Settings } from "../../settings.ts";
import { ADDON_MODULES, ADDON_OPERATORS } from "../../status/index.ts";
import type { IAddonModule, IAddonOperator } from "../../status/index.ts";
import { VERSION } from "../../version.ts";

/** The resources of one operator. */
export interface Resources {
  readonly operator: IAddonOperator | undefined;
  readonly modules: readonly IAddonModule[];
}

/** Reads them again with each call. Calls throw ProblemError, and UsageError where several operators may be meant. */
export function resourceReader({
  kubeConfig,
  kubeContext: context,
  namespace,
}: Pick<Settings, "kubeConfig" | "kubeContext" | "namespace">): {
  read: () => Promise<Resources>;
  close: () => Promise<void>;
} {
  const userAgent = `addon-operator/${VERSION}`;
  const client = connect({ kubeConfig, context, userAgent, logger: silentLogger, clock: systemClock });
  const read = async (): Promise<Resources> => {
    try {
      return await readAll(client, namespace);
    } catch (error) {
      if (error instanceof UsageError) throw error;
      throw new ProblemError([{ file: "the API server", message: oneLine(error), remedy: REMEDY }]);
    }
  };
  return { read, close: () => client.close() };
}

const REMEDY =
  "look at kubeconfig and context, and whether you may list AddonModules; -n names one namespace";

async function readAll(client: KubeClient, wanted: string | undefined): Promise<Resources> {
  const all = async <T>(
    resource: typeof ADDON_MODULES,
    namespace: string | undefined,
  ): Promise<readonly T[]> =>
    (await client.json<{ items: T[] }>({ path: pathOf(resource, { namespace }) })).items;
  const operators = await all<IAddonOperator>(ADDON_OPERATORS, wanted);
  const namespaces = [...new Set(operators.map(({ metadata }) => metadata?.namespace ?? ""))].toSorted();
  if (namespaces.length > 1)
    throw new UsageError([`there are operators in ${namespaces.join(", ")}: choose one by -n NAMESPACE`]);
  return { operator: operators[0], modules: await all(ADDON_MODULES, wanted ?? namespaces[0]) };
}
