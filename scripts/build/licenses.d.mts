import type { Metafile } from "../build.mjs";

/** The directories below `root` of the packages in the bundles, and of `further` packages; sorted, without duplicates. */
export function packageDirectories(
  root: string,
  metafiles: readonly Pick<Metafile, "inputs" | "outputs">[],
  further?: readonly string[],
): string[];

/** The content of THIRD-PARTY-LICENSES. Throws Error for a package without a licence text. */
export function thirdPartyLicenses(root: string, directories: readonly string[]): string;

export interface SpdxPackage {
  readonly SPDXID: string;
  readonly name: string;
  readonly versionInfo: string;
  readonly licenseDeclared: string;
}

/** The SBOM of the bundle in the format of SPDX 2.3. */
export function spdxDocument(
  root: string,
  directories: readonly string[],
  about: { readonly name: string; readonly version: string; readonly license: string },
): {
  readonly name: string;
  readonly packages: readonly SpdxPackage[];
  readonly relationships: readonly Readonly<Record<string, string>>[];
};
