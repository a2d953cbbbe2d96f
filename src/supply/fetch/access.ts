/** Reaches the registry of a source, with credentials that are read when they are used. */

import { get, ignoreNotFound, SECRETS, type KubeClient, type Secret } from "../../kube/index.ts";
import type { Clock, Memo } from "../../lib/index.ts";
import { ProblemError } from "../../model/index.ts";
import {
  ChartRepository,
  fetchIndex,
  findLogin,
  isRepository,
  RegistryClient,
  Repository,
  type KnownIndex,
  type Login,
} from "../../registry/index.ts";
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

/** One source's registry or chart repository during one check: opened with the first request. */
export class Access {
  readonly #options: AccessOptions;
  readonly #spec: SourceSpec;
  readonly #onAnswer: (code: string) => void;
  #registry: Promise<RegistryClient> | undefined;
  #index: Promise<KnownIndex> | undefined;

  constructor(options: AccessOptions, spec: SourceSpec, onAnswer: (code: string) => void) {
    this.#options = options;
    this.#spec = spec;
    this.#onAnswer = onAnswer;
  }

  /** The repository of a module or a chart. Throws ProblemError for a Secret that cannot be used, and errors of the API. */
  async repository(name: string): Promise<Repository> {
    const { registry } = this.#spec;
    return new Repository(await this.#client(), { name: `${registry.name}/${name}` });
  }

  /** A chart of the source's chart repository. Throws as `repository`. */
  async chart(name: string): Promise<ChartRepository> {
    const base = new URL(`${this.#spec.charts}/`);
    const versions = async (): Promise<KnownIndex["versions"]> =>
      (await (this.#index ??= this.#readIndex(base))).versions;
    return new ChartRepository(await this.#client(), name, { base, versions });
  }

  /** What has the versions of a module: its repository, or the source's chart repository. Throws as `repository`. */
  offers(name: string): Promise<Pick<Repository, "name" | "tags" | "digestOfTag">> {
    const { charts, modules } = this.#spec;
    const chart = modules.get(name)?.chart ?? name;
    return charts !== undefined && isRepository(charts) ? this.chart(chart) : this.repository(chart);
  }

  async close(): Promise<void> {
    // An error was thrown to whoever asked for the repository.
    await this.#registry?.then(
      (registry) => registry.close(),
      () => undefined,
    );
  }

  #client(): Promise<RegistryClient> {
    return (this.#registry ??= this.#open());
  }

  /** Reads the index once for all charts of the source, and not at all if it is as it was at the last check. */
  async #readIndex(base: URL): Promise<KnownIndex> {
    const charts = [...this.#spec.modules].map(([name, { chart = name }]) => chart).sort();
    const memory = this.#options.indexes?.get(`${base.href} ${charts.join()}`, () => ({ known: undefined }));
    const index = await fetchIndex(await this.#client(), { base, charts }, memory?.known);
    if (memory !== undefined) memory.known = index;
    return index;
  }

  async #open(): Promise<RegistryClient> {
    const { registry, plainHttp: isPlain, ca, charts = "oci:" } = this.#spec;
    const { clock, env } = this.#options;
    const login = await this.#login();
    return new RegistryClient({
      host: registry.host,
      plainHttp: isRepository(charts) ? charts.startsWith("http:") : isPlain,
      isBasic: isRepository(charts),
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
    const found = secret === undefined ? "does not exist" : loginIn(secret, registry);
    if (typeof found !== "string") return found;
    const remedy = `create it with kubectl create secret docker-registry ${name} -n ${namespace}`;
    throw new ProblemError([{ file: `Secret ${name}`, message: found, remedy }]);
  }
}

/** The credentials in a Secret, or what is wrong with it. */
function loginIn({ data = {} }: Secret, registry: SourceSpec["registry"]): Login | string | undefined {
  const { username, password = "" } = data;
  if (username !== undefined) return { username: decoded(username), password: decoded(password) };
  const text = data[".dockerconfigjson"] ?? data[".dockercfg"];
  if (text === undefined) return "has neither .dockerconfigjson nor username";
  try {
    return findLogin(decoded(text), registry);
  } catch {
    // The cause could quote the content.
    return "has a .dockerconfigjson that cannot be read";
  }
}

function decoded(text: string): string {
  return Buffer.from(text, "base64").toString("utf8");
}
