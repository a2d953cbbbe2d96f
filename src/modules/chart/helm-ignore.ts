/** Reads `.helmignore` files as helm does. */

import { RE2JS } from "re2js";

interface Rule {
  readonly negate: boolean;
  readonly directoryOnly: boolean;
  readonly matches: (path: string) => boolean;
}

/** Returns whether helm ignores a path of a chart. `path` is relative, with `/`. */
export type Ignore = (path: string, isDirectory: boolean) => boolean;

/** Built into helm: hidden files among the templates. */
const DEFAULT_RULE = "templates/.?*";

/**
 * Reads a `.helmignore` as helm does, which differs from git: no `**`, a rule without slash is compared with the
 * last part of the path only, one with a slash with the whole path, and a `!` rule ignores everything that it does
 * not match.
 */
export function parseHelmIgnore(text: string): Ignore {
  const lines = text.split("\n").map((line) => line.trim());
  const rules = [...lines, DEFAULT_RULE]
    .filter((line) => line !== "" && !line.startsWith("#"))
    .map(parseRule);
  return (path, isDirectory) => rules.some((rule) => ruleMatches(rule, path, isDirectory));
}

function ruleMatches(rule: Rule, path: string, isDirectory: boolean): boolean {
  if (rule.negate) return (rule.directoryOnly && !isDirectory) || !rule.matches(path);
  return (isDirectory || !rule.directoryOnly) && rule.matches(path);
}

function parseRule(line: string): Rule {
  const negate = line.startsWith("!");
  let pattern = negate ? line.slice(1) : line;
  const directoryOnly = pattern.endsWith("/");
  if (directoryOnly) pattern = pattern.slice(0, -1);
  const wholePath = pattern.includes("/");
  const glob = compileGlob(pattern.startsWith("/") ? pattern.slice(1) : pattern);
  const matches = (path: string): boolean =>
    glob.matches(wholePath ? path : path.slice(path.lastIndexOf("/") + 1));
  return { negate, directoryOnly, matches };
}

/**
 * Compiles a pattern of Go's `filepath.Match`, which helm uses: `*` and `?` stop at slashes, and classes such as `[a-z]`
 * are copied into the regular expression.
 */
function compileGlob(glob: string): RE2JS {
  const lastBracket = glob.lastIndexOf("]");
  let source = "";
  for (let at = 0; at < glob.length;) {
    const end = glob[at] === "[" && at < lastBracket ? findClassEnd(glob, at) : undefined;
    const part = glob.slice(at, end ?? at + (glob[at] === "\\" ? 2 : 1));
    source += end === undefined ? translateToken(part) : part;
    at += part.length;
  }
  return RE2JS.compile(source, RE2JS.DOTALL);
}

/** The regular expression for `*`, `?`, an escaped or a plain character. */
function translateToken(part: string): string {
  if (part === "*") return "[^/]*";
  if (part === "?") return "[^/]";
  return RE2JS.quote(part.length > 1 ? part.slice(1) : part);
}

/** Index of the end of a class such as `[a-z]`; undefined if it is empty or not closed. */
function findClassEnd(glob: string, from: number): number | undefined {
  const first = from + (glob[from + 1] === "^" ? 2 : 1);
  for (let at = first; at < glob.length; at++) {
    if (glob[at] === "]") return at > first ? at + 1 : undefined;
    if (glob[at] === "\\") at++;
  }
  return undefined;
}
