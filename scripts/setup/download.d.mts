type Texts = Readonly<Record<string, string>>;

export interface DownloadOptions {
  /** `linux-amd64`; default: this machine. */
  target?: string;
  env?: Readonly<Record<string, string | undefined>>;
  pinnedOnly?: boolean;
  /** Pinned checksums by address; default: checksums.json. */
  known?: Texts;
}

export declare function download(
  missing: readonly string[],
  dir: string,
  options?: DownloadOptions,
): Promise<string[]>;
