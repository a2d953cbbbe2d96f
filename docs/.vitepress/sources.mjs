// The Markdown of each page, beside the page: /guides/on-call.html and /guides/on-call.md.
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";

/** Writes the source of each page of `srcDir` into the directory of the site. */
export function writeSources({ pages, srcDir, outDir }) {
  for (const page of pages) {
    const file = join(srcDir, page);
    const text = readFileSync(file, "utf8").replaceAll(/<!--@include: (\S+)-->/g, (_, path) =>
      readFileSync(join(dirname(file), path), "utf8"),
    );
    const target = join(outDir, page);
    mkdirSync(dirname(target), { recursive: true });
    writeFileSync(target, text);
  }
}
