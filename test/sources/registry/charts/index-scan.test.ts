import { expect, test } from "vitest";

import { IndexScanner } from "../../../../src/sources/registry/charts/index-scan.ts";
import { toYaml } from "../../../../src/base/index.ts";

const HEX = "0123456789abcdef".repeat(4);

/** The versions of the chart `web`, of a text that arrives in pieces of this size. */
function versionsIn(text: string, size = 7, charts = ["web"]): unknown {
  const scan = new IndexScanner(charts);
  for (let at = 0; at < text.length; at += size) scan.addText(text.slice(at, at + size));
  return scan.finish().get("web");
}

const version = (text: string, digest: string | undefined = `sha256:${HEX}`) => ({
  version: text,
  url: `web-${text}.tgz`,
  digest,
});

/** Versions in flow style, more than are parsed whole. */
const LONG = Array.from({ length: 5000 }, () => "{version: 1.0.0, urls: [web.tgz]}").join(",\n    ");

const HELM = `apiVersion: v1
entries:
  other:
  - apiVersion: v2
    version: 9.9.9
    urls:
    - other.tgz
  web:
  - apiVersion: v2
    created: "2026-01-01T00:00:00Z"
    dependencies:
    - name: part
      version: 0.0.1
      urls: [part.tgz]
    description: |
      version: 6.6.6
      digest: none
    digest: ${HEX}
    name: web
    urls:
    - web-2.0.0.tgz
    version: 2.0.0
  - digest: ${HEX}
    urls:
    - web-1.0.0.tgz
    version: 1.0.0
  web-more:
  - version: 8.8.8
    urls: [more.tgz]
generated: "2026-01-01T00:00:00Z"
`;

/** The same index with a part in flow style, at each place where YAML allows it. */
function flowForms(): [string, string][] {
  const one = (each: string): string =>
    `{name: web, description: "a: b, {c}", urls: [web-${each}.tgz], version: ${each},\n        appVersion: "1",\n        digest: ${HEX}}`;
  const [two, both] = [one("2.0.0"), `[${one("2.0.0")},\n       ${one("1.0.0")}]`];
  const block = `    - version: 1.0.0\n      digest: ${HEX}\n      urls: [web-1.0.0.tgz]\n`;
  return [
    ["versions in flow style", `entries:\n  web:\n    - ${two}\n    -\n      ${one("1.0.0")}\n`],
    ["one version in flow style", `entries:\n  web:\n    - ${two}\n${block}  z:\n    - version: 3.0.0\n`],
    ["versions of a chart in flow style", `entries:\n  web: ${both}\n  other: []\n`],
    ["versions in flow style on the next line", `entries:\n  web:\n    ${both}\n`],
    ["charts in flow style", `apiVersion: v1\nentries: {web: ${both}}\n`],
    [
      "charts in flow style on the next line",
      `entries:\n  {other: [],\n   web: ${both}}\ngenerated: "now"\n`,
    ],
    ["all in flow style", `{apiVersion: v1, entries: {web: ${both}}}\n`],
    ["all in flow style after a comment", `# index\n{entries: {web: ${both}}}\n`],
    ["all in flow style after dashes", `--- {entries: {web: ${both}}}\n`],
    ["an anchor", `entries:\n  web: &all\n    - ${two}\n${block}`],
    [
      "an anchor of a version",
      `entries:\n  web:\n    - &two\n      version: 2.0.0\n      digest: ${HEX}\n      urls: [web-2.0.0.tgz]\n${block}`,
    ],
  ];
}

test.each([
  ["helm", HELM],
  ["with all lines indented", HELM.replaceAll(/^(?=.)/gm, " ")],
  ["with all lines after the dashes indented", `---\n${HELM.replaceAll(/^(?=.)/gm, "  ")}`],
  ["with ends of lines of Windows", HELM.replaceAll("\n", "\r\n")],
  ["with quoted names", HELM.replace("  web:", '  "web":').replace("entries:", "'entries':")],
  [
    "with a beginning of a document and comments",
    `# index\n---\n${HELM.replace("  web:", "  # web\n  web: # w")}`,
  ],
  [
    "with indented lists",
    toYaml({
      apiVersion: "v1",
      entries: {
        web: ["2.0.0", "1.0.0"].map((each) => ({
          name: "web",
          version: each,
          urls: [`web-${each}.tgz`],
          digest: HEX,
        })),
      },
    }),
  ],
  [
    "with dashes on lines of their own",
    `entries:\n    web:\n      -\n        version: 2.0.0\n        urls: [web-2.0.0.tgz]\n        digest: sha256:${HEX}\n      -\n        version: "1.0.0"\n        digest: ${HEX.toUpperCase()}\n        urls:\n            - "web-1.0.0.tgz"\n`,
  ],
  [
    "JSON",
    JSON.stringify({
      apiVersion: "v1",
      entries: {
        web: ["2.0.0", "1.0.0"].map((each) => ({
          version: each,
          urls: [`web-${each}.tgz`],
          digest: HEX,
        })),
      },
    }),
  ],
  ...flowForms(),
])("the versions of a chart in an index: %s", (_, text) => {
  for (const size of [1, 7, text.length])
    expect(versionsIn(text, size)).toEqual([version("2.0.0"), version("1.0.0")]);
});

test("what is removed, has no archive or no version is left out; a digest may be missing", () => {
  const text = `entries:
  web:
  - {version: 5.0.0, urls: [x], removed: true}
  - version: 4.0.0
    urls: [x]
    removed: true
  - version: 3.0.0
  - urls: [x]
  - version: 2.0
    urls: [x]
  - version: 1.0.0
    urls: [web-1.0.0.tgz]
    digest: ""
`;
  expect(versionsIn(text)).toEqual([{ ...version("1.0.0"), digest: undefined }]);
});

test.each([
  ["entries: {}\n"],
  ["entries:\n  web: []\n"],
  ["entries:\n  constructor:\n  - version: 1.0.0\n"],
  ['{"entries": {}}'],
])("no version: %j", (text) => {
  expect(versionsIn(text)).toBeUndefined();
});

test.each([
  ["<html>not found</html>", "has no entries"],
  ["", "has no entries"],
  [`entries: {web: [${LONG}]}\n`, "entries is not in block style, and the index has more than 131072"],
  [`entries:\n  {web: [${LONG}]}\n`, "entries is not in block style"],
  [`entries:\n  web: [${LONG}]\n`, "web is not in block style"],
  [`entries:\n  web:\n    [${LONG}]\n`, "web is not in block style"],
  [`entries:\n  web:\n  - *one\n${"  - version: 1.0.0\n".repeat(10_000)}`, "web is not in block style"],
  [`# index\n{entries: {web: [${LONG}]}}\n`, "it is not in block style"],
  [`{entries: {web: [${LONG}]}}\n`, "JSON"],
  [
    `entries:\n  web:\n  - {version: 1.0.0, urls: [${'"x",\n     '.repeat(20_000)}]}\n`,
    "more than 65536 characters",
  ],
  ["entries:\n  web:\n  - {version: 1.0.0\n", "the entry of web: "],
  ["{a: b}", "has no entries"],
  ["{", "JSON"],
  [`entries:\n  web:\n  - version: 1.0.0\n    urls: [x]\n    digest: md5:1\n`, "a digest that is no SHA-256"],
  [`entries:\n  web:\n  - version: 1.0.0\n    urls: [x]\n    digest: 12\n`, "a digest that is no SHA-256"],
  [`entries:\n  web:\n  - version: "1.0.0\n    urls: [x]\n`, "the entry of web: the quote in line 1"],
  [`entries:\n  web:\n  - urls: *other\n`, "the entry of web: unidentified alias"],
  [`entries:\n  other: ${"x".repeat(2 << 20)}\n`, "one line of more than"],
  [`entries:\n  web:\n  - urls: [${'"x",\n     '.repeat(20_000)}]\n`, "more than 65536 characters"],
  [`entries:\n  web:\n${"  - {}\n".repeat(2)}  - urls: ${"[".repeat(300)}\n`, ""],
  [`{"entries": ${"[".repeat(1000)}`, ""],
])("refused: %.60j", (text, message) => {
  expect(() => versionsIn(text, 1000)).toThrow(message);
});

test("too many versions", () => {
  const text = `entries:\n  web:\n${"  - version: 1.0.0\n    urls: [x]\n".repeat(10_001)}`;
  expect(() => versionsIn(text, 100_000)).toThrow("more than 10000 versions");
});

test("a large index of other charts is read without keeping it", () => {
  const other = "  - version: 1.0.0\n    description: >-\n      text\n    urls: [x]\n".repeat(20_000);
  const scan = new IndexScanner(["web"]);
  scan.addText("entries:\n");
  for (let chart = 0; chart < 20; chart += 1) scan.addText(`  chart${chart}:\n${other}`);
  scan.addText(`  web:\n  - version: 1.0.0\n    urls: [web-1.0.0.tgz]\n    digest: ${HEX}\n`);
  expect(scan.finish()).toEqual(new Map([["web", [version("1.0.0")]]]));
});
