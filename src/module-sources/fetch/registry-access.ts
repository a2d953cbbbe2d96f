/** Reaches the registry of a source and its mirrors, with credentials that are read when they are used. */

import { get, ignoreNotFound, SECRETS, type KubeClient, type Secret } from "../../kube/index.ts";
import { oneLine, type Clock, type Memo } from "../../lib/index.ts";
import { ProblemError } from "../../model/index.ts";
import {
  CannotVerifyError,
  ChartRepository,
  fetchIndex,
  findLogin,
  isRepository,
  NoAnswerError,
  NotVerifiedError,
  RegistryClient,
  RegistryError,
  Repository,
  type KnownIndex,
  type Login,
} from "../../registry/index.ts";
import { NotStoredError, RefusedError } from "../disk/content.ts";
import type { SourceSpec } from "../types.ts";

export interface AccessOptions {
  readonly client: KubeClient;
  readonly namespace: string;
  readonly clock: Clock;
  /** Proxies, as the environment names them. */
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Indexes of chart repositories that were read before, by repository and charts. */
  readonly indexes?: Memo<{ known: KnownIndex | undefined }>;
}

type Registry = SourceSpec["registry"];

/** A registry or a chart repository that is open. */
interface Opened {
  readonly client: RegistryClient;
  /** Path before the names of modules. */
  readonly path: string;
  /** What the last calls got, all of which got no answer. */
  readonly silent: NoAnswerError[];
}

/** A registry that leaves so many modules without an answer is not asked for others: each may wait for half a minute. */
const MOST_SILENT = 3;

/** The mirrors of a source in their order, and the place that they are mirrors of. */
interface Places {
  readonly mirrors: readonly Opened[];
  readonly own: Opened;
}

/** One source's registries, mirrors first, or its chart repository, during one check: opened with the first request. */
export class Access {
  readonly #options: AccessOptions;
  readonly #spec: SourceSpec;
  readonly #onAnswer: (code: string) => void;
  #places: Promise<Places> | undefined;
  /** Registries that failed during this check. */
  readonly #failed = new Set<Opened>();
  #index: Promise<KnownIndex> | undefined;

  constructor(options: AccessOptions, spec: SourceSpec, onAnswer: (code: string) => void) {
    this.#options = options;
    this.#spec = spec;
    this.#onAnswer = onAnswer;
  }

  /**
   * Requests a module or a chart from the mirrors and then from the registry, until one answers. One that fails is not used
   * again as long as there is another one. Throws what all of them answer, ProblemError for a Secret that cannot be used,
   * and errors of the API.
   */
  async inTurn<T>(
    name: string,
    ask: (repository: Repository) => Promise<T | undefined>,
  ): Promise<T | undefined> {
    const { mirrors, own } = await this.#opened();
    const all = [...mirrors, own];
    const working = all.filter((each) => !this.#failed.has(each));
    const errors: Error[] = [];
    for (const each of working.length === 0 ? all : working) {
      try {
        const answer = await askOne(each, name, ask);
        if (answer !== undefined) return answer;
      } catch (error) {
        if (!isAnswer(error)) throw error;
        if (error instanceof RegistryError && error.status !== 404) this.#failed.add(each);
        errors.push(error);
      }
    }
    if (errors.length > 0) throw errorOf(errors);
    return undefined;
  }

  /** A chart of the source's chart repository, which has no mirrors. Throws as `inTurn`. */
  async chart(name: string): Promise<ChartRepository> {
    const base = new URL(`${this.#spec.charts}/`);
    const versions = async (): Promise<KnownIndex["versions"]> =>
      (await (this.#index ??= this.#readIndex(base))).versions;
    const { own } = await this.#opened();
    return new ChartRepository(own.client, name, { base, versions });
  }

  /** Lists the versions of a module: in turn, or in the source's chart repository. Throws as `inTurn`. */
  async offers<T>(
    module: string,
    ask: (offers: Pick<Repository, "tags" | "digestOfTag">) => Promise<T | undefined>,
  ): Promise<T | undefined> {
    const { charts, modules } = this.#spec;
    const name = charts === undefined ? module : (modules.get(module)?.chart ?? module);
    return charts !== undefined && isRepository(charts)
      ? ask(await this.chart(name))
      : this.inTurn(name, ask);
  }

  async close(): Promise<void> {
    // The caller of `inTurn` got the error.
    const places = await this.#places?.catch(() => undefined);
    if (places !== undefined) for (const { client } of [...places.mirrors, places.own]) await client.close();
  }

  #opened(): Promise<Places> {
    return (this.#places ??= this.#open());
  }

  /** Reads the index once for all charts of the source, and not at all if it is as it was at the last check. */
  async #readIndex(base: URL): Promise<KnownIndex> {
    const charts = [...this.#spec.modules].map(([name, { chart = name }]) => chart).sort();
    const memory = this.#options.indexes?.get(`${base.href} ${charts.join()}`, () => ({ known: undefined }));
    const { own } = await this.#opened();
    const index = await fetchIndex(own.client, { base, charts }, memory?.known);
    if (memory !== undefined) memory.known = index;
    return index;
  }

  async #open(): Promise<Places> {
    const { registry, mirrors, plainHttp: isPlain, ca, charts = "oci:" } = this.#spec;
    const { clock, env } = this.#options;
    const secret = await this.#secretData();
    const isBasic = isRepository(charts);
    const plainHttp = isBasic ? charts.startsWith("http:") : isPlain;
    const open = (each: Registry): Opened => {
      // Each client has the credentials of its own host, and no others.
      const login = this.#loginOf(secret, each);
      const options = { plainHttp, isBasic, ca, proxies: env, clock, onAnswer: this.#onAnswer };
      const client = new RegistryClient({ host: each.host, ...options, login: () => login });
      return { client, path: each.name, silent: [] };
    };
    return { mirrors: mirrors.map(open), own: open(registry) };
  }

  /** The content of the source's Secret; undefined if it names none. */
  async #secretData(): Promise<Secret["data"]> {
    const { secret: name } = this.#spec;
    if (name === undefined) return undefined;
    const { client, namespace } = this.#options;
    const secret = await get<Secret>(client, { resource: SECRETS, namespace, name }).catch(ignoreNotFound);
    if (secret === undefined) throw this.#secretProblem("does not exist");
    return secret.data ?? {};
  }

  /** The credentials for a registry; undefined if there are none. */
  #loginOf(data: Secret["data"], registry: Registry): Login | undefined {
    if (data === undefined) return undefined;
    const { username, password = "" } = data;
    // A user without a host is one of the source's own place, not of its mirrors.
    if (username !== undefined)
      return registry === this.#spec.registry
        ? { username: decoded(username), password: decoded(password) }
        : undefined;
    const text = data[".dockerconfigjson"] ?? data[".dockercfg"];
    if (text === undefined) throw this.#secretProblem("has neither .dockerconfigjson nor username");
    try {
      return findLogin(decoded(text), registry);
    } catch {
      // The cause could quote the content.
      throw this.#secretProblem("has a .dockerconfigjson that cannot be read");
    }
  }

  #secretProblem(message: string): ProblemError {
    const { namespace } = this.#options;
    const { secret = "" } = this.#spec;
    const remedy = `create it with kubectl create secret docker-registry ${secret} -n ${namespace}`;
    return new ProblemError({ file: `Secret ${secret}`, message, remedy });
  }
}

/** Asks one registry, unless it was silent too often. */
async function askOne<T>(
  { client, path, silent }: Opened,
  name: string,
  ask: (repository: Repository) => Promise<T>,
): Promise<T> {
  const [first] = silent;
  if (first !== undefined && silent.length >= MOST_SILENT) throw first;
  try {
    const answer = await ask(new Repository(client, { name: `${path}/${name}` }));
    silent.length = 0;
    return answer;
  } catch (error) {
    if (error instanceof NoAnswerError) silent.push(error);
    else silent.length = 0;
    throw error;
  }
}

/** Answers after which the next registry is tried. */
function isAnswer(error: unknown): error is Error {
  return (
    isFinal(error) || [RegistryError, CannotVerifyError, NotStoredError].some((type) => error instanceof type)
  );
}

/** Answers that the same content has always. */
function isFinal(error: unknown): boolean {
  return error instanceof NotVerifiedError || error instanceof RefusedError;
}

/** One error for those of all registries: it is final only if each of them is. */
function errorOf(errors: readonly Error[]): Error {
  const [first] = errors;
  if (first !== undefined && errors.length === 1) return first;
  const text = errors.map((error) => oneLine(error, 1000)).join("; ");
  return errors.every(isFinal) ? new NotVerifiedError(text) : new RegistryError(text);
}

function decoded(text: string): string {
  return Buffer.from(text, "base64").toString("utf8");
}
