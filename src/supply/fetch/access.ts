/** Reaches the registry of a source, with credentials that are read when they are used. */

import { get, ignoreNotFound, SECRETS, type KubeClient, type Secret } from "../../kube/index.ts";
import type { Clock } from "../../lib/index.ts";
import { ProblemError } from "../../model/index.ts";
import { findLogin, RegistryClient, Repository, type Login } from "../../registry/index.ts";
import type { SourceSpec } from "../types.ts";

export interface AccessOptions {
  readonly client: KubeClient;
  readonly namespace: string;
  readonly clock: Clock;
  /** Proxies, as the environment names them. */
  readonly env: Readonly<Record<string, string | undefined>>;
}

/** One source's registry during one check: opened with the first request. */
export class Access {
  readonly #options: AccessOptions;
  readonly #spec: SourceSpec;
  readonly #onAnswer: (code: string) => void;
  #registry: Promise<RegistryClient> | undefined;

  constructor(options: AccessOptions, spec: SourceSpec, onAnswer: (code: string) => void) {
    this.#options = options;
    this.#spec = spec;
    this.#onAnswer = onAnswer;
  }

  /** The repository of a module. Throws ProblemError for a Secret that cannot be used, and errors of the API. */
  async repository(module: string): Promise<Repository> {
    const { registry } = this.#spec;
    this.#registry ??= this.#open();
    return new Repository(await this.#registry, { name: `${registry.name}/${module}` });
  }

  async close(): Promise<void> {
    // An error was thrown to whoever asked for the repository.
    await this.#registry?.then(
      (registry) => registry.close(),
      () => undefined,
    );
  }

  async #open(): Promise<RegistryClient> {
    const { registry, plainHttp, ca } = this.#spec;
    const { clock, env } = this.#options;
    const login = await this.#login();
    return new RegistryClient({
      host: registry.host,
      plainHttp,
      ca,
      proxies: env,
      clock,
      onAnswer: this.#onAnswer,
      login: () => login,
    });
  }

  /** The credentials in the source's Secret; undefined if it names none, or if the Secret has none for this registry. */
  async #login(): Promise<Login | undefined> {
    const { secret: name, registry } = this.#spec;
    if (name === undefined) return undefined;
    const { client, namespace } = this.#options;
    const secret = await get<Secret>(client, { resource: SECRETS, namespace, name }).catch(ignoreNotFound);
    const text = secret?.data?.[".dockerconfigjson"] ?? secret?.data?.[".dockercfg"];
    const remedy = `create it with kubectl create secret docker-registry ${name} -n ${namespace}`;
    const problem = (message: string): ProblemError =>
      new ProblemError([{ file: `Secret ${name}`, message, remedy }]);
    if (secret === undefined) throw problem("does not exist");
    if (text === undefined) throw problem("has no .dockerconfigjson");
    try {
      return findLogin(Buffer.from(text, "base64").toString("utf8"), registry);
    } catch {
      // The cause could quote the content.
      throw problem("has a .dockerconfigjson that cannot be read");
    }
  }
}
