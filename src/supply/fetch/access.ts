/** Reaches the registry of a source and its mirrors, with credentials that are read when they are used. */

import { get, ignoreNotFound, SECRETS, type KubeClient, type Secret } from "../../kube/index.ts";
import { oneLine, type Clock } from "../../lib/index.ts";
import { ProblemError } from "../../model/index.ts";
import {
  CannotVerifyError,
  findLogin,
  NotVerifiedError,
  RegistryClient,
  RegistryError,
  Repository,
  type Login,
} from "../../registry/index.ts";
import { NotStoredError, RefusedError } from "../disk/store.ts";
import type { SourceSpec } from "../types.ts";

export interface AccessOptions {
  readonly client: KubeClient;
  readonly namespace: string;
  readonly clock: Clock;
  /** Proxies, as the environment names them. */
  readonly env: Readonly<Record<string, string | undefined>>;
}

type Registry = SourceSpec["registry"];

/** A registry that is open. */
interface Opened {
  readonly client: RegistryClient;
  /** Path before the names of modules. */
  readonly path: string;
}

/** One source's registries during one check, mirrors first: opened with the first request. */
export class Access {
  readonly #options: AccessOptions;
  readonly #spec: SourceSpec;
  readonly #onAnswer: (code: string) => void;
  #registries: Promise<readonly Opened[]> | undefined;
  /** Registries that failed during this check. */
  readonly #failed = new Set<Opened>();

  constructor(options: AccessOptions, spec: SourceSpec, onAnswer: (code: string) => void) {
    this.#options = options;
    this.#spec = spec;
    this.#onAnswer = onAnswer;
  }

  /**
   * Asks for a module in the mirrors and then in the registry, until one has an answer. What fails is not asked again as
   * long as there is another one. Throws what all of them answer, ProblemError for a Secret that cannot be used, and
   * errors of the API.
   */
  async inTurn<T>(
    module: string,
    ask: (repository: Repository) => Promise<T | undefined>,
  ): Promise<T | undefined> {
    this.#registries ??= this.#open();
    const all = await this.#registries;
    const working = all.filter((each) => !this.#failed.has(each));
    const errors: Error[] = [];
    for (const each of working.length === 0 ? all : working) {
      try {
        const answer = await ask(new Repository(each.client, { name: `${each.path}/${module}` }));
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

  async close(): Promise<void> {
    // An error was thrown to whoever asked.
    const opened = await this.#registries?.catch(() => []);
    for (const { client } of opened ?? []) await client.close();
  }

  async #open(): Promise<readonly Opened[]> {
    const { registry, mirrors, plainHttp, ca } = this.#spec;
    const { clock, env } = this.#options;
    const config = await this.#dockerConfig();
    return [...mirrors, registry].map((each) => {
      // Each client has the credentials of its own host, and no others.
      const login = this.#loginOf(config, each);
      const options = { plainHttp, ca, proxies: env, clock, onAnswer: this.#onAnswer, login: () => login };
      return { client: new RegistryClient({ host: each.host, ...options }), path: each.name };
    });
  }

  /** The text of the source's Secret; undefined if it names none. */
  async #dockerConfig(): Promise<string | undefined> {
    const { secret: name } = this.#spec;
    if (name === undefined) return undefined;
    const { client, namespace } = this.#options;
    const secret = await get<Secret>(client, { resource: SECRETS, namespace, name }).catch(ignoreNotFound);
    const text = secret?.data?.[".dockerconfigjson"] ?? secret?.data?.[".dockercfg"];
    if (secret === undefined) throw this.#secretProblem("does not exist");
    if (text === undefined) throw this.#secretProblem("has no .dockerconfigjson");
    return Buffer.from(text, "base64").toString("utf8");
  }

  /** The credentials for a registry; undefined if there are none. */
  #loginOf(config: string | undefined, registry: Registry): Login | undefined {
    try {
      return config === undefined ? undefined : findLogin(config, registry);
    } catch {
      // The cause could quote the content.
      throw this.#secretProblem("has a .dockerconfigjson that cannot be read");
    }
  }

  #secretProblem(message: string): ProblemError {
    const { namespace } = this.#options;
    const { secret = "" } = this.#spec;
    const remedy = `create it with kubectl create secret docker-registry ${secret} -n ${namespace}`;
    return new ProblemError([{ file: `Secret ${secret}`, message, remedy }]);
  }
}

/** Answers after which another registry may know better. */
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
