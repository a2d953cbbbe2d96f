import { existsSync, globSync, readFileSync } from "node:fs";
import { basename, dirname, join, relative } from "node:path";
import { parseSync } from "oxc-parser";
import { describe, expect, test } from "vitest";

import { titlesIn } from "./titles.ts";

// What comments, titles of tests and pages refer to is in this repository. Pages are cited
// as docs/reference/hooks.md, "Queues": the heading, or the bold words that begin an item.

const root = join(import.meta.dirname, "../..");
const read = (path: string): string => readFileSync(join(root, path), "utf8");
const glob = (pattern: string): string[] => globSync(pattern, { cwd: root }).sort();

const pages = [...glob("*.md"), ...glob("{docs,examples,src,test,scripts}/**/*.md")];
const sources = glob("{src,test}/**/*.ts");
/** Names of files as they may stand in a comment, without their directory. */
const names = new Set(
  [...pages, ...sources, ...glob("scripts/**/*.{mjs,mts}")].map((path) => basename(path)),
);

const withoutCode = (page: string): string => page.replaceAll(/^ *```.*?^ *```/gms, "");

/** Headings of a page, and the bold words that begin an item of a list. */
function placesOf(page: string): string[] {
  return [...withoutCode(read(page)).matchAll(/^(?:#+ |- \*\*)(.+?)(?:\*\*.*)?$/gm)].map(
    ([, text = ""]) => text,
  );
}

const anchorOf = (heading: string): string =>
  heading
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{N} _-]/gu, "")
    .replaceAll(" ", "-");

/** Text for people in a source file, one line each: comments that follow each other, titles of tests. */
function prose(path: string): string[] {
  const text = read(path);
  const comments: string[] = [];
  let end = -1;
  for (const comment of parseSync(path, text).comments) {
    const words = comment.value.replaceAll(/\n\s*\*? ?/g, " ").trim();
    const joins = end >= 0 && text.slice(end, comment.start).trim() === "" && comment.type === "Line";
    if (joins) comments.push(`${comments.pop() ?? ""} ${words}`);
    else comments.push(words);
    end = comment.end;
  }
  return [...comments, ...titlesIn(text)];
}

const PAGE = /(?<![\w/.%-])((?:[\w.-]+\/)*[\w-]+\.md)\b(?:`?, "([^"]+)")?/g;
const FILE = /(?<![\w/.-])[\w-]+(?:\.test)?\.(?:ts|mjs)\b/g;
/** A section by its number, unless it is one of an RFC; a quoted heading behind the name of no page. */
const ELSEWHERE = /(?<!RFC \d+ )§|\b(?:contract|design|house): |\b[a-z]+(?:-[a-z]+)* "[A-Z][^"]*"/g;

/** What is cited in `text` and is not there. */
function broken(text: string, from: string): string[] {
  const cited = [...text.matchAll(PAGE)].filter(([, path = "", place]) => !isThere(path, place, from));
  const files = [...text.matchAll(FILE)].filter(([name]) => !names.has(name));
  return [...cited, ...files].map(([all]) => all);
}

function isThere(path: string, place: string | undefined, from: string): boolean {
  const page = [path, join(dirname(from), path)].find((each) => existsSync(join(root, each)));
  return page !== undefined && (place === undefined || placesOf(page).includes(place));
}

describe("comments and titles of tests", () => {
  test.each(sources)("%s", (path) => {
    const all = prose(path);
    expect(all.flatMap((text) => broken(text, path))).toEqual([]);
    const vague = all.flatMap((text) => [...text.matchAll(ELSEWHERE)]);
    expect(vague.map(([words]) => words)).toEqual([]);
  });
});

describe("pages", () => {
  test.each(pages)("%s", (path) => {
    const text = withoutCode(read(path));
    const links = [...text.matchAll(/\]\((?!https?:)([^)#\s]*)(?:#([^)\s]+))?\)/g)];
    const wrong = links.filter(([, target = "", anchor]) => {
      // GitHub shows a repository's files and its runs two levels below the same address.
      const local = target.replace(
        /^\.\.\/\.\.\/actions\/workflows\/([\w.]+)(\/badge\.svg)?$/,
        ".github/workflows/$1",
      );
      const page = target === "" ? path : relative(root, join(root, dirname(path), local));
      if (!existsSync(join(root, page))) return true;
      return anchor !== undefined && !placesOf(page).map(anchorOf).includes(anchor);
    });
    expect(wrong.map(([link]) => link)).toEqual([]);
    const paths = [...text.matchAll(/`((?:src|test|scripts|deploy|charts|crds|examples)\/[\w./-]+)`/g)];
    const missing = paths.filter(([, each = ""]) => !each.includes("NAME") && !existsSync(join(root, each)));
    expect(missing.map(([each]) => each)).toEqual([]);
    expect(broken(text.replaceAll(/\]\([^)]*\)/g, "]"), path)).toEqual([]);
  });
});
