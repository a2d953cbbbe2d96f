/** Writes the source of each page of `srcDir` into the directory of the site. */
export function writeSources(site: { pages: readonly string[]; srcDir: string; outDir: string }): void;
