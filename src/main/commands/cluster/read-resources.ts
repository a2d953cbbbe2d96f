/** Reads AddonOperator, AddonModules, ModuleSources and the operator's Lease from a cluster, for `kubectl addon` and `source`. */

import { SETTINGS, type Settings, UsageError, VERSION } from "../../../config/settings/index.ts";
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
} from "../../../kube/index.ts";
import type { KubeClient, LeaseObject, LeaseSpec, ResourceType, WatchSpec } from "../../../kube/index.ts";
import { oneLine, silentLogger, systemClock } from "../../../base/index.ts";
import { ProblemError } from "../../../base/model/index.ts";
import { ADDON_MODULES, ADDON_OPERATORS, findAwaitedModule, MODULE_SOURCES } from "../../../report/index.ts";
import type { IAddonModule, IAddonOperator, IModuleSource } from "../../../report/index.ts";
import type { CommandLine, Terminal } from "../table/row.ts";
import type { Resources } from "./from-resources.ts";

/** What selects a cluster and an operator: the one in the given namespace, the only one in the cluster, or that in the namespace of the context. */
type ReaderSettings = Pick<Settings, "kubeConfig" | "kubeContext" | "namespace" | "configMap">;

/**
 * Reads the resources of one operator from the cluster at each call. Errors of the API server become ProblemErrors that name
 * the cluster and a remedy. Calls throw UsageError if several operators match.
 */
export class Reader {
  readonly #client: KubeClient;
  readonly #settings: ReaderSettings;
  #namespace: string | undefined;
  /** One request for `operator` and `lease`, which commands call together. */
  #cachedOperator: Promise<MaybeOperator> | undefined;

  constructor(settings: ReaderSettings) {
    const { kubeConfig, kubeContext: context, namespace } = settings;
    const userAgent = `addon-operator/${VERSION}`;
    this.#client = connect({ kubeConfig, context, userAgent, logger: silentLogger, clock: systemClock });
    this.#settings = settings;
    this.#namespace = namespace;
  }

  /** The operator, its Lease and its AddonModules. */
  listAll(): Promise<Resources> {
    return this.#explainErrors(async () => {
      const operator = await this.#findOperator();
      const namespace = this.#settings.namespace ?? operator?.metadata.namespace;
      const modules = await listAllPages<IAddonModule>(this.#client, { resource: ADDON_MODULES, namespace });
      const lease = operator && (await readLease(this.#client, operator));
      const sources = operator && (await this.#listReadableSources(namespace));
      const isSelected = ({ uid }: { readonly uid: string }): boolean => uid === operator?.metadata.uid;
      return { operator, lease, modules: modules.filter((each) => hasOwner(each, isSelected)), sources };
    });
  }

  /** An AddonModule; undefined if it does not exist or the namespace is unknown. */
  module(name: string): Promise<IAddonModule | undefined> {
    return this.#explainErrors(async () => {
      const namespace = await this.#findNamespace();
      if (namespace === undefined) return undefined;
      return this.#getModule(namespace, name);
    });
  }

  /** An AddonModule and those for which it waits, which explain its state, as far as the user may read these. Empty if it does not exist. */
  moduleWithAwaited(name: string): Promise<ReadonlyMap<string, IAddonModule>> {
    return this.#explainErrors(async () => {
      const namespace = await this.#findNamespace();
      const modules = new Map<string, IAddonModule>();
      if (namespace === undefined) return modules;
      let next: string | undefined = name;
      while (next !== undefined && !modules.has(next)) {
        const isAwaited = modules.size > 0;
        const module: IAddonModule | undefined = await this.#getModule(namespace, next).catch(
          (error: unknown) => (isAwaited && isForbidden(error) ? undefined : Promise.reject(error)),
        );
        if (module === undefined) break;
        modules.set(next, module);
        next = findAwaitedModule(module);
      }
      return modules;
    });
  }

  /** Undefined without an operator, without the right to read it, or if there are several. */
  operator(): Promise<MaybeOperator> {
    return this.#explainErrors(() => this.#findReadableOperator());
  }

  /** The Lease of the operator, which shows whether it runs; empty if there is none. Undefined without an operator, or without the permission to read it. */
  lease(): Promise<LeaseSpec | undefined> {
    return this.#explainErrors(async () => {
      const operator = await this.#findReadableOperator();
      return operator && readLease(this.#client, operator);
    });
  }

  /** The ModuleSources of the operator's namespace, which is undefined if there is no operator. */
  sources(): Promise<{ namespace: string | undefined; sources: readonly IModuleSource[] }> {
    return this.#explainErrors(async () => {
      const namespace = await this.#findNamespace();
      if (namespace === undefined) return { namespace, sources: [] };
      return {
        namespace,
        sources: await listAllPages(this.#client, { resource: MODULE_SOURCES, namespace }),
      };
    });
  }

  /** Sets annotations of an object, by which users request or approve something. */
  async annotate(
    target: { readonly resource: ResourceType; readonly namespace: string; readonly name: string },
    annotations: Readonly<Record<string, string>>,
  ): Promise<void> {
    const body = { metadata: { annotations } };
    await this.#explainErrors(() => mergePatch(this.#client, target, { body }));
  }

  close(): Promise<void> {
    return this.#client.close();
  }

  /** The ModuleSources; undefined without the right to list them, or without their CRD. */
  #listReadableSources(namespace: string | undefined): Promise<IModuleSource[] | undefined> {
    const spec = { resource: MODULE_SOURCES, namespace };
    return listAllPages<IModuleSource>(this.#client, spec).catch((error: unknown) =>
      isForbidden(error) || isNotFound(error) ? undefined : Promise.reject(error),
    );
  }

  /** An AddonModule; undefined if it does not exist or belongs to another operator than the named one. */
  async #getModule(namespace: string, name: string): Promise<IAddonModule | undefined> {
    const target = { resource: ADDON_MODULES, namespace, name };
    const module = await get<IAddonModule>(this.#client, target).catch(ignoreNotFound);
    const { configMap } = this.#settings;
    if (module === undefined || configMap === DEFAULT_NAME) return module;
    return hasOwner(module, ({ name: owner }) => owner === configMap) ? module : undefined;
  }

  #findOperator(): Promise<MaybeOperator> {
    return findOperator(this.#client, this.#settings);
  }

  /** The operator, for callers that can do without it: undefined if the user may not list operators, or if there are several. */
  #findReadableOperator(): Promise<MaybeOperator> {
    this.#cachedOperator ??= this.#findOperator();
    return this.#cachedOperator.catch((error: unknown) =>
      isForbidden(error) || error instanceof UsageError ? undefined : Promise.reject(error),
    );
  }

  async #findNamespace(): Promise<string | undefined> {
    this.#namespace ??= (await this.#findOperator())?.metadata.namespace;
    return this.#namespace;
  }

  /** Runs `work`; its errors become errors that name the cluster and a remedy. */
  async #explainErrors<T>(work: () => Promise<T>): Promise<T> {
    try {
      return await work();
    } catch (error) {
      throw explainError(error, this.#client);
    }
  }
}

/** Calls `work` with a reader for the operator that the command line selects, and closes the reader. */
export async function withReader<T>(
  line: CommandLine,
  { env }: Pick<Terminal, "env">,
  work: (reader: Reader) => Promise<T>,
): Promise<T> {
  const { settings } = line.settings(env);
  // `-n`, as kubectl has it, takes precedence over the setting `--namespace`.
  const reader = new Reader({ ...settings, namespace: line.flags.n ?? settings.namespace });
  try {
    return await work(reader);
  } finally {
    await reader.close();
  }
}

/** Lists the names of AddonModules, of ModuleSources, or of modules whose update waits. */
export async function listCompletedNames(
  reader: Reader,
  kind: "addonmodule" | "source" | "update",
): Promise<readonly string[]> {
  if (kind === "addonmodule") return (await reader.listAll()).modules.map(({ metadata }) => metadata.name);
  const { sources } = await reader.sources();
  if (kind === "source") return sources.map(({ metadata }) => metadata.name);
  const modules = sources.flatMap(({ status }) => status?.modules ?? []);
  return modules.flatMap(({ name, next }) => (next === undefined ? [] : name));
}

/** The name that also stands for the only operator of a namespace, whatever that is called. */
const DEFAULT_NAME = SETTINGS.find(({ key }) => key === "configMap")?.default;

/**
 * Finds the operator with the name `configMap` in `namespace`, or in all namespaces if that is undefined. Undefined if there are no
 * operators; throws UsageError if several match, or none of those that exist.
 */
async function findOperator(
  client: KubeClient,
  { namespace, configMap: name }: Pick<ReaderSettings, "namespace" | "configMap">,
): Promise<IAddonOperator | undefined> {
  const found = await listAllPages<IAddonOperator>(client, { resource: ADDON_OPERATORS, namespace });
  const operators = selectNamespace(found, client.namespaceFromContext);
  const namespaces = listNamespaces(operators);
  if (namespaces.length > 1)
    throw new UsageError([`there are operators in ${namespaces.join(", ")}. Select one with -n NAMESPACE`]);
  const operatorWithName = operators.find(({ metadata }) => metadata.name === name);
  if (operatorWithName !== undefined || operators.length === 0) return operatorWithName;
  if (operators.length === 1 && name === DEFAULT_NAME) return operators[0];
  const names = operators.map(({ metadata }) => metadata.name).toSorted();
  const existing = names.length === 1 ? `is only operator ${names[0]}` : `are operators ${names.join(", ")}`;
  throw new UsageError([`there ${existing} in ${namespaces[0]}. Select one with --config-map NAME`]);
}

/** Of operators in several namespaces, those in the namespace of the context; all of them if there is none. */
function selectNamespace(
  operators: readonly IAddonOperator[],
  contextNamespace: string | undefined,
): readonly IAddonOperator[] {
  const inContext = operators.filter(({ metadata }) => metadata.namespace === contextNamespace);
  return inContext.length > 0 ? inContext : operators;
}

function listNamespaces(operators: readonly IAddonOperator[]): string[] {
  return [...new Set(operators.map(({ metadata }) => metadata.namespace ?? ""))].toSorted();
}

/** Lists all objects, page by page if possible. Drops `status.values` of each object at once, because the values are large. */
async function listAllPages<T>(client: KubeClient, spec: WatchSpec): Promise<T[]> {
  const listPages = async (unpaged: boolean): Promise<T[]> => {
    const objects: T[] = [];
    const { signal } = new AbortController();
    await listObjects(spec, { client, clock: systemClock, signal, unpaged }, (object) => {
      const { values: _, ...status } = (object["status"] ?? {}) as object & { values?: unknown };
      objects.push({ ...object, status } as T);
    });
    return objects;
  };
  try {
    return await listPages(false);
  } catch (error) {
    const hasListExpired = error instanceof ApiError && error.status === 410;
    if (!hasListExpired) throw error;
    // The continue token expired, because the pages took too long. A list in one page needs no token.
    return listPages(true);
  }
}

type MaybeOperator = IAddonOperator | undefined;

/** The Lease of the operator; undefined without the permission to read it, and empty (so that the operator counts as stopped) if it does not exist. */
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

/** Whether an AddonModule belongs to such an operator. One without an owner counts: it is new, and its owner reference is not set yet. */
function hasOwner(
  { metadata: { ownerReferences = [] } }: IAddonModule,
  isOperator: (owner: { readonly name: string; readonly uid: string }) => boolean,
): boolean {
  const owners = ownerReferences.filter(({ kind }) => kind === "AddonOperator");
  return owners.length === 0 || owners.some(isOperator);
}

/** Replaces an error of the API server by one that names the cluster and a remedy. Errors of the command line stay. */
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
