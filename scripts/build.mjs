// Bundles the program into dist/main.js and its chunks, with what it reads at run time beside it: CRDs and the shell library.
import { analyzeMetafile, build } from "esbuild";
import { chmodSync, cpSync, existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { packageDirectories, spdxDocument, thirdPartyLicenses } from "./build/licenses.mjs";
import { slim } from "./build/slim.mjs";
import { buildVersion } from "./build/version.mjs";
import { root } from "./setup/versions.mjs";

/** The page of the operator (docs/guides/web-page.md) in `to`: one script, one style sheet, and the frame that names them. */
export async function bundlePage(to = join(dist, "page")) {
  const from = join(root, "page");
  const { metafile } = await build({
    entryPoints: { page: join(from, "main.tsx"), style: join(from, "page.css") },
    entryNames: "page",
    outdir: to,
    bundle: true,
    minify: true,
    format: "esm",
    target: ["chrome123", "firefox120", "safari17.5"],
    charset: "ascii",
    legalComments: "none",
    metafile: true,
    logLevel: "warning",
  });
  cpSync(join(from, "index.html"), join(to, "index.html"));
  return metafile;
}

const sizeOf = ({ outputs }) => Object.values(outputs).reduce((sum, each) => sum + each.bytes, 0);

/** Directories of the repository that go beside the bundle. */
const copied = ["crds", "shell"];

// CommonJS dependencies inside an ES module still ask for `require`, `__filename` and `__dirname`.
const banner = [
  "#!/usr/bin/env node",
  'import { createRequire as __createRequire } from "node:module";',
  'import { fileURLToPath as __fileURLToPath } from "node:url";',
  "const require = __createRequire(import.meta.url);",
  "const __filename = __fileURLToPath(import.meta.url);",
  'const __dirname = __fileURLToPath(new URL(".", import.meta.url));',
].join("\n");

/**
 * V8 lets its young generation grow to three times 16 MiB, most of it garbage (CONTRIBUTING.md, "Code that only improves speed or memory").
 * With most other flags here, Node compiles its own modules at each start: src/main/v8-flags.ts sets those.
 */
export const NODE_FLAGS = "--max-semi-space-size=4";

/** A program by its name, also through links, run by a Node that is new enough: the one among the packages, if it is there. */
const launcher = (script, flags = "") => `#!/bin/sh
file=$(readlink -f -- "$0")
here=\${file%/*}
node=$here/../node_modules/.bin/node
[ -x "$node" ] || node=node
exec "$node" ${flags && `${flags} `}"$here/${script}" "$@"
`;

/** `kubectl addon …`: kubectl looks for this name on the PATH. What Node compiles is kept: a third of the time. */
const PLUGIN = `#!/usr/bin/env node
import { existsSync } from "node:fs";
import module from "node:module";
import { homedir } from "node:os";
const caches = process.env.XDG_CACHE_HOME || homedir() + "/.cache";
// A Node that is too old does not have the function; main.js reports it.
if (existsSync(caches)) module.enableCompileCache?.(caches + "/addon-operator/compiled");
process.argv.splice(2, 0, "addon");
await import("./main.js");
`;

const dist = join(root, "dist");

/** The bundle as a package of its own, for `npm pack ./dist`: it needs no other but those that have native parts. */
function packageOf() {
  const own = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));
  const { name, version, description, license, type, engines, bin, dependencies } = own;
  const { "node-jq": jq } = own.optionalDependencies;
  const inside = Object.entries(bin).map(([command, path]) => [command, path.replace("dist/", "")]);
  return {
    name,
    version,
    description,
    license,
    type,
    engines,
    bin: Object.fromEntries(inside),
    dependencies: { koffi: dependencies.koffi },
    optionalDependencies: { "node-jq": jq },
  };
}

export async function bundle() {
  rmSync(dist, { recursive: true, force: true });
  mkdirSync(dist);
  const outfile = join(dist, "main.js");
  const result = await build({
    entryPoints: [join(root, "src", "main.ts")],
    outdir: dist,
    bundle: true,
    // What a command does not need is not loaded.
    splitting: true,
    platform: "node",
    format: "esm",
    target: "node24",
    minifySyntax: true,
    minifyWhitespace: true,
    plugins: [slim],
    // node-jq is optional: only looked for where there is no jq on PATH. koffi has a native part.
    external: ["node-jq", "koffi"],
    legalComments: "none",
    banner: { js: banner },
    define: { BUILD_VERSION: JSON.stringify(buildVersion(root)) },
    metafile: true,
    logLevel: "warning",
  });
  for (const file of Object.keys(result.metafile.outputs)) mustBeAscii(file);
  chmodSync(outfile, 0o755);
  for (const name of copied.filter((each) => existsSync(join(root, each))))
    cpSync(join(root, name), join(dist, name), { recursive: true });
  copyNative();
  writeFileSync(join(dist, "addon-operator"), launcher("main.js", NODE_FLAGS), { mode: 0o755 });
  writeFileSync(join(dist, "kubectl-addon"), launcher("kubectl-addon.js"), { mode: 0o755 });
  writeFileSync(join(dist, "kubectl-addon.js"), PLUGIN, { mode: 0o755 });
  writeFileSync(join(dist, "package.json"), `${JSON.stringify(packageOf(), undefined, 2)}\n`);
  const page = await bundlePage();
  const packages = packageDirectories(root, [result.metafile, page], ["koffi", NATIVE]);
  writeFileSync(join(dist, "THIRD-PARTY-LICENSES"), thirdPartyLicenses(root, packages));
  const { name, license } = packageOf();
  const sbom = spdxDocument(root, packages, { name, license, version: buildVersion(root) });
  writeFileSync(join(dist, "sbom.spdx.json"), `${JSON.stringify(sbom, undefined, 2)}\n`);
  cpSync(join(root, "LICENSE"), join(dist, "LICENSE"));
  return { outfile, bytes: sizeOf(result.metafile) + sizeOf(page), metafile: result.metafile, packages };
}

/** The part of koffi for this machine. */
const NATIVE = `@koromix/koffi-${process.platform}-${process.arch}`;

/** koffi and its part for this machine: the bundle is whole without a node_modules above it. */
function copyNative() {
  const from = join(root, "node_modules");
  const to = join(dist, "node_modules");
  for (const name of [
    "koffi/package.json",
    "koffi/index.cjs",
    "koffi/src/koffi/index.cjs",
    "koffi/src/koffi/src/static.cjs",
    NATIVE,
  ])
    if (existsSync(join(from, name))) cpSync(join(from, name), join(to, name), { recursive: true });
}

/** One wider character, as in a regular expression, doubles the memory that a source takes. */
function mustBeAscii(file) {
  if (readFileSync(file).some((byte) => byte > 127)) throw new Error(`${file} is not plain ASCII`);
}

async function main() {
  const { outfile, bytes, metafile } = await bundle();
  console.log(`${outfile}: ${(bytes / 1024 / 1024).toFixed(2)} MiB`);
  if (process.argv.includes("--analyze")) console.log(await analyzeMetafile(metafile));
}

if (process.argv[1] === import.meta.filename)
  await main().catch((error) => {
    // What esbuild found it has printed itself.
    if (error.errors === undefined) console.error(error.message);
    process.exitCode = 1;
  });
