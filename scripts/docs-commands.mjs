// The commands that docs/ and README.md print, for the tests that type them.
import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { root } from "./setup/versions.mjs";

/** What a command line begins with. */
export const STARTS = /^(kubectl|helm|addon-operator|npm|node|docker) \S/;

function pages() {
  const docs = globSync("docs/**/*.md", { cwd: root }).sort();
  return ["README.md", ...docs].map((path) => ({
    page: path.replace("docs/", ""),
    text: readFileSync(join(root, path), "utf8"),
  }));
}

/** Fenced blocks of shell commands: those of a language or title of their own are hooks, values, output. */
function blocksOf(text) {
  return [...text.matchAll(/^```(.*)\n([^]*?)^```$/gm)]
    .map(([, language, block]) => ({ language, block }))
    .filter(({ language }) => ["", "sh"].includes(language));
}

/** Every command line, in blocks and in running text, continued lines joined. */
export function printedLines() {
  return pages().flatMap(({ page, text }) => {
    const fenced = blocksOf(text).flatMap(({ block }) =>
      block
        .replaceAll(/ *\\\n\s*/g, " ")
        .split("\n")
        .map((line) => line.replace(/^\$ /, "")),
    );
    const prose = text.replaceAll(/^```.*\n[^]*?^```$/gm, "");
    const inline = [...prose.matchAll(/`([^`]+)`/g)].map(([, code]) => code.replaceAll(/\s+/g, " "));
    return [...fenced, ...inline].filter((line) => STARTS.test(line)).map((line) => ({ page, text: line }));
  });
}

/** The blocks that are scripts for a cluster, each to be run as a whole. */
export function printedScripts() {
  return pages().flatMap(({ page, text }) =>
    blocksOf(text)
      .filter(({ language, block }) => language === "sh" && block.includes("kubectl "))
      .map(({ block }) => ({ page, text: block })),
  );
}

/** Whether what a command prints is an archive, not text: `bundle -`. */
export function printsArchive(line) {
  return line.endsWith(" bundle -");
}

/** What a line types inside the operator's Pod; undefined for any other line. */
export function inPod(line) {
  return /^kubectl exec deploy\/addon-operator -- (.+?)(?: > \S+)?$/.exec(line)?.[1];
}
