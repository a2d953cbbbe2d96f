/** The files of the page: built by `scripts/build.mjs`, read when they are asked for. */

import { existsSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";

const FILES: ReadonlyMap<string, readonly [name: string, type: string]> = new Map([
  ["/ui/", ["index.html", "text/html; charset=utf-8"]],
  ["/ui/page.js", ["page.js", "text/javascript; charset=utf-8"]],
  ["/ui/page.css", ["page.css", "text/css; charset=utf-8"]],
]);

/** Whether a path is one of the files. */
export function isFile(path: string): boolean {
  return FILES.has(path);
}

/** The file at a path, from the directory `dir`; undefined where it was not built. */
export async function pageFile(
  path: string,
  dir = pageDir(),
): Promise<{ type: string; body: string } | undefined> {
  const [name = "", type = ""] = FILES.get(path) ?? [];
  const file = `${dir ?? ""}/${name}`;
  return existsSync(file) ? { type, body: await readFile(file, "utf8") } : undefined;
}

/** Beside the bundle, or where the last build left it. */
function pageDir(): string | undefined {
  return ["./page", "../../dist/page"]
    .map((path) => fileURLToPath(new URL(path, import.meta.url)))
    .find((path) => existsSync(`${path}/page.js`));
}
