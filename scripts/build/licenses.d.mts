import type { Metafile } from "../build.mjs";

/** The directories below `root` of the packages in the bundles, and of `further` packages; sorted, without duplicates. */
export function packageDirectories(
  root: string,
  metafiles: readonly Pick<Metafile, "inputs" | "outputs">[],
  further?: readonly string[],
): string[];

/** The content of THIRD-PARTY-LICENSES. Throws Error for a package without a licence text. */
export function thirdPartyLicenses(root: string, directories: readonly string[]): string;
