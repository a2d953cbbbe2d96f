/** Reaches the registry of a source and its mirrors, with credentials that are read when they are used. */

import { get, ignoreNotFound, SECRETS, type KubeClient, type Secret } from "../../kube/index.ts";
import { oneLine, type Clock, type Memo } from "../../base/index.ts";
import {
  CannotVerifyError,
  ChartRepository,
  fetchIndex,
  isChartRepository,
  NoAnswerError,
  NotVerifiedError,
  RegistryClient,
  RegistryError,
  type RegistryPauses,
  Repository,
  type KnownIndex,
} from "../registry/index.ts";
import { NotStoredError } from "../disk/content.ts";
import type { SourceSpec } from "../types.ts";
import { findSecretLogin, toMissingSecretError } from "./credentials.ts";

export interface AccessOptions {
  readonly client: KubeClient;
  readonly namespace: string;
  readonly clock: Clock;
  /** Proxies, as the environment names them. */
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Indexes of chart repositories that were read before, by repository and charts. */
  readonly indexes?: Memo<{ known: KnownIndex | undefined }>;
  /** Pauses that registries have asked for. */
  readonly pauses?: RegistryPauses;
  /** Longest time of a request to a registry; tests shorten it. */
  readonly registryTimeoutMs?: number | undefined;
}

type Registry = SourceSpec["registry"];

/** A registry or a chart repository that is open. */
interface OpenRegistry {
  readonly client: RegistryClient;
  /** Path before the names of modules. */
  readonly path: string;
  /** Errors of the last requests in a row that got no answer. */
  readonly unansweredErrors: NoAnswerError[];
}

/**
 * After so many requests in a row without an answer, a registry gets no more requests in this check: each may wait for
 * half a minute.
 */
const MAX_UNANSWERED = 3;

/** One source's registries, mirrors first, or its chart repository, during one check: opened with the first request. */
export class RegistryAccess {
  readonly #options: AccessOptions;
  readonly #spec: SourceSpec;
  readonly #onAnswer: (code: string) => void;
  /** The mirrors in their order; the last one is the registry that they mirror. */
  #registries: Promise<readonly OpenRegistry[]> | undefined;
  /** Registries that failed during this check. */
  readonly #failed = new Set<OpenRegistry>();
  #index: Promise<KnownIndex> | undefined;

  /** `onAnswer` gets the HTTP status of each answer, and `error` if there is none. */
  constructor(options: AccessOptions, spec: SourceSpec, onAnswer: (code: string) => void) {
    this.#options = options;
    this.#spec = spec;
    this.#onAnswer = onAnswer;
  }

  /**
   * Requests a module or a chart from the mirrors and then from the registry, until one answers with it; undefined: none has
   * it. One that fails is not used again as long as there is another one; the first `skipped` ones are not used. Throws the
   * combined errors of all of them, ProblemError for a Secret that cannot be used, and errors of the API.
   */
  async requestFromAny<T>(
    name: string,
    request: (repository: Repository) => Promise<T | undefined>,
    skipped = 0,
  ): Promise<T | undefined> {
    const all = (await this.#openOnce()).slice(skipped);
    const working = all.filter((each) => !this.#failed.has(each));
    const errors: Error[] = [];
    for (const each of working.length === 0 ? all : working) {
      try {
        const answer = await requestFromOne(each, name, request);
        if (answer !== undefined) return answer;
      } catch (error) {
        if (!allowsNextRegistry(error)) throw error;
        // With 404 or a bad signature the registry works, and only this request failed.
        if (error instanceof RegistryError && error.status !== 404) this.#failed.add(each);
        errors.push(error);
      }
    }
    if (errors.length > 0) throw combineErrors(errors);
    return undefined;
  }

  /** Opens a chart of the source's chart repository, which has no mirrors. Throws as `requestFromAny`. */
  async openChart(name: string): Promise<ChartRepository> {
    const base = new URL(`${this.#spec.charts}/`);
    // Without mirrors, the first one is the chart repository.
    const [{ client }] = (await this.#openOnce()) as [OpenRegistry];
    const readVersions = async (): Promise<KnownIndex["versions"]> =>
      (await (this.#index ??= this.#readIndex(client, base))).versions;
    return new ChartRepository(client, name, { base, readVersions });
  }

  /** How many mirrors the registry has. */
  get mirrorCount(): number {
    return this.#spec.mirrors.length;
  }

  /**
   * Requests versions or the tag of a module from mirrors and registry, or the chart repository. The first `skipped` mirrors
   * are not asked. Throws as `requestFromAny`.
   */
  async queryVersions<T>(
    module: string,
    ask: (offers: Pick<Repository, "listTags" | "resolveTag">) => Promise<T | undefined>,
    skipped = 0,
  ): Promise<T | undefined> {
    const { charts, modules } = this.#spec;
    const name = charts === undefined ? module : (modules.get(module)?.chart ?? module);
    return charts !== undefined && isChartRepository(charts)
      ? ask(await this.openChart(name))
      : this.requestFromAny(name, ask, skipped);
  }

  async close(): Promise<void> {
    // If the registries could not be opened, `requestFromAny` has thrown why.
    const registries = await this.#registries?.catch(() => []);
    for (const { client } of registries ?? []) await client.close();
  }

  /** Opens the registries with the first request: a check without requests reads no Secret. */
  #openOnce(): Promise<readonly OpenRegistry[]> {
    return (this.#registries ??= this.#openRegistries());
  }

  /**
   * Reads the index of the chart repository for all charts of the source. If it has not changed since the last check, the
   * index of that check is used (`known`).
   */
  async #readIndex(client: RegistryClient, base: URL): Promise<KnownIndex> {
    const charts = [...this.#spec.modules].map(([name, { chart = name }]) => chart).sort();
    const key = `${base.href} ${charts.join()}`;
    const lastCheck = this.#options.indexes?.getOrMake(key, () => ({ known: undefined }));
    const index = await fetchIndex(client, { base, charts }, lastCheck?.known);
    if (lastCheck !== undefined) lastCheck.known = index;
    return index;
  }

  /** Creates the clients of mirrors and registry, or of the chart repository, with their credentials. */
  async #openRegistries(): Promise<readonly OpenRegistry[]> {
    const { registry, mirrors, plainHttp, ca, charts } = this.#spec;
    const { clock, env: proxies, pauses, registryTimeoutMs: timeoutMs } = this.#options;
    const secret = await this.#readSecret();
    // A chart repository has no token server, and its URL says whether it uses TLS.
    const chartRepository = charts !== undefined && isChartRepository(charts) ? charts : undefined;
    const options = {
      plainHttp: chartRepository?.startsWith("http:") ?? plainHttp,
      usesBasicAuth: chartRepository !== undefined,
      ca,
      proxies,
      clock,
      pauses,
      timeoutMs,
      onAnswer: this.#onAnswer,
    };
    const open = (each: Registry): OpenRegistry => {
      // Each client has the credentials of its own host, and no others.
      const login = secret && findSecretLogin(secret, each);
      const client = new RegistryClient({ host: each.host, ...options, readLogin: () => login });
      return { client, path: each.name, unansweredErrors: [] };
    };
    return [...mirrors.map(open), open(registry)];
  }

  /** Reads the source's Secret; undefined if it names none. Throws ProblemError if the Secret does not exist. */
  async #readSecret(): Promise<Secret | undefined> {
    const { secret: name } = this.#spec;
    if (name === undefined) return undefined;
    const { client, namespace } = this.#options;
    const secret = await get<Secret>(client, { resource: SECRETS, namespace, name }).catch(ignoreNotFound);
    if (secret === undefined) throw toMissingSecretError(name, namespace);
    return secret;
  }
}

/** Sends a request to one registry. Throws its first error at once if it left too many requests unanswered. */
async function requestFromOne<T>(
  { client, path, unansweredErrors }: OpenRegistry,
  name: string,
  request: (repository: Repository) => Promise<T>,
): Promise<T> {
  const [first] = unansweredErrors;
  if (first !== undefined && unansweredErrors.length >= MAX_UNANSWERED) throw first;
  try {
    const answer = await request(new Repository(client, { name: `${path}/${name}` }));
    unansweredErrors.length = 0;
    return answer;
  } catch (error) {
    if (error instanceof NoAnswerError) unansweredErrors.push(error);
    else unansweredErrors.length = 0;
    throw error;
  }
}

/** Whether the next registry is tried after this error of a registry or its content. Other errors are our own: API, disk. */
export function allowsNextRegistry(error: unknown): error is Error {
  const types = [NotVerifiedError, RegistryError, CannotVerifyError, NotStoredError];
  return types.some((type) => error instanceof type);
}

/**
 * Combines the errors of all registries into one. It is a NotVerifiedError, after which the content is not requested again,
 * only if the content of each was refused.
 */
function combineErrors(errors: readonly Error[]): Error {
  const [first] = errors;
  if (first !== undefined && errors.length === 1) return first;
  const text = errors.map((error) => oneLine(error, 1000)).join("; ");
  const isRefused = errors.every((error) => error instanceof NotVerifiedError);
  return isRefused ? new NotVerifiedError(text) : new RegistryError(text);
}
