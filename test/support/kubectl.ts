import { eventually } from "../../scripts/eventually.mjs";
import { canonicalJson } from "../../src/base/hash.ts";
import type { Json } from "../../src/base/model/index.ts";
import { NOT_SERVED, refusal, Unreachable } from "./api.ts";
import type { Answer, Api } from "./api.ts";

interface Read {
  readonly apiVersion?: string;
  readonly kind?: string;
  readonly metadata?: {
    readonly name?: string;
    readonly uid?: string;
    readonly labels?: Readonly<Record<string, string>>;
    readonly annotations?: Readonly<Record<string, string>>;
    managedFields?: unknown;
  };
  readonly items?: readonly Read[];
}

type Command = (api: Api, requested: PageRequest) => Promise<string | undefined>;

/** A command line taken apart. */
interface PageRequest {
  readonly line: string;
  readonly words: readonly string[];
  readonly flags: ReadonlyMap<string, string>;
  readonly literals: readonly string[];
  readonly namespace: string | undefined;
}

const COMMANDS: Readonly<Record<string, { readonly flags: readonly string[]; readonly run: Command }>> = {
  get: {
    flags: ["-A", "-l", "-o", "--field-selector", "--ignore-not-found", "--show-managed-fields"],
    run: get,
  },
  create: { flags: ["--from-literal"], run: create },
  patch: { flags: ["--type", "-p", "--subresource", "--field-manager"], run: patch },
  label: { flags: ["--overwrite"], run: (api, requested) => mark(api, requested, "labels") },
  annotate: { flags: ["--overwrite"], run: (api, requested) => mark(api, requested, "annotations") },
  delete: { flags: ["--ignore-not-found", "--wait"], run: remove },
};

/** Flags that stand alone. */
const BARE = ["-A", "--ignore-not-found", "--show-managed-fields", "--overwrite"];

/**
 * What kubectl would print, for the commonest commands of the suite, without its process; undefined where only kubectl knows,
 * also why something fails.
 */
export async function withoutKubectl(api: Api, args: readonly string[]): Promise<string | undefined> {
  const command = COMMANDS[args[0] ?? ""];
  const requested = command && parse(args, [...command.flags, "-n"]);
  try {
    return requested && (await command.run(api, requested));
  } catch (error) {
    if (error instanceof Unreachable) return undefined;
    throw error;
  }
}

function parse([verb = "", ...args]: readonly string[], known: readonly string[]): PageRequest | undefined {
  const words: string[] = [];
  const literals: string[] = [];
  const flags = new Map<string, string>();
  for (let index = 0; index < args.length; index++) {
    const arg = args[index] ?? "";
    if (!arg.startsWith("-")) {
      words.push(arg);
      continue;
    }
    const [flag = "", ...rest] = arg.split("=");
    if (!known.includes(flag)) return undefined;
    const value = BARE.includes(flag) || rest.length > 0 ? rest.join("=") : (args[++index] ?? "");
    if (flag === "--from-literal") literals.push(value);
    else flags.set(flag, value);
  }
  const namespace = flags.get("-n") ?? (flags.has("-A") ? undefined : "default");
  return { line: [verb, ...args].join(" "), words, flags, literals, namespace };
}

/** `KIND NAME…` or `KIND/NAME…` as kind and names; undefined for what neither of them is. */
function objectsOf(words: readonly string[]): { kind: string; names: readonly string[] } | undefined {
  if (!words.every((word) => /^[a-z0-9][\w./-]*$/i.test(word))) return undefined;
  const [first = "", ...others] = words;
  if (!first.includes("/")) return { kind: first.toLowerCase(), names: others };
  const pairs = words.map((word) => word.split("/"));
  const kind = pairs[0]?.[0] ?? "";
  const isOne = pairs.every((pair) => pair.length === 2 && pair[0] === kind);
  return isOne ? { kind: kind.toLowerCase(), names: pairs.map(([, name = ""]) => name) } : undefined;
}

/** The paths of the objects that a command names. */
async function pathsOf(api: Api, { words, namespace }: PageRequest): Promise<string[] | undefined> {
  const objects = objectsOf(words);
  if (objects === undefined || objects.names.length === 0) return undefined;
  const paths = await Promise.all(objects.names.map((name) => api.path(objects.kind, namespace, name)));
  return paths.every((path) => path !== undefined) ? paths : undefined;
}

async function get(api: Api, requested: PageRequest): Promise<string | undefined> {
  const { words, flags, namespace, line } = requested;
  const output = flags.get("-o") ?? "";
  const objects = objectsOf(words);
  if (objects === undefined || objects.names.length > 1) return undefined;
  if (output !== "json" && output !== "name" && stepsOf(output) === undefined) return undefined;
  const path = await api.path(objects.kind, namespace, objects.names[0]);
  if (path === undefined) return undefined;
  const selectors = {
    labelSelector: flags.get("-l") ?? "",
    fieldSelector: flags.get("--field-selector") ?? "",
  };
  const { status, body } = await api.request("GET", `${path}?${new URLSearchParams(selectors).toString()}`);
  if (body === NOT_SERVED) return undefined;
  if (status === 404 && flags.has("--ignore-not-found")) return "";
  if (status >= 300) throw refusal(`kubectl ${line}`, body);
  return displayed(body as Read, requested);
}

function displayed(read: Read, { flags }: PageRequest): string | undefined {
  const output = flags.get("-o") ?? "";
  const { kind = "", apiVersion = "" } = read;
  // What is listed says of itself neither.
  const listed = read.items?.map((each) => ({ apiVersion, kind: kind.replace(/List$/, ""), ...each }));
  const items = listed ?? [read];
  if (output === "name") return items.map((each) => `${nameOf(each)}\n`).join("");
  if (!flags.has("--show-managed-fields")) for (const each of items) delete each.metadata?.managedFields;
  if (output === "json") return JSON.stringify(listed === undefined ? read : { ...read, items: listed });
  const found = valuesAt(read, stepsOf(output) ?? []);
  return found.map((value) => (typeof value === "string" ? value : goJson(value as Json))).join(" ");
}

/** As Go writes it: safe in a page. */
const goJson = (value: Json): string =>
  canonicalJson(value).replaceAll(
    /[<>&\u2028\u2029]/g,
    (unsafe) => `\\u${unsafe.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );

/** `deployment.apps/web` */
function nameOf({ metadata, kind = "", apiVersion = "" }: Read): string {
  const [group, version] = apiVersion.split("/");
  return `${kind.toLowerCase()}${version === undefined ? "" : `.${group}`}/${metadata?.name}`;
}

/** The steps of `jsonpath={.a.b\\.c[0].d}`; undefined for anything with more in it. */
function stepsOf(output: string): string[] | undefined {
  const inside = /^jsonpath=\{((?:\.(?:[\w/-]|\\\.)+|\[(?:\d+|\*)\])+)\}$/.exec(output)?.[1];
  const steps = inside?.match(/\[(?:\d+|\*)\]|(?:[\w/-]|\\\.)+/g);
  return steps?.map((step) => (step.startsWith("[") ? step.slice(1, -1) : step.replaceAll("\\.", ".")));
}

function valuesAt(value: unknown, [step, ...others]: readonly string[]): unknown[] {
  if (value === undefined || value === null) return [];
  if (step === undefined) return [value];
  const next = step === "*" ? Object.values(value) : [(value as Record<string, unknown>)[step]];
  return next.flatMap((each) => valuesAt(each, others));
}

async function create(api: Api, requested: PageRequest): Promise<string | undefined> {
  const [kind, name, ...others] = requested.words;
  if (others.length > 0 || name === undefined) return undefined;
  if (kind === "namespace")
    return write(api, requested, { apiVersion: "v1", kind: "Namespace", metadata: { name } });
  if (kind !== "configmap") return undefined;
  const data = Object.fromEntries(requested.literals.map((each) => each.split(/=(.*)/s).slice(0, 2)));
  const { namespace } = requested;
  const object = { apiVersion: "v1", kind: "ConfigMap", metadata: { name, namespace } };
  return write(api, requested, requested.literals.length === 0 ? object : { ...object, data });
}

async function write(
  api: Api,
  { words, namespace }: PageRequest,
  object: object,
): Promise<string | undefined> {
  const path = await api.path(words[0] ?? "", namespace);
  const answer = await api.request(
    "POST",
    `${path}?fieldManager=kubectl-create&fieldValidation=Strict`,
    object,
  );
  return done(answer, "created");
}

async function patch(api: Api, requested: PageRequest): Promise<string | undefined> {
  const [path, ...others] = (await pathsOf(api, requested)) ?? [];
  const change = requested.flags.get("-p");
  if (
    path === undefined ||
    others.length > 0 ||
    requested.flags.get("--type") !== "merge" ||
    change === undefined
  )
    return undefined;
  const body = JSON.parse(change) as object;
  const subresource = requested.flags.get("--subresource");
  const target = subresource === undefined ? path : `${path}/${subresource}`;
  const manager = requested.flags.get("--field-manager") ?? "kubectl-patch";
  return done(await api.request("PATCH", `${target}?fieldManager=${manager}`, body), "patched");
}

/** `label` and `annotate` of one object; what would be overwritten against the will of the asker is for kubectl to refuse. */
async function mark(
  api: Api,
  requested: PageRequest,
  field: "labels" | "annotations",
): Promise<string | undefined> {
  const isMark = (word: string): boolean => word.includes("=") || word.endsWith("-");
  const marks = requested.words.filter(isMark);
  const words = requested.words.filter((word) => !isMark(word));
  const [path, ...others] = (await pathsOf(api, { ...requested, words })) ?? [];
  if (path === undefined || others.length > 0 || marks.length === 0) return undefined;
  const change = Object.fromEntries(
    marks.map((each) => (each.includes("=") ? each.split(/=(.*)/s).slice(0, 2) : [each.slice(0, -1), null])),
  ) as Record<string, string | null>;
  if (!requested.flags.has("--overwrite")) {
    const { status, body } = await api.request("GET", path);
    const now = (body as Read | undefined)?.metadata?.[field] ?? {};
    const isKept = ([name, value]: [string, string | null]) =>
      value === null || (now[name] ?? value) === value;
    if (status >= 300 || !Object.entries(change).every(isKept)) return undefined;
  }
  const manager = field === "labels" ? "kubectl-label" : "kubectl-annotate";
  const body = { metadata: { [field]: change } };
  return done(await api.request("PATCH", `${path}?fieldManager=${manager}`, body), "changed");
}

/** Returns when all of them are gone, unless `--wait=false`. */
async function remove(api: Api, requested: PageRequest): Promise<string | undefined> {
  const paths = await pathsOf(api, requested);
  if (paths === undefined) return undefined;
  const uids: (string | undefined)[] = [];
  for (const path of paths) {
    const { status, body } = await api.request("DELETE", path, { propagationPolicy: "Background" });
    if (status >= 300 && !(status === 404 && requested.flags.has("--ignore-not-found"))) return undefined;
    uids.push(uidOf(body as Deleted));
  }
  if (requested.flags.get("--wait") === "false") return "";
  for (const [index, path] of paths.entries())
    await eventually(async () => isDeleted(await api.request("GET", path), uids[index]), `${path} is gone`);
  return "";
}

interface Deleted extends Read {
  readonly details?: { readonly uid?: string };
}

/** Of an object that is to go, or of the Status of one that went. */
const uidOf = (body: Deleted): string | undefined => body.details?.uid ?? body.metadata?.uid;

/** Another one of the same name may be there by then. */
const isDeleted = ({ status, body }: Answer, uid: string | undefined): boolean =>
  status === 404 || (status === 200 && (body as Read).metadata?.uid !== uid);

const done = ({ status, body }: Answer, what: string): string | undefined =>
  status < 300 && body !== NOT_SERVED ? `${nameOf(body as Read)} ${what}\n` : undefined;
