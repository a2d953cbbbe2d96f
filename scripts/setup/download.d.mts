export interface Artifact {
  tool: string;
  /** `{os}` and `{arch}` are filled in. */
  url: string;
  /** The file inside a tar.gz; without it the download is the binary itself. */
  member?: string;
  /** Where the release site publishes the checksum; `{url}` is the file's own address. */
  sums?: string;
  /** By `<os>-<arch>`. */
  sha256: Readonly<Record<string, string>>;
}

export declare function checksums(): { artifacts: readonly Artifact[] };
export declare function pinnedFor(
  artifacts: readonly Artifact[],
  target: string,
): { tool: string; url: string; member: string | undefined; sha256: string }[];
export declare function matches(bytes: Uint8Array, sha256: string): boolean;
