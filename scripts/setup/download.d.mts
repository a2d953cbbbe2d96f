import type { Release } from "./releases.mjs";

type Texts = Readonly<Record<string, string>>;

export interface DownloadOptions {
  /** `linux-amd64`; default: this machine. */
  target?: string;
  env?: Readonly<Record<string, string | undefined>>;
  pinnedOnly?: boolean;
  /** Pinned checksums by address; default: checksums.json. */
  known?: Texts;
  /** What to choose from; default: the files of versions.mjs for `target`. */
  files?: readonly Release[];
}

export declare function download(
  missing: readonly string[],
  dir: string,
  options?: DownloadOptions,
): Promise<string[]>;
