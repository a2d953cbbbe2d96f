/** Finds out which values and functions the templates of a chart use. */

import { actionsOf, type Token } from "./template-tokens.ts";

/** What templates can reach beyond their own section of values. */
export interface Reach {
  /** First words of the paths below `.Values` that are named literally; meaningless when `dynamic`. */
  readonly keys: ReadonlySet<string>;
  /** Paths below `global` that are named literally, e.g. `a.b`; meaningless when `dynamic`. */
  readonly globals: ReadonlySet<string>;
  /** Globals are used as a whole, or in a way that cannot be followed: all of them count. */
  readonly dynamic: boolean;
  readonly capabilities: boolean;
  readonly lookup: boolean;
  /** Text from values or files is rendered as a template. */
  readonly tpl: boolean;
}

/** What a template does with a value. */
type Use = "safe" | "loose" | { readonly variable: string } | { readonly dictKey: string };

interface Scan {
  readonly keys: Set<string>;
  readonly globals: Set<string>;
  dynamic: boolean;
  capabilities: boolean;
  lookup: boolean;
  tpl: boolean;
  /** Keys under which the root context was put into a `dict`. */
  readonly rootKeys: Set<string>;
  /** Last parts of paths whose value is passed on as a whole in a way that is not followed. */
  readonly looseFields: Set<string>;
}

/** State within one template file. */
interface File {
  readonly scan: Scan;
  /** For each open block: whether the dot in it may be the root context. */
  readonly blocks: boolean[];
  readonly rootVariables: Set<string>;
  /** Variables that hold a field, by that field's name. */
  readonly fieldVariables: Map<string, string>;
}

const METHODS = new Set(["AsMap", "YAML", "Encode", "Table", "PathValue"]);
const PASSES_ON = new Set(["include", "template", "block"]);
const HARMLESS = new Set(["kindIs", "kindOf", "typeIs", "typeOf", "empty", "not"]);
const OPENERS = new Set(["if", "with", "range", "define", "block"]);

/**
 * Reads which values a chart's templates can reach, without running them. Errs on the safe side: whatever cannot be
 * followed makes `dynamic` true. Passing the root context to `include` is followed, since the included templates
 * are among `templates`.
 */
export function scanTemplates(templates: Iterable<string>): Reach {
  const scan: Scan = {
    keys: new Set(),
    globals: new Set(),
    dynamic: false,
    capabilities: false,
    lookup: false,
    tpl: false,
    rootKeys: new Set(),
    looseFields: new Set(),
  };
  for (const text of templates) scanFile(scan, text);
  const escaped = [...scan.rootKeys].some((key) => scan.looseFields.has(key));
  const { keys, globals, capabilities, lookup, tpl } = scan;
  return { keys, globals, dynamic: scan.dynamic || tpl || escaped, capabilities, lookup, tpl };
}

function scanFile(scan: Scan, text: string): void {
  const file: File = { scan, blocks: [], rootVariables: new Set(["$"]), fieldVariables: new Map() };
  for (const action of actionsOf(text)) scanAction(file, action);
}

function scanAction(file: File, tokens: readonly Token[]): void {
  const keyword = tokens[0]?.text;
  if (keyword === "end") {
    file.blocks.pop();
    return;
  }
  if (keyword === "else") file.blocks[file.blocks.length - 1] = file.blocks.at(-2) ?? true;
  tokens.forEach((token, at) => {
    if (token.type === "string") scanString(file.scan, token.text);
    else if (token.type === "word") scanWord(file, tokens, at);
  });
  if (keyword !== undefined && OPENERS.has(keyword)) openBlock(file, tokens, keyword);
  else if (keyword === "else" && tokens[1]?.text === "with")
    file.blocks[file.blocks.length - 1] = dotAfter(file, tokens);
}

/** `index $ "Values"`, `get .Values "global"`: names in strings cannot be followed. */
function scanString(scan: Scan, text: string): void {
  if (text === "Values" || text === "global") scan.dynamic = true;
  if (text.includes("Capabilities")) scan.capabilities = true;
}

function scanWord(file: File, tokens: readonly Token[], at: number): void {
  const { scan } = file;
  const word = tokens[at]?.text ?? "";
  if (word === "tpl") scan.tpl = true;
  if (word === "lookup") scan.lookup = true;
  if (word.includes("Capabilities")) scan.capabilities = true;
  const values = valuesPath(word);
  if (values !== undefined) scanValuesPath(scan, values);
  else if (isRoot(file, word)) judgeRoot(file, tokens, at);
  else judgeField(file, tokens, at);
}

/** What a word names below `.Values`; undefined when it is no such path. */
function valuesPath(word: string): readonly string[] | undefined {
  const parts = word.split(".");
  const broken = parts.findLastIndex((part) => part === "" || part.includes("$"));
  // What stands before the first dot is a variable or a field, whatever its name.
  const at = parts.indexOf("Values", Math.max(broken, 0) + 1);
  return at < 1 ? undefined : parts.slice(at + 1);
}

function scanValuesPath(scan: Scan, [first, ...rest]: readonly string[]): void {
  if (first !== undefined) scan.keys.add(first);
  if (first === undefined || METHODS.has(first)) scan.dynamic = true;
  else if (first === "global" && rest.length === 0) scan.dynamic = true;
  else if (first === "global") scan.globals.add(rest.join("."));
}

function isRoot(file: File, word: string): boolean {
  return word === "." ? dotIsRoot(file) : file.rootVariables.has(word);
}

function dotIsRoot(file: File): boolean {
  return file.blocks.at(-1) ?? true;
}

function judgeRoot(file: File, tokens: readonly Token[], at: number): void {
  const use = useOf(tokens, at);
  if (use === "loose") file.scan.dynamic = true;
  else if (use !== "safe" && "variable" in use) file.rootVariables.add(use.variable);
  else if (use !== "safe") file.scan.rootKeys.add(use.dictKey);
}

/** A field may hold the root context that was put there by `dict`. */
function judgeField(file: File, tokens: readonly Token[], at: number): void {
  const word = tokens[at]?.text ?? "";
  const field = fieldOf(file, word);
  if (field === undefined) return;
  const use = useOf(tokens, at);
  if (use === "loose") file.scan.looseFields.add(field);
  else if (use !== "safe" && "variable" in use) file.fieldVariables.set(use.variable, field);
  else if (use !== "safe") file.scan.looseFields.add(field);
}

function fieldOf(file: File, word: string): string | undefined {
  if (/^\$\w+$/.test(word)) return file.fieldVariables.get(word);
  return /\.(\w+)$/.exec(word)?.[1];
}

/** How the value at `at` is used within its action. */
function useOf(tokens: readonly Token[], at: number): Use {
  const start = commandStart(tokens, at);
  if (start < at) return useAsArgument(tokens, start, at);
  const next = tokens[at + 1]?.text;
  if (next === "|") return PASSES_ON.has(tokens[at + 2]?.text ?? "") ? "safe" : "loose";
  if (next !== undefined) return "loose";
  return useAlone(tokens, at);
}

function useAsArgument(tokens: readonly Token[], start: number, at: number): Use {
  const head = tokens[start]?.text ?? "";
  if (PASSES_ON.has(head) || HARMLESS.has(head)) return "safe";
  const before = tokens[at - 1];
  if (head === "dict" && before?.type === "string" && (at - start) % 2 === 0) return { dictKey: before.text };
  return "loose";
}

/** The whole pipeline of an action is this one value. */
function useAlone(tokens: readonly Token[], at: number): Use {
  const before = tokens[at - 1]?.text;
  if (before === ":=" || before === "=") {
    const variable = tokens[at - 2]?.text ?? "";
    return tokens[0]?.text === "range" ? "loose" : { variable };
  }
  return before === "if" || before === "with" ? "safe" : "loose";
}

const STARTS = new Set(["(", "|", ":=", "=", "if", "with", "range", "else"]);

/** Index of the first token of the command (function call) that `at` belongs to. */
function commandStart(tokens: readonly Token[], at: number): number {
  let depth = 0;
  for (let i = at - 1; i >= 0; i--) {
    const { text, type } = tokens[i] as Token;
    if (type !== "string" && text === ")") depth++;
    else if (type !== "string" && text === "(" && depth > 0) depth--;
    else if (type !== "string" && depth === 0 && STARTS.has(text)) return i + 1;
  }
  return 0;
}

function openBlock(file: File, tokens: readonly Token[], keyword: string): void {
  if (keyword === "define" || keyword === "block") file.blocks.push(true);
  else if (keyword === "if") file.blocks.push(dotIsRoot(file));
  else if (keyword === "range") file.blocks.push(false);
  else file.blocks.push(dotAfter(file, tokens));
}

/** Whether the dot may be the root context within `with …`. */
function dotAfter(file: File, tokens: readonly Token[]): boolean {
  const last = tokens.at(-1)?.text ?? "";
  if (isRoot(file, last)) return true;
  const field = fieldOf(file, last);
  // A field that may hold the root is followed no further than this.
  if (field !== undefined && valuesPath(last) === undefined) file.scan.looseFields.add(field);
  return false;
}
