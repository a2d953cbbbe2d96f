// What the site makes of the Markdown of docs/ beyond what a repository browser shows.
import { posix } from "node:path";

/** The anchor of a heading as GitHub makes it, so that one link serves both. */
export const slugify = (heading) =>
  heading
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{N} _-]/gu, "")
    .replaceAll(" ", "-");

/** The word in bold that a paragraph begins with, and the kind of box that shows the paragraph. */
const BOXES = { Warning: "warning", Caution: "warning", Note: "info", Tip: "tip" };

/**
 * The plugin for Markdown files that are in the directory `root`. Links out of `docs/` lead to `repository`, the address of
 * its files; without it, they become plain text.
 */
export function sitePlugin({ root, repository }) {
  return (md) => {
    md.core.ruler.push("repository-links", ({ tokens, env }) => linkRepository(tokens, env, { root, repository }));
    md.core.ruler.push("boxes", (state) => {
      state.tokens = boxed(state);
    });
    md.core.ruler.push("labels", ({ tokens }) => labelCells(tokens));
    // Indented code looks as fenced code does, and scrolls in its own box.
    md.core.ruler.push("indented", ({ tokens }) => {
      for (const token of tokens) if (token.type === "code_block") token.type = "fence";
    });
    nameFences(md);
  };
}

function linkRepository(tokens, env, { root, repository }) {
  for (const { children } of tokens) {
    let outside = false;
    for (const token of children ?? []) {
      if (token.type === "link_open") {
        const path = pathOutside(token.attrGet("href") ?? "", posix.relative(root, env.path));
        outside = path !== undefined;
        if (outside) token.attrSet("href", `${repository}/${path}`);
        else followChangelog(token, env);
      }
      if (outside && !repository && token.type.startsWith("link_")) [token.tag, token.attrs] = ["span", []];
      if (token.type === "link_close") outside = false;
    }
  }
}

const isChangelog = (page) => page.endsWith("docs/changelog.md");

/** The path of a file of the repository that is no page of the site. */
function pathOutside(href, page) {
  if (/^(\w+:|#|\/)/.test(href)) return undefined;
  const from = isChangelog(page) ? "CHANGELOG.md" : page;
  const path = posix.join(from, "..", href);
  return path.startsWith("docs/") || /^CHANGELOG\.md(#|$)/.test(path) ? undefined : path;
}

/** The changelog is a file of the root, and a page of the site: links from it and to it. */
function followChangelog(token, { path }) {
  const href = token.attrGet("href") ?? "";
  if (isChangelog(path)) token.attrSet("href", href.replace(/^docs\//, "./"));
  else token.attrSet("href", href.replace(/^(?:\.\.\/)+CHANGELOG\.md/, "/changelog.md"));
}

/** Paragraphs that begin with a word such as **Warning:** become boxes; so does the list that such a paragraph introduces. */
function boxed({ tokens, Token }) {
  const result = [];
  const html = (content) => Object.assign(new Token("html_block", "", 0), { content });
  let end = -1;
  for (const [index, token] of tokens.entries()) {
    const box = end < 0 && token.type === "paragraph_open" ? boxOf(tokens[index + 1]) : undefined;
    if (box !== undefined) {
      end = index + 2;
      if (tokens[end + 1]?.nesting === 1 && tokens[index + 1].content.endsWith(":")) end = closing(tokens, end + 1);
      result.push(html(`<div class="${box.kind} custom-block"><p class="custom-block-title">${box.title}</p>\n`));
    }
    result.push(token);
    if (index !== end) continue;
    result.push(html("</div>\n"));
    end = -1;
  }
  return result;
}

/** The kind and the title of the box of a paragraph with this content, which loses its title. */
function boxOf({ children = [] }) {
  const [before, open, text, close, after] = children;
  // markdown-it puts an empty text before bold words.
  if (open?.type !== "strong_open" || before.content !== "" || close?.type !== "strong_close") return undefined;
  const [, title = "", word = ""] = /^((\w+).*?)[:.]$/.exec(text.content) ?? [];
  if (!Object.hasOwn(BOXES, word)) return undefined;
  if (after?.type === "text") after.content = after.content.trimStart();
  children.splice(0, 4);
  return { kind: BOXES[word], title };
}

/** The token that closes the block which `tokens[open]` opens. */
function closing(tokens, open) {
  const { level } = tokens[open];
  return tokens.findIndex((token, index) => index > open && token.level === level && token.nesting === -1);
}

/** Each cell of a wide table knows the head of its column: on a phone, a row becomes a list. */
function labelCells(tokens) {
  let heads = [];
  let column = 0;
  for (const [index, token] of tokens.entries()) {
    if (token.type === "table_open") heads = [];
    if (token.type === "tr_open") column = 0;
    if (token.type === "th_open") heads.push(tokens[index + 1].content);
    if (token.type === "td_open" && heads.length > 2) token.attrSet("data-label", heads[column++] ?? "");
  }
}

/** Shows the second word of a fence (```` ```yaml values.yaml ````) as the name of the file. */
function nameFences(md) {
  const { fence } = md.renderer.rules;
  md.renderer.rules.fence = (...args) => {
    const [tokens, index] = args;
    const [, name] = /^\w+ (.+)$/.exec(tokens[index].info) ?? [];
    return `${name ? `<p class="file">${md.utils.escapeHtml(name)}</p>` : ""}${fence(...args)}`;
  };
}
