export interface Release {
  readonly name: string;
  readonly tag: string;
}

/** The versions of these tags, the newest first. */
export function releasesOf(tags: readonly string[]): Release[];

/** The releases of the repository in `root`. */
export function listReleases(root: string): Release[];

/** Writes the files of a tag that the site is made of into `dir`. */
export function extractPages(root: string, tag: string, dir: string): void;
