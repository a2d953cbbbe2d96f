/** The sub-commands `source push`, `source tag` and `source pull`: modules as signed artifacts in a registry. */

import { existsSync, readdirSync } from "node:fs";
import { mkdir, readFile } from "node:fs/promises";
import { homedir } from "node:os";
import { basename, dirname, join, resolve } from "node:path";

import type { Environment, Settings } from "../../config/settings/index.ts";
import { isVersion, oneLine, parseYaml, plainLine } from "../../base/index.ts";
import { asString, objectOf, ProblemError } from "../../base/model/index.ts";
import { splitEntryName } from "../../modules/index.ts";
import * as registry from "../../sources/registry/index.ts";
import { lintDirs } from "./lint.ts";
import { readTextFile, type CommandResult } from "./shared.ts";

const MAX_ERROR_LENGTH = 2000;
const NAME_TWICE = "TARGET ends with the name of the module, which is appended to it";

/** How a registry is reached. */
interface RegistryAccess {
  /** A file with CA certificates in PEM. */
  readonly caFile?: string;
  readonly plainHttp?: boolean;
}

export interface PushRequest extends RegistryAccess {
  readonly dir: string;
  /** `oci://HOST/PATH`: the module is stored as the repository PATH/NAME. */
  readonly target: string;
  readonly version?: string;
  /** A file with a private key in PEM; undefined stores the module without signature. */
  readonly key?: string;
  /** A tag besides that of the version, such as a channel. */
  readonly tag?: string;
  /** A file that replaces the ConfigMap in the check of the chart. */
  readonly values?: string;
  /** The version of the API server for which the chart is checked. */
  readonly kubeVersion?: string;
}

/** Lints, packs, stores and signs a module. The exit code is 1 if lint finds errors. Throws ProblemError, RegistryError. */
export async function pushSource(
  request: PushRequest,
  settings: Settings,
  env: Environment,
): Promise<CommandResult> {
  const dir = resolve(request.dir);
  const { values, kubeVersion } = request;
  const linted = await lintDirs({ dirs: [dir], values, kubeVersion }, settings, env);
  if (linted.code !== 0)
    return { ...linted, text: `${linted.text}nothing is pushed: correct the errors first\n` };
  const identity = {
    name: splitEntryName(basename(dir), 0).name,
    version: requireValidVersion(dir, request.version ?? (await readChartVersion(dir))),
  };
  const { key: keyFile } = request;
  const password = env["COSIGN_PASSWORD"];
  const key =
    keyFile === undefined
      ? undefined
      : registry.readSigningKey(await readTextFile(keyFile), keyFile, password);
  const target = registry.parseReference(request.target);
  if (target.tag !== undefined || target.digest !== undefined) {
    const remedy = "remove it: the version of the module becomes the tag";
    throw new ProblemError({ file: request.target, message: "has a tag or digest", remedy });
  }
  const reference = { ...target, name: `${target.name}/${identity.name}` };
  const packed = await registry.packDirectory(dir);
  return withRepository(reference, { access: request, env }, async (repository) => {
    const { digest, isNew } = await registry.pushModule(repository, { identity, packed, key });
    if (request.tag !== undefined) {
      const pushedModule = { ...repository, reference: { ...reference, digest } };
      await registry.moveTag(pushedModule, requireValidTag(request.tag));
    }
    const address = registry.formatReference({ ...reference, tag: registry.versionToTag(identity.version) });
    const pushNote = key === undefined ? "pushed without a signature" : "pushed and signed";
    const size = `${packed.files} files, ${packed.layer.length} bytes`;
    // The user probably meant `oci://HOST/modules`, but wrote `oci://HOST/modules/NAME`.
    const isNameTwice = target.name.split("/").at(-1) === identity.name;
    const nameNote = isNameTwice ? `note: ${NAME_TWICE}\n` : "";
    const result = `${address}\n${digest} (${size}): ${isNew ? pushNote : "already there"}\n`;
    return { text: `${linted.text}${nameNote}${result}`, code: 0 };
  });
}

export interface TagRequest extends RegistryAccess {
  readonly reference: string;
  readonly tag: string;
}

/** Moves a tag, for example a channel, to a version. Signatures are of digests, so nothing is signed again. */
export async function tagSource(
  { reference: text, tag, ...access }: TagRequest,
  env: Environment,
): Promise<CommandResult> {
  const reference = parseVersionReference(text);
  return withRepository(reference, { access, env }, async (repository) => {
    const digest = await registry.moveTag(repository, requireValidTag(tag));
    return { text: `${tag} names ${digest}\n`, code: 0 };
  });
}

export interface PullRequest extends RegistryAccess {
  readonly reference: string;
  readonly dir: string;
  /** A file with public keys in PEM. Without it and `identity`, the user does without verification. */
  readonly key?: string;
  /** A file with an identity, for whose certificates `trustedRoot` counts. */
  readonly identity?: string;
  readonly trustedRoot?: string;
}

/** Verifies a module and unpacks it into a new or empty directory. Throws ProblemError, NotVerifiedError, RegistryError. */
export async function pullSource(
  { reference: text, dir, ...request }: PullRequest,
  env: Environment,
): Promise<CommandResult> {
  const reference = parseVersionReference(text);
  const target = resolve(dir);
  if (existsSync(target) && readdirSync(target).length > 0)
    throw new ProblemError({ file: target, message: "is not empty", remedy: "name a new directory" });
  const signers = await readSigners(request);
  await mkdir(dirname(target), { recursive: true });
  return withRepository(reference, { access: request, env }, async (namedRepository) => {
    const module = await registry.findModuleArtifact(namedRepository, signers);
    await registry.unpackModule(namedRepository.repository, module, target);
    const { name, version, digest, verified } = module;
    const signature =
      verified === undefined ? "not verified" : `signed by ${verified.signer.source} (${verified.form})`;
    return { text: `${name} ${plainLine(version)}: ${target}\n${digest}: ${signature}\n`, code: 0 };
  });
}

/** Reads the keys and identities whose signatures are accepted; undefined with `--unsigned`. Throws ProblemError. */
async function readSigners({
  key,
  identity,
  trustedRoot,
}: Omit<PullRequest, "reference" | "dir">): Promise<registry.Signer[] | undefined> {
  if (key === undefined && identity === undefined) return undefined;
  const root = trustedRoot
    ? registry.readTrustedRoot(await readTextFile(trustedRoot), trustedRoot)
    : undefined;
  const signers: registry.Signer[] = [];
  if (key !== undefined) signers.push(...registry.readPublicKeys(await readTextFile(key), key));
  // The trusted root names the authorities that may certify the identity.
  if (identity !== undefined)
    signers.push(registry.readIdentity(await readTextFile(identity), identity, root));
  return signers;
}

/** Calls `work` with a client for the repository, with TLS and login as the user has configured. Errors become ProblemErrors. */
async function withRepository<T>(
  reference: registry.Reference,
  { access, env }: { readonly access: RegistryAccess; readonly env: Environment },
  work: (repository: registry.NamedRepository) => Promise<T>,
): Promise<T> {
  const { caFile, plainHttp = false } = access;
  const ca = caFile === undefined ? undefined : await readCa(caFile);
  const login = await findLogin(reference, env);
  const options = { host: reference.host, plainHttp, ca, proxies: env, readLogin: () => login };
  const client = new registry.RegistryClient(options);
  try {
    return await work({ reference, repository: new registry.Repository(client, reference) });
  } catch (error) {
    if (!EXPECTED_ERRORS.some((type) => error instanceof type)) throw error;
    const message = plainLine(oneLine(error, MAX_ERROR_LENGTH), MAX_ERROR_LENGTH);
    throw new ProblemError({ file: registry.formatReference(reference), message });
  } finally {
    await client.close();
  }
}

/** Errors whose message a user understands; any other is a bug. */
const EXPECTED_ERRORS = [registry.RegistryError, registry.NotVerifiedError, registry.CannotVerifyError];

/** The files in which helm, docker and podman store logins of registries. */
function listLoginFiles(env: Environment): string[] {
  const home = env["HOME"] ?? homedir();
  const config = env["XDG_CONFIG_HOME"] ?? join(home, ".config");
  const helmHome = env["HELM_CONFIG_HOME"] ?? join(config, "helm");
  const helmFile = env["HELM_REGISTRY_CONFIG"] ?? join(helmHome, "registry", "config.json");
  const dockerFile = join(env["DOCKER_CONFIG"] ?? join(home, ".docker"), "config.json");
  return [helmFile, dockerFile, env["REGISTRY_AUTH_FILE"]].filter((file) => file !== undefined);
}

/** The first login for the registry in the login files; undefined without one. Throws ProblemError for an invalid file. */
async function findLogin(
  reference: registry.Reference,
  env: Environment,
): Promise<ReturnType<typeof registry.findLogin>> {
  for (const file of listLoginFiles(env)) {
    const text = await readFile(file, "utf8").catch(() => undefined);
    if (text === undefined) continue;
    try {
      const login = registry.findLogin(text, reference);
      if (login !== undefined) return login;
    } catch (error) {
      const remedy = "log in again with `helm registry login`";
      throw new ProblemError({ file, message: oneLine(error), remedy });
    }
  }
  return undefined;
}

/** Reads the file with the CA. Throws ProblemError for a file without certificates. */
async function readCa(file: string): Promise<string> {
  const text = await readTextFile(file);
  const message = registry.describeCaProblem(text);
  if (message === undefined) return text;
  throw new ProblemError({ file, message, remedy: "name a file with PEM certificates" });
}

/** Parses a reference, which must have a tag or a digest. Throws ProblemError. */
function parseVersionReference(text: string): registry.Reference {
  const reference = registry.parseReference(text);
  if (reference.tag !== undefined || reference.digest !== undefined) return reference;
  const remedy = "add a version, a channel or a digest, such as :1.4.2";
  throw new ProblemError({ file: text, message: "names no version", remedy });
}

function requireValidTag(text: string): string {
  if (registry.isTag(text)) return text;
  const remedy = 'use letters, digits, ".", "_" and "-"';
  throw new ProblemError({ file: text, message: "is no tag", remedy });
}

/** Reads the version in the module's Chart.yaml. Throws ProblemError if there is none. */
async function readChartVersion(dir: string): Promise<string> {
  const file = join(dir, "Chart.yaml");
  if (!existsSync(file)) {
    const remedy = "name the directory of one module, or set --version for a module without a chart";
    throw new ProblemError({ file: dir, message: "has no Chart.yaml", remedy });
  }
  const version = asString(objectOf(parseYaml(await readTextFile(file), file).value)["version"]);
  if (version !== undefined) return version;
  throw new ProblemError({ file: dir, message: "has no version in Chart.yaml", remedy: "set --version" });
}

/** Returns the version if it is a semantic version, which alone ModuleSources can find by a range. Throws ProblemError otherwise. */
function requireValidVersion(dir: string, version: string): string {
  if (isVersion(version) && registry.isTag(registry.versionToTag(version))) return version;
  const message = `"${version}" is no semantic version`;
  const remedy = "use one such as 1.4.2, in Chart.yaml or with --version";
  throw new ProblemError({ file: dir, message, remedy });
}
