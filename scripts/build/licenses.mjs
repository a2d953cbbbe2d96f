// The licence texts of the packages whose code is in the bundle, and the list of these packages in SPDX.
import { existsSync, readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";

/** A file with the licence of a package. */
const LICENSE_FILE = /^(?:licen[cs]e|copying)(?:[-.].*)?$/i;
const NOTICE_FILE = /^notice(?:\..*)?$/i;
const INPUT = /^(.*node_modules\/((?:@[^/]+\/)?[^/]+))\//;

/**
 * The directories of the packages among the inputs of esbuild, and those of `further` packages that are copied beside the bundle,
 * below `root`. Sorted and without duplicates.
 */
export function packageDirectories(root, metafiles, further = []) {
  const inputs = metafiles.flatMap(({ inputs, outputs }) => {
    // An input of which nothing is left is not part of the bundle.
    const used = Object.values(outputs).flatMap((output) => Object.entries(output.inputs));
    const bytes = new Map();
    for (const [input, { bytesInOutput }] of used) bytes.set(input, (bytes.get(input) ?? 0) + bytesInOutput);
    return Object.keys(inputs).filter((input) => (bytes.get(input) ?? 0) > 0);
  });
  const directories = inputs.flatMap((input) => INPUT.exec(input)?.[1] ?? []);
  const copied = further
    .map((name) => join("node_modules", name))
    .filter((dir) => existsSync(join(root, dir)));
  return [...new Set([...directories, ...copied])].toSorted((a, b) => a.localeCompare(b));
}

const readMatching = (dir, pattern) =>
  readdirSync(dir)
    .filter((file) => pattern.test(file))
    .toSorted()
    .map((file) => readFileSync(join(dir, file), "utf8").trim());

/** One package with the text of its licence. Throws Error if the package has none. */
function section(root, dir) {
  const path = join(root, dir);
  const about = JSON.parse(readFileSync(join(path, "package.json"), "utf8"));
  const licenses = readMatching(path, LICENSE_FILE);
  const texts = licenses.length > 0 ? licenses : siblingLicense(root, about);
  return [
    `${about.name} ${about.version} (${about.license})`,
    ...texts,
    ...readMatching(path, NOTICE_FILE),
  ].join("\n\n");
}

/** Packages that ship no licence file, and the package of the same repository that does. */
const SIBLINGS = [
  [/^@sigstore\//, "@sigstore/bundle"],
  [/^@koromix\/koffi-/, "koffi"],
];

/** The licence of a package without a file: that of its sibling, if both name the same licence. Throws Error otherwise. */
function siblingLicense(root, { name, license }) {
  const sibling = SIBLINGS.find(([pattern]) => pattern.test(name))?.[1];
  const dir = sibling === undefined ? undefined : join(root, "node_modules", sibling);
  const own = dir && JSON.parse(readFileSync(join(dir, "package.json"), "utf8")).license;
  if (own !== license)
    throw new Error(`${name} ships no licence file: add its sibling to scripts/build/licenses.mjs`);
  return readMatching(dir, LICENSE_FILE);
}

const RULE = `\n\n${"=".repeat(80)}\n\n`;

/** The content of THIRD-PARTY-LICENSES. */
export function thirdPartyLicenses(root, directories) {
  const intro = "This program contains the code of the following packages, under these licences.";
  return `${[intro, ...directories.map((dir) => section(root, dir))].join(RULE)}\n`;
}

/**
 * The SBOM of the bundle in the format of SPDX 2.3: the program `about` (name, version, license), and the packages in
 * `directories`. `npm sbom --omit=dev` would leave out packages that development dependencies need, too.
 */
export function spdxDocument(root, directories, about) {
  const packages = directories.map((dir) =>
    JSON.parse(readFileSync(join(root, dir, "package.json"), "utf8")),
  );
  const [program, ...parts] = [about, ...packages].map(spdxPackage);
  const created = new Date(Number(process.env.SOURCE_DATE_EPOCH) * 1000 || Date.now());
  return {
    spdxVersion: "SPDX-2.3",
    dataLicense: "CC0-1.0",
    SPDXID: "SPDXRef-DOCUMENT",
    name: `${about.name}@${about.version}`,
    documentNamespace: `https://spdx.org/spdxdocs/${about.name}-${about.version}`,
    creationInfo: {
      created: `${created.toISOString().slice(0, 19)}Z`,
      creators: [`Tool: ${about.name}-build`],
    },
    packages: [program, ...parts],
    relationships: [
      relate("SPDXRef-DOCUMENT", "DESCRIBES", program),
      ...parts.map((part) => relate(program.SPDXID, "CONTAINS", part)),
    ],
  };
}

const relate = (spdxElementId, relationshipType, { SPDXID: relatedSpdxElement }) => ({
  spdxElementId,
  relationshipType,
  relatedSpdxElement,
});

function spdxPackage({ name, version, license = "NOASSERTION" }) {
  return {
    SPDXID: `SPDXRef-Package-${`${name}-${version}`.replaceAll(/[^\w.-]+/g, "-")}`,
    name,
    versionInfo: version,
    downloadLocation: "NOASSERTION",
    filesAnalyzed: false,
    licenseConcluded: license,
    licenseDeclared: license,
    copyrightText: "NOASSERTION",
    externalRefs: [
      {
        referenceCategory: "PACKAGE-MANAGER",
        referenceType: "purl",
        referenceLocator: `pkg:npm/${name.replace("@", "%40")}@${version}`,
      },
    ],
  };
}
