/** Reads AddonOperator and AddonModules from a cluster. */

import { UsageError } from "../../config.ts";
import {
  ApiError,
  connect,
  explainConnectionError,
  get,
  ignoreNotFound,
  isForbidden,
  isNotFound,
  LEASES,
  leaseNameOf,
  listObjects,
  mergePatch,
} from "../../kube/index.ts";
import type { KubeClient, LeaseObject, LeaseSpec, ResourceType, WatchSpec } from "../../kube/index.ts";
import { oneLine, silentLogger, systemClock } from "../../lib/index.ts";
import { ProblemError } from "../../model/index.ts";
import type { Settings } from "../../settings.ts";
import { ADDON_MODULES, ADDON_OPERATORS, MODULE_SOURCES } from "../../status/index.ts";
import type { IAddonModule, IAddonOperator, IModuleSource } from "../../status/index.ts";
import type { Line, Terminal } from "../table/row.ts";
import type { Resources } from "./from-resources.ts";
import { VERSION } from "../../version.ts";

/** Reads from the cluster at each call. Calls throw ProblemError, and UsageError if several operators exist. */
export interface Reader {
  readonly listAll: () => Promise<Resources>;
  /** Undefined if it does not exist. */
  readonly module: (name: string) => Promise<IAddonModule | undefined>;
  /** Undefined without an operator, without the right to read it, or if there are several. */
  readonly operator: () => Promise<IAddonOperator | undefined>;
  /** The ModuleSources of the operator's namespace, which is undefined if there is no operator. */
  readonly sources: () => Promise<{
    readonly namespace: string | undefined;
    readonly sources: readonly IModuleSource[];
  }>;
  /** Sets annotations of an object. */
  readonly annotate: (
    target: { readonly resource: ResourceType; readonly namespace: string; readonly name: string },
    annotations: Readonly<Record<string, string>>,
  ) => Promise<void>;
  /** Undefined without an operator, or without the right to read its Lease. */
  readonly lease: () => Promise<LeaseSpec | undefined>;
  readonly close: () => Promise<void>;
}

/** A reader for the operator in the given namespace, or for the only operator in the cluster. */
export function resourceReader({
  kubeConfig,
  kubeContext: context,
  namespace,
  configMap,
}: Pick<Settings, "kubeConfig" | "kubeContext" | "namespace" | "configMap">): Reader {
  const userAgent = `addon-operator/${VERSION}`;
  const client = connect({ kubeConfig, context, userAgent, logger: silentLogger, clock: systemClock });
  const withPlainErrors = async <T>(work: Promise<T>): Promise<T> => {
    try {
      return await work;
    } catch (error) {
      throw explainError(error, client);
    }
  };
  const operator = () => findOperator(client, namespace, configMap);
  let found: Promise<Operator> | undefined;
  let place = namespace;
  const operatorNamespace = async (): Promise<string | undefined> =>
    (place ??= (await operator())?.metadata.namespace);
  return {
    listAll: () => withPlainErrors(operator().then((found) => readAll(client, found, namespace))),
    module: (name) => withPlainErrors(operatorNamespace().then((found) => readModule(client, name, found))),
    operator: () => withPlainErrors(onlyIfReadable((found ??= operator()))),
    lease: () =>
      withPlainErrors(
        onlyIfReadable((found ??= operator())).then((operator) => operator && readLease(client, operator)),
      ),
    sources: () =>
      withPlainErrors(
        operatorNamespace().then(async (found) => ({
          namespace: found,
          sources:
            found === undefined
              ? []
              : await listAllPages<IModuleSource>(client, { resource: MODULE_SOURCES, namespace: found }),
        })),
      ),
    annotate: async (target, annotations) => {
      await withPlainErrors(mergePatch(client, target, { body: { metadata: { annotations } } }));
    },
    close: () => client.close(),
  };
}

/** Does work with a reader for the operator that a command line names, and closes the reader. */
export async function withReader<T>(
  line: Line,
  { env }: Pick<Terminal, "env">,
  work: (reader: Reader) => Promise<T>,
): Promise<T> {
  const { settings } = line.settings(env);
  const namespace = line.flags["n"] ?? settings.namespace;
  const reader = resourceReader({ ...settings, namespace: namespace === true ? undefined : namespace });
  try {
    return await work(reader);
  } finally {
    await reader.close();
  }
}

/** The only operator, or the one with the name. Undefined if there is none; UsageError if the choice is ambiguous. */
async function findOperator(
  client: KubeClient,
  wanted: string | undefined,
  name: string,
): Promise<IAddonOperator | undefined> {
  const operators = await listAllPages<IAddonOperator>(client, {
    resource: ADDON_OPERATORS,
    namespace: wanted,
  });
  const namespaces = [...new Set(operators.map(({ metadata }) => metadata.namespace ?? ""))].toSorted();
  if (namespaces.length > 1)
    throw new UsageError([`there are operators in ${namespaces.join(", ")}. Select one with -n NAMESPACE`]);
  if (operators.length <= 1) return operators[0];
  const names = operators.map(({ metadata }) => metadata.name).toSorted();
  const found = operators.find(({ metadata }) => metadata.name === name);
  if (found === undefined)
    throw new UsageError([
      `there are operators ${names.join(", ")} in ${namespaces[0]}. Select one with --config-map NAME`,
    ]);
  return found;
}

/** Lists objects page by page, and drops their large values at once. */
async function listAllPages<T>(client: KubeClient, spec: WatchSpec): Promise<T[]> {
  const read = async (unpaged: boolean): Promise<T[]> => {
    const found: T[] = [];
    const { signal } = new AbortController();
    await listObjects(spec, { client, clock: systemClock, signal, unpaged }, (object) => {
      const { values: _, ...status } = (object["status"] ?? {}) as object & { values?: unknown };
      found.push({ ...object, status } as T);
    });
    return found;
  };
  // 410: the continue token has expired, because the paged list took too long.
  const isExpired = (error: unknown): boolean => error instanceof ApiError && error.status === 410;
  return read(false).catch((error: unknown) => (isExpired(error) ? read(true) : Promise.reject(error)));
}

type Operator = IAddonOperator | undefined;

async function readAll(
  client: KubeClient,
  operator: Operator,
  wanted: string | undefined,
): Promise<Resources> {
  const namespace = wanted ?? operator?.metadata.namespace;
  const modules = await listAllPages<IAddonModule>(client, { resource: ADDON_MODULES, namespace });
  const lease = operator && (await readLease(client, operator));
  return { operator, lease, modules: modules.filter((each) => isOwnedBy(each, operator)) };
}

/** The operator that is looked for; undefined where the right to do so is missing, or there are several. */
function onlyIfReadable(looked: Promise<Operator>): Promise<Operator> {
  return looked.catch((error: unknown) =>
    isForbidden(error) || error instanceof UsageError ? undefined : Promise.reject(error),
  );
}

/** The Lease; undefined without the right to read it, and empty if it does not exist. */
async function readLease(client: KubeClient, { metadata }: IAddonOperator): Promise<LeaseSpec | undefined> {
  const { namespace, name } = metadata;
  try {
    const target = { resource: LEASES, namespace, name: leaseNameOf(name) };
    return (await get<LeaseObject>(client, target)).spec ?? {};
  } catch (error) {
    if (isForbidden(error)) return undefined;
    if (isNotFound(error)) return {};
    throw error;
  }
}

async function readModule(
  client: KubeClient,
  name: string,
  namespace: string | undefined,
): Promise<IAddonModule | undefined> {
  if (namespace === undefined) return undefined;
  return get<IAddonModule>(client, { resource: ADDON_MODULES, namespace, name }).catch(ignoreNotFound);
}

/** An object without an owner is new: its operator has not set the owner reference yet. */
function isOwnedBy({ metadata: { ownerReferences = [] } }: IAddonModule, operator: Operator): boolean {
  const owners = ownerReferences.filter(({ kind }) => kind === "AddonOperator");
  return owners.length === 0 || owners.some(({ uid }) => uid === operator?.metadata.uid);
}

/** Replaces an error of the API server by one that names the cluster and a remedy. */
function explainError(error: unknown, { credentialsInfo }: KubeClient): unknown {
  if (error instanceof UsageError) return error;
  const { file, server } = credentialsInfo;
  const problem = (message: string, remedy: string): Error =>
    new ProblemError({ file, key: `server ${server}`, message, remedy });
  if (isNotFound(error))
    return problem(
      "the CRDs of addon-operator.io are not installed",
      "check that kubeconfig and context select the right cluster",
    );
  if (isForbidden(error))
    return problem(
      oneLine(error),
      "grant list on addonoperators, and get and list on addonmodules (for `source` also list and patch on modulesources, and patch on addonmodules); or read one namespace with -n NAMESPACE",
    );
  const message = explainConnectionError(error, credentialsInfo);
  return message instanceof ProblemError ? message : problem(oneLine(error), "try again");
}
