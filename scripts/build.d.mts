/** What esbuild says of a bundle. */
export interface Metafile {
  readonly inputs: Readonly<Record<string, unknown>>;
  readonly outputs: Readonly<
    Record<
      string,
      {
        readonly bytes: number;
        readonly inputs: Readonly<Record<string, { readonly bytesInOutput: number }>>;
      }
    >
  >;
}

/** Builds the page of the operator into the directory `to`. */
export function bundlePage(to?: string): Promise<Metafile>;

/** Flags with which the launcher starts Node, separated by blanks. */
export const NODE_FLAGS: string;
