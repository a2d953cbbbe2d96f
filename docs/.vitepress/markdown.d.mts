import type { MarkdownRenderer } from "vitepress";

/** The anchor of a heading. */
export function slugify(heading: string): string;

/** The plugin for pages that are below `root`/docs; `repository` is the address of the files of the repository. */
export function sitePlugin(places: {
  root: string;
  repository: string | undefined;
}): (md: MarkdownRenderer) => void;
