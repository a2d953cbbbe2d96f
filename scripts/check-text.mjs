// Part of `npm run check:lint`. What comments and pages refer to must be in this repository, and each file of src must begin with a
// sentence that describes its purpose. Prints each breach with its file; the exit code is 1 if there is one.
import { existsSync, globSync, readFileSync } from "node:fs";
import { basename, dirname, join, relative } from "node:path";
import { parseSync } from "oxc-parser";
import { root } from "./setup/versions.mjs";

const read = (path) => readFileSync(join(root, path), "utf8");
const glob = (pattern) => globSync(pattern, { cwd: root }).sort();

const pages = [...glob("*.md"), ...glob("{docs,examples,src,test,scripts,conformance}/**/*.md")];
const sources = glob("{src,test,conformance}/**/*.ts");
/** Names of files as they may stand in a comment, without their directory. */
const names = new Set(
  [...pages, ...sources, ...glob("scripts/**/*.{mjs,mts}")].map((path) => basename(path)),
);

const PAGE = /(?<![\w/.%-])((?:[\w.-]+\/)*[\w-]+\.md)\b(?:`?, "([^"]+)")?/g;
const FILE = /(?<![\w/.-])[\w-]+(?:\.test)?\.(?:ts|mjs)\b/g;
/** A section by its number, unless it is one of an RFC; a quoted heading behind the name of no page. */
const VAGUE = /(?<!RFC \d+ )§|\b(?:contract|design|house): |\b[a-z]+(?:-[a-z]+)* "[A-Z][^"]*"/g;
const LINK = /\]\((?!https?:)([^)#\s]*)(?:#([^)\s]+))?\)/g;
const PATH = /`((?:src|test|scripts|deploy|charts|crds|examples)\/[\w./-]+)`/g;
/** An `index.ts` only re-exports. */
const PURPOSE = /^\/\*\*\s+(?:\* )?[A-Z`][^]*?\s[^]*?[.…]/;

const withoutCode = (page) => page.replaceAll(/^ *```.*?^ *```/gms, "");

/** The headings of a page, and the bold words that begin an item of a list. */
function placesOf(page) {
  const places = withoutCode(read(page)).matchAll(/^(?:#+ |- \*\*)(.+?)(?:\*\*.*)?$/gm);
  return [...places].map(([, text]) => text);
}

const anchorOf = (heading) =>
  heading
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{N} _-]/gu, "")
    .replaceAll(" ", "-");

/** The comments of a source file. Line comments that follow each other are one. */
function commentsOf(text, path) {
  const comments = [];
  let end = -1;
  for (const { value, type, start, end: to } of parseSync(path, text).comments) {
    const words = value.replaceAll(/\n\s*\*? ?/g, " ").trim();
    const continues = end >= 0 && type === "Line" && text.slice(end, start).trim() === "";
    if (continues) comments.push(`${comments.pop()} ${words}`);
    else comments.push(words);
    end = to;
  }
  return comments;
}

/** Pages, their parts, and files that `text` names and that do not exist. A page may be named relative to `from`. */
function missingIn(text, from) {
  const isThere = ([, path, place]) => {
    const page = [path, join(dirname(from), path)].find((each) => existsSync(join(root, each)));
    return page !== undefined && (place === undefined || placesOf(page).includes(place));
  };
  const cited = [...text.matchAll(PAGE)].filter((match) => !isThere(match));
  const files = [...text.matchAll(FILE)].filter(([name]) => !names.has(name));
  return [...cited, ...files].map(([words]) => `${words} does not exist`);
}

function checkSource(path) {
  const text = read(path);
  const comments = commentsOf(text, path);
  const vague = comments.flatMap((comment) => [...comment.matchAll(VAGUE)]);
  const needsPurpose = path.startsWith("src/") && basename(path) !== "index.ts";
  const [head = ""] = /^\/\*\*[^]*?\*\//.exec(text) ?? [];
  return [
    ...comments.flatMap((comment) => missingIn(comment, path)),
    ...vague.map(([words]) => `${words} names no page`),
    ...(needsPurpose && !PURPOSE.test(head) ? ["begins with no sentence that describes its purpose"] : []),
  ];
}

function checkPage(path) {
  const text = withoutCode(read(path));
  const isBroken = ([, target, anchor]) => {
    // GitHub shows the files of a repository and its runs two levels below the same address.
    const local = target.replace(
      /^\.\.\/\.\.\/actions\/workflows\/([\w.]+)(\/badge\.svg)?$/,
      ".github/workflows/$1",
    );
    const page = target === "" ? path : relative(root, join(root, dirname(path), local));
    if (!existsSync(join(root, page))) return true;
    return anchor !== undefined && !placesOf(page).map(anchorOf).includes(anchor);
  };
  const links = [...text.matchAll(LINK)].filter(isBroken);
  const paths = [...text.matchAll(PATH)].filter(
    ([, each]) => !each.includes("NAME") && !existsSync(join(root, each)),
  );
  return [
    ...links.map(([link]) => `the link ${link.slice(1)} is broken`),
    ...paths.map(([, each]) => `${each} does not exist`),
    ...missingIn(text.replaceAll(/\]\([^)]*\)/g, "]"), path),
  ];
}

const breaches = [
  ...sources.flatMap((path) => checkSource(path).map((breach) => `${path}: ${breach}`)),
  ...pages.flatMap((path) => checkPage(path).map((breach) => `${path}: ${breach}`)),
];
for (const breach of breaches) process.stderr.write(`${breach}\n`);
process.exitCode = breaches.length > 0 ? 1 : 0;
