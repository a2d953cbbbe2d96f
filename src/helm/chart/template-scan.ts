/**
 * Finds out which values and functions the templates of a chart use, without running them. A template reads values from the *root
 * context*: `$`, or the dot outside of `with` and `range`. The scan follows the root context into variables and into keys of a `dict`.
 * A value that an action passes to anywhere else *escapes*; where the root context escapes, the scan is *dynamic*: all values count as used.
 */

import { parseActions, type TemplateToken } from "./template-tokens.ts";

/** What templates can reach beyond their own section of values. */
export interface Reach {
  /** First segments of literal paths below `.Values`; meaningless when `dynamic`. */
  readonly keys: ReadonlySet<string>;
  /** Literal paths below `global`, e.g. `a.b`; meaningless when `dynamic`. */
  readonly globals: ReadonlySet<string>;
  /** Templates use globals as a whole, or in a way that the scan cannot follow, so all globals count. */
  readonly dynamic: boolean;
  /** Templates read `.Capabilities`. */
  readonly capabilities: boolean;
  /** The only APIs that templates ask for, as in `.Capabilities.APIVersions.Has "apps/v1"`; undefined where the scan cannot follow that. */
  readonly apis: ReadonlySet<string> | undefined;
  readonly lookup: boolean;
  /** Templates call functions whose result differs in each rendering, such as `genCA`. */
  readonly random: boolean;
  /** Text from values or files is rendered as a template. */
  readonly tpl: boolean;
  readonly hooks: boolean;
  readonly crds: boolean;
}

/**
 * What a template does with a value. `inspected`: nothing that reaches more values. `escapes`: something that the scan cannot
 * follow. Else the value is stored, in a variable or in a key of a `dict`.
 */
type Use = "inspected" | "escapes" | { readonly variable: string } | { readonly dictKey: string };

interface Scan {
  readonly keys: Set<string>;
  readonly globals: Set<string>;
  dynamic: boolean;
  capabilities: boolean;
  /** Literal names of APIs; undefined where the templates may ask for any. */
  apis: Set<string> | undefined;
  lookup: boolean;
  random: boolean;
  tpl: boolean;
  /** Keys under which the root context was put into a `dict`. */
  readonly rootKeys: Set<string>;
  /** Last segments of paths whose whole value is passed on in a way that the scan does not follow. */
  readonly escapingFields: Set<string>;
}

interface FileScan {
  readonly scan: Scan;
  /** For each open block: whether the dot in it may be the root context. */
  readonly mayDotBeRootByBlock: boolean[];
  readonly rootVariables: Set<string>;
  /** Variables that hold a field, by that field's name. */
  readonly fieldVariables: Map<string, string>;
}

/** Methods of the whole values, which look like keys in a template. */
const VALUES_METHODS = new Set(["AsMap", "YAML", "Encode", "Table", "PathValue"]);
/** Calls that pass a value to another template, which the scan reads too. */
const TEMPLATE_CALLS = new Set(["include", "template", "block"]);
/** Functions whose result does not contain the value itself. */
const INSPECTING_FUNCTIONS = new Set(["kindIs", "kindOf", "typeIs", "typeOf", "empty", "not"]);
/** Functions whose result differs in each rendering. */
const RANDOM_FUNCTION = /^(?:rand[A-Z]\w*|gen[A-Z]\w*|htpasswd|bcrypt|shuffle|uuidv4|encryptAES|now|ago)$/;
/** Keywords that begin a block, which `end` closes. */
const BLOCK_KEYWORDS = new Set(["if", "with", "range", "define", "block"]);

/** Reads which values a chart's templates can reach. */
export function scanTemplates(templates: readonly string[]): Reach {
  const scanner = new TemplateScanner();
  for (const text of templates) scanner.add(text);
  return scanner.finish();
}

/**
 * Reads which values a chart's templates can reach, one template after another, so that a change of other values runs no helm. `include`
 * with the root context needs no following, because the included templates are added, too.
 */
export class TemplateScanner {
  readonly #scan: Scan = {
    keys: new Set(),
    globals: new Set(),
    dynamic: false,
    capabilities: false,
    apis: new Set(),
    lookup: false,
    random: false,
    tpl: false,
    rootKeys: new Set(),
    escapingFields: new Set(),
  };
  #hooks = false;
  #crds = false;

  add(text: string): void {
    scanFile(this.#scan, text);
    this.#hooks ||= mentionsHooks(text);
    this.#crds ||= mentionsCrds(text);
  }

  /** What the templates added so far can reach. */
  finish(): Reach {
    const { rootKeys, escapingFields, ...reach } = this.#scan;
    // One template put the root context into a key of a `dict`, and one passes a field of this name to where the scan cannot follow.
    const escaped = [...rootKeys].some((key) => escapingFields.has(key));
    const dynamic = reach.dynamic || reach.tpl || escaped;
    return { ...reach, dynamic, hooks: this.#hooks, crds: this.#crds };
  }
}

/** Names after `helm.sh/` that make no hook, such as `helm.sh/chart` and links to `helm.sh/docs`. */
const NO_HOOK =
  /(?:chart|docs|resource-policy|hook-(?:weight|delete-policy|output-log-policy))\b|release[-.]/;
/** The annotation of a hook that only `helm test` runs, in a line of its own. */
const TEST_HOOK = /hook["']?[ \t]*:[ \t]*(["']?)test(?:-success)?\1[ \t]*(?:\r?\n|$)/;
const HOOK = new RegExp(String.raw`\bhelm\.sh/(?!${NO_HOOK.source}|${TEST_HOOK.source})`);

/**
 * Whether a text may create a hook that helm runs with an installation or upgrade, by an annotation `helm.sh/…`. Templates may put its name
 * together from parts, so the prefix suffices, except where the text itself goes on with something else.
 */
export function mentionsHooks(text: string): boolean {
  return HOOK.test(text);
}

/** Whether the template actions of a text that `tpl` renders call `lookup`, and functions whose result differs in each rendering. */
export function scanCalls(text: string): Pick<Reach, "lookup" | "random"> {
  const [, ...actions] = text.split("{{");
  const words = actions.flatMap((action) => (action.split("}", 1)[0] ?? "").match(/\w+/g) ?? []);
  return { lookup: words.includes("lookup"), random: words.some((word) => RANDOM_FUNCTION.test(word)) };
}

/** True when a text may be, or become, a CustomResourceDefinition. */
export function mentionsCrds(text: string): boolean {
  return text.includes("CustomResourceDefinition");
}

/** Scans all actions of one template file. The root context is the dot at its top level, and `$`. */
function scanFile(scan: Scan, text: string): void {
  const file: FileScan = {
    scan,
    mayDotBeRootByBlock: [],
    rootVariables: new Set(["$"]),
    fieldVariables: new Map(),
  };
  for (const action of parseActions(text)) scanAction(file, action);
}

/**
 * Scans the words and strings of one template action, and tracks the blocks that it opens or ends, because `with` and `range` change
 * what the dot means.
 */
function scanAction(file: FileScan, tokens: readonly TemplateToken[]): void {
  const keyword = tokens[0]?.text;
  if (keyword === "end") {
    file.mayDotBeRootByBlock.pop();
    return;
  }
  // After `else`, the dot is again that of the block around this one.
  if (keyword === "else") setInnermostDot(file, file.mayDotBeRootByBlock.at(-2) ?? true);
  tokens.forEach((token, at) => {
    if (token.type === "string") scanString(file.scan, token.text);
    else if (token.type === "word") scanWord(file, tokens, at);
  });
  if (keyword !== undefined && BLOCK_KEYWORDS.has(keyword)) openBlock(file, tokens, keyword);
  else if (keyword === "else" && tokens[1]?.text === "with")
    setInnermostDot(file, mayDotBeRootInWith(file, tokens));
}

/** Sets whether the dot may be the root context in the innermost open block. */
function setInnermostDot({ mayDotBeRootByBlock }: FileScan, mayBeRoot: boolean): void {
  mayDotBeRootByBlock[mayDotBeRootByBlock.length - 1] = mayBeRoot;
}

/** Makes the scan dynamic where a string literal names values, as in `index $ "Values"`: the scan cannot follow names in strings. */
function scanString(scan: Scan, text: string): void {
  if (text === "Values" || text === "global") scan.dynamic = true;
  if (!text.includes("Capabilities")) return;
  scan.capabilities = true;
  scan.apis = undefined;
}

/** Records which function or values a word of an action names, or where the action passes the root context or field that it names. */
function scanWord(file: FileScan, tokens: readonly TemplateToken[], at: number): void {
  const { scan } = file;
  const word = tokens[at]?.text ?? "";
  if (word === "tpl") scan.tpl = true;
  if (word === "lookup") scan.lookup = true;
  if (RANDOM_FUNCTION.test(word)) scan.random = true;
  if (word.includes("Capabilities")) scanCapabilities(scan, word, tokens[at + 1]);
  const values = parseValuesPath(word);
  if (values !== undefined) scanValuesPath(scan, values);
  else if (mayBeRoot(file, word)) recordRootUse(file, tokens, at);
  else recordFieldUse(file, tokens, at);
}

/** Records a word that contains `Capabilities`: which API it asks for, where the next token names one. */
function scanCapabilities(scan: Scan, word: string, next: TemplateToken | undefined): void {
  scan.capabilities = true;
  if (/\.Capabilities\.(?:KubeVersion|HelmVersion)(?:\.|$)/.test(word)) return;
  const isNamed =
    word.endsWith(".Capabilities.APIVersions.Has") && next?.type === "string" && !next.text.includes("\\");
  if (isNamed) scan.apis?.add(next.text);
  else scan.apis = undefined;
}

/** Parses the path below `.Values` that a word names, such as `a.b` of `.Values.a.b`; undefined if it names none. */
function parseValuesPath(word: string): readonly string[] | undefined {
  const parts = word.split(".");
  // A path starts at a variable, or at the empty part before a leading dot. `Values` counts behind any field, too, because
  // the field may hold the root context: `$.Values.a`, `.root.Values.a`.
  const pathStart = parts.findLastIndex((part) => part === "" || part.includes("$"));
  const index = parts.indexOf("Values", Math.max(pathStart, 0) + 1);
  return index < 0 ? undefined : parts.slice(index + 1);
}

/** Records a path below `.Values`, by its segments. An empty path (all values), or all of `global`, makes the scan dynamic. */
function scanValuesPath(scan: Scan, [first, ...rest]: readonly string[]): void {
  if (first !== undefined) scan.keys.add(first);
  // A method, as in `.Values.AsMap`, returns all values.
  if (first === undefined || VALUES_METHODS.has(first)) scan.dynamic = true;
  else if (first === "global" && rest.length === 0) scan.dynamic = true;
  else if (first === "global") scan.globals.add(rest.join("."));
}

/** Whether a word names the root context `$`, or may do so. */
function mayBeRoot(file: FileScan, word: string): boolean {
  return word === "." ? mayDotBeRoot(file) : file.rootVariables.has(word);
}

/** Whether the dot may be the root context in the innermost open block. */
function mayDotBeRoot(file: FileScan): boolean {
  return file.mayDotBeRootByBlock.at(-1) ?? true;
}

/**
 * Records where an action passes the root context, because values can be read from there, too: into a variable, into a `dict`, or to
 * where the scan cannot follow it. An action that only inspects it, such as `if`, reads no values.
 */
function recordRootUse(file: FileScan, tokens: readonly TemplateToken[], at: number): void {
  const use = classifyUse(tokens, at);
  if (use === "escapes") file.scan.dynamic = true;
  else if (use !== "inspected" && "variable" in use) file.rootVariables.add(use.variable);
  else if (use !== "inspected") file.scan.rootKeys.add(use.dictKey);
}

/** Records where an action passes the value of a field (`.a.b`, or a variable with its value): a `dict` may hold the root context in it. */
function recordFieldUse(file: FileScan, tokens: readonly TemplateToken[], at: number): void {
  const word = tokens[at]?.text ?? "";
  const field = findField(file, word);
  if (field === undefined) return;
  const use = classifyUse(tokens, at);
  if (use === "inspected") return;
  if (use !== "escapes" && "variable" in use) file.fieldVariables.set(use.variable, field);
  else file.scan.escapingFields.add(field);
}

/** Finds the name of the field whose value a word has: `b` for `.a.b`, and for `$x` after `$x := .a.b`; undefined for other words. */
function findField(file: FileScan, word: string): string | undefined {
  const isVariable = /^\$\w+$/.test(word);
  if (isVariable) return file.fieldVariables.get(word);
  return /\.(\w+)$/.exec(word)?.[1];
}

/** Classifies what an action does with the value of the token at index `at`: as an argument, before a pipe, or as the whole pipeline. */
function classifyUse(tokens: readonly TemplateToken[], at: number): Use {
  const start = findCommandStart(tokens, at);
  if (start < at) return classifyArgumentUse(tokens, start, at);
  const next = tokens[at + 1]?.text;
  if (next === "|") return TEMPLATE_CALLS.has(tokens[at + 2]?.text ?? "") ? "inspected" : "escapes";
  // More than the value alone, such as `. $x`: nothing that the scan knows.
  if (next !== undefined) return "escapes";
  return classifyPipelineUse(tokens, at);
}

/** Classifies what a function, whose name is the token at `start`, does with its argument at `at`. */
function classifyArgumentUse(tokens: readonly TemplateToken[], start: number, at: number): Use {
  const name = tokens[start]?.text ?? "";
  // The scan reads the included template itself, and the result of `typeOf` and its like does not contain the value.
  if (TEMPLATE_CALLS.has(name) || INSPECTING_FUNCTIONS.has(name)) return "inspected";
  const previous = tokens[at - 1];
  // `dict` takes keys and values in turn, so each second argument is the value of the key before it.
  const isDictValue = name === "dict" && (at - start) % 2 === 0;
  if (isDictValue && previous?.type === "string") return { dictKey: previous.text };
  return "escapes";
}

/** Classifies the use of a value that is the whole pipeline of an action: it is assigned, tested, or printed. */
function classifyPipelineUse(tokens: readonly TemplateToken[], at: number): Use {
  const previous = tokens[at - 1]?.text;
  if (previous === ":=" || previous === "=") {
    const variable = tokens[at - 2]?.text ?? "";
    // `range $x := …` assigns the parts of the value.
    return tokens[0]?.text === "range" ? "escapes" : { variable };
  }
  return previous === "if" || previous === "with" ? "inspected" : "escapes";
}

/** Tokens after which a command begins. */
const COMMAND_STARTS = new Set(["(", "|", ":=", "=", "if", "with", "range", "else"]);

/** Finds the index of the first token of the command (function call) that the token at `at` belongs to. Skips commands in parentheses. */
function findCommandStart(tokens: readonly TemplateToken[], at: number): number {
  // Walks back. The depth is above 0 between the `)` and the `(` of a command in parentheses.
  let depth = 0;
  for (let index = at - 1; index >= 0; index--) {
    const { text, type } = tokens[index] as TemplateToken;
    if (type === "string") continue;
    if (text === ")") depth++;
    else if (text === "(" && depth > 0) depth--;
    else if (depth === 0 && COMMAND_STARTS.has(text)) return index + 1;
  }
  return 0;
}

/** Records whether the dot may be the root context in the block that begins here. */
function openBlock(file: FileScan, tokens: readonly TemplateToken[], keyword: string): void {
  // Callers may pass the root context to a named template.
  if (keyword === "define" || keyword === "block") file.mayDotBeRootByBlock.push(true);
  else if (keyword === "if") file.mayDotBeRootByBlock.push(mayDotBeRoot(file));
  else if (keyword === "range") file.mayDotBeRootByBlock.push(false);
  else file.mayDotBeRootByBlock.push(mayDotBeRootInWith(file, tokens));
}

/** Whether the dot may be the root context within `with …`, which sets the dot to the last value of its action. */
function mayDotBeRootInWith(file: FileScan, tokens: readonly TemplateToken[]): boolean {
  const last = tokens.at(-1)?.text ?? "";
  if (mayBeRoot(file, last)) return true;
  const field = findField(file, last);
  // The scan does not follow a field as the dot of a block. If a `dict` puts the root context into this field, the scan is dynamic.
  if (field !== undefined && parseValuesPath(last) === undefined) file.scan.escapingFields.add(field);
  return false;
}
