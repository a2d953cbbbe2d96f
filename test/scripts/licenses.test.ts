import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";

import { packageDirectories, spdxDocument, thirdPartyLicenses } from "../../scripts/build/licenses.mjs";
import { bundlePage } from "../../scripts/build.mjs";

const root = join(import.meta.dirname, "../..");

function packagesIn(files: Readonly<Record<string, string>>): string {
  const dir = mkdtempSync(join(tmpdir(), "licenses-"));
  onTestFinished(() => rmSync(dir, { recursive: true, force: true }));
  for (const [path, text] of Object.entries(files)) {
    mkdirSync(join(dir, path, ".."), { recursive: true });
    writeFileSync(join(dir, path), text);
  }
  return dir;
}

const inputs = (...paths: readonly string[]) =>
  Object.fromEntries(paths.map((path) => [path, { bytesInOutput: 1 }]));
const metafile = (all: Readonly<Record<string, { bytesInOutput: number }>>) => ({
  inputs: all,
  outputs: { "main.js": { bytes: 1, inputs: all } },
});

test("each package of a bundle counts once, at any depth, and none of which nothing is left", () => {
  const all = {
    ...inputs(
      "src/main.ts",
      "node_modules/a/x.js",
      "node_modules/a/y.js",
      "node_modules/a/node_modules/@s/b/z.js",
    ),
    "node_modules/unused/x.js": { bytesInOutput: 0 },
  };
  expect(packageDirectories("/", [metafile(all)])).toEqual([
    "node_modules/a",
    "node_modules/a/node_modules/@s/b",
  ]);
});

test("a package has its licence and its notice; one without a licence stops the build", () => {
  const about = (name: string): string => JSON.stringify({ name, version: "1.0.0", license: "MIT" });
  const dir = packagesIn({
    "node_modules/a/package.json": about("a"),
    "node_modules/a/LICENSE.md": "text of a",
    "node_modules/a/NOTICE": "notice of a",
    "node_modules/b/package.json": about("b"),
  });
  const text = thirdPartyLicenses(dir, ["node_modules/a"]);
  expect(text).toContain("a 1.0.0 (MIT)\n\ntext of a\n\nnotice of a\n");
  expect(() => thirdPartyLicenses(dir, ["node_modules/b"])).toThrow(/^b ships no licence file/);
});

test("the packages of the page have licence texts", async () => {
  const to = mkdtempSync(join(tmpdir(), "licenses-page-"));
  onTestFinished(() => rmSync(to, { recursive: true, force: true }));
  const directories = packageDirectories(root, [await bundlePage(to)]);
  expect(directories).toContain("node_modules/preact");
  expect(thirdPartyLicenses(root, directories)).toMatch(/^preact \S+ \(MIT\)\n\nThe MIT License/m);
});

test("the SBOM lists the program and each package of the bundle, with its licence", () => {
  const dir = packagesIn({
    "node_modules/@s/b/package.json": JSON.stringify({ name: "@s/b", version: "2.0.0", license: "ISC" }),
  });
  const about = { name: "addon-operator", version: "1.2.3", license: "Apache-2.0" };
  const { name, packages, relationships } = spdxDocument(dir, ["node_modules/@s/b"], about);
  expect(name).toBe("addon-operator@1.2.3");
  expect(packages).toMatchObject([
    { SPDXID: "SPDXRef-Package-addon-operator-1.2.3", licenseDeclared: "Apache-2.0" },
    {
      SPDXID: "SPDXRef-Package--s-b-2.0.0",
      versionInfo: "2.0.0",
      licenseDeclared: "ISC",
      externalRefs: [{ referenceLocator: "pkg:npm/%40s/b@2.0.0" }],
    },
  ]);
  expect(relationships.map((each) => Object.values(each).join(" "))).toEqual([
    "SPDXRef-DOCUMENT DESCRIBES SPDXRef-Package-addon-operator-1.2.3",
    "SPDXRef-Package-addon-operator-1.2.3 CONTAINS SPDXRef-Package--s-b-2.0.0",
  ]);
});
