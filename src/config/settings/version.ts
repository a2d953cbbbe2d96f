/** Version of the product. */

/** Set by `scripts/build.mjs`; the program that runs from its sources has none. */
declare const BUILD_VERSION: string | undefined;

/** The release that this is, or will become; the same as in package.json and the chart (a test compares them). */
export const RELEASE = "0.3.0";

/** `0.3.0` for a build of the release's tag, else `0.3.0-dev+COMMIT`, or `0.3.0-dev` where the commit is not known. */
export const VERSION = typeof BUILD_VERSION === "undefined" ? `${RELEASE}-dev` : BUILD_VERSION;
