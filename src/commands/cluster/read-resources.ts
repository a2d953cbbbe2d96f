/** Reads AddonOperator and AddonModules of a cluster, as `kubectl addon` needs them. */

import { UsageError } from "../../config.ts";
import {
  ApiError,
  connect,
  explainContact,
  get,
  ignoreNotFound,
  isForbidden,
  isNotFound,
  listObjects,
} from "../../kube/index.ts";
import type { KubeClient, WatchSpec } from "../../kube/index.ts";
import { oneLine, silentLogger, systemClock } from "../../lib/index.ts";
import { ProblemError } from "../../model/index.ts";
import type { Settings } from "../../settings.ts";
import { ADDON_MODULES, ADDON_OPERATORS } from "../../status/index.ts";
import type { IAddonModule, IAddonOperator } from "../../status/index.ts";
import { VERSION } from "../../version.ts";

/** The resources of one operator. */
interface Resources {
  readonly operator: IAddonOperator | undefined;
  /** Without their values. */
  readonly modules: readonly IAddonModule[];
}

/** What is read anew with each call. Calls throw ProblemError, and UsageError where several operators may be meant. */
export interface Reader {
  readonly all: () => Promise<Resources>;
  /** Undefined where there is none. */
  readonly module: (name: string) => Promise<IAddonModule | undefined>;
  readonly close: () => Promise<void>;
}

/** A reader of the operator in this namespace, or of the only one. */
export function resourceReader({
  kubeConfig,
  kubeContext: context,
  namespace,
  configMap,
}: Pick<Settings, "kubeConfig" | "kubeContext" | "namespace" | "configMap">): Reader {
  const userAgent = `addon-operator/${VERSION}`;
  const client = connect({ kubeConfig, context, userAgent, logger: silentLogger, clock: systemClock });
  const plainly = async <T>(work: Promise<T>): Promise<T> => {
    try {
      return await work;
    } catch (error) {
      throw explained(error, client);
    }
  };
  const operator = () => operatorIn(client, namespace, configMap);
  let place = namespace;
  const placed = async (): Promise<string | undefined> => (place ??= (await operator())?.metadata.namespace);
  return {
    all: () => plainly(operator().then((found) => allOf(client, found, namespace))),
    module: (name) => plainly(placed().then((found) => moduleOf(client, name, found))),
    close: () => client.close(),
  };
}

async function operatorIn(
  client: KubeClient,
  wanted: string | undefined,
  name: string,
): Promise<IAddonOperator | undefined> {
  const operators = await all<IAddonOperator>(client, { resource: ADDON_OPERATORS, namespace: wanted });
  const namespaces = [...new Set(operators.map(({ metadata }) => metadata.namespace ?? ""))].toSorted();
  if (namespaces.length > 1)
    throw new UsageError([`there are operators in ${namespaces.join(", ")}: choose one by -n NAMESPACE`]);
  if (operators.length <= 1) return operators[0];
  const names = operators.map(({ metadata }) => metadata.name).toSorted();
  const found = operators.find(({ metadata }) => metadata.name === name);
  if (found === undefined)
    throw new UsageError([
      `there are operators ${names.join(", ")} in ${namespaces[0]}: choose one by --config-map NAME`,
    ]);
  return found;
}

/** All of a kind, page by page; what is large and not shown is dropped as it comes. */
async function all<T>(client: KubeClient, spec: WatchSpec): Promise<T[]> {
  const read = async (unpaged: boolean): Promise<T[]> => {
    const found: T[] = [];
    const { signal } = new AbortController();
    await listObjects(spec, { client, clock: systemClock, signal, unpaged }, (object) => {
      const { values: _, ...status } = (object["status"] ?? {}) as object & { values?: unknown };
      found.push({ ...object, status } as T);
    });
    return found;
  };
  // A list that takes too long is forgotten by the server before its end.
  const isExpired = (error: unknown): boolean => error instanceof ApiError && error.status === 410;
  return read(false).catch((error: unknown) => (isExpired(error) ? read(true) : Promise.reject(error)));
}

type Found = IAddonOperator | undefined;

async function allOf(client: KubeClient, operator: Found, wanted: string | undefined): Promise<Resources> {
  const namespace = wanted ?? operator?.metadata.namespace;
  const modules = await all<IAddonModule>(client, { resource: ADDON_MODULES, namespace });
  return { operator, modules: modules.filter((each) => isOf(each, operator)) };
}

async function moduleOf(
  client: KubeClient,
  name: string,
  namespace: string | undefined,
): Promise<IAddonModule | undefined> {
  if (namespace === undefined) return undefined;
  return get<IAddonModule>(client, { resource: ADDON_MODULES, namespace, name }).catch(ignoreNotFound);
}

/** One without an owner is from an operator that is about to say so. */
function isOf({ metadata: { ownerReferences = [] } }: IAddonModule, operator: Found): boolean {
  const owners = ownerReferences.filter(({ kind }) => kind === "AddonOperator");
  return owners.length === 0 || owners.some(({ uid }) => uid === operator?.metadata.uid);
}

function explained(error: unknown, { origin }: KubeClient): unknown {
  if (error instanceof UsageError) return error;
  const { file, server } = origin;
  const problem = (message: string, remedy: string): Error =>
    new ProblemError([{ file, key: `server ${server}`, message, remedy }]);
  if (isNotFound(error))
    return problem(
      "knows no AddonModules: the CRDs of addon-operator.io are not there",
      "look whether kubeconfig and context lead to the right cluster",
    );
  if (isForbidden(error))
    return problem(
      oneLine(error),
      "it takes list of addonoperators, and get and list of addonmodules; -n NAMESPACE asks for one namespace alone",
    );
  const told = explainContact(error, origin);
  return told instanceof ProblemError ? told : problem(oneLine(error), "try again");
}
