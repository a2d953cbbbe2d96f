export interface Release {
  /** The member of the tar.gz for each tool; "" when the file is the tool itself. */
  tools: Readonly<Record<string, string>>;
  url: string;
  /** Where the release site publishes the checksum. */
  sums: string;
  /** The pinned SHA-256 or SHA-512, if there is one. */
  checksum: string | undefined;
}

export declare function machine(platform?: string, arch?: string): string;
export declare function checksums(): Readonly<Record<string, string>>;
export declare function releasesFor(target: string, known?: Readonly<Record<string, string>>): Release[];
export declare function choose(tools: readonly string[], files: readonly Release[]): Release[];
export declare function mirrored(url: string, env?: Readonly<Record<string, string | undefined>>): string;
export declare function checksumIn(text: string, file: string): string | undefined;
