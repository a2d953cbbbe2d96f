import { readFile } from "node:fs/promises";

import { expect, test } from "vitest";

import { SERIES } from "../../src/metrics/index.ts";

const page = new URL("../../docs/METRICS.md", import.meta.url);
const ROW = /^\| `addon_operator_(\w+)` \| (\w+) \| ([^|]*) \| ([^|]*) \|$/gm;

test("docs/METRICS.md lists every series of the registry, with its type and labels", async () => {
  const text = await readFile(page, "utf8");
  const listed = [...text.matchAll(ROW)].map(([, name, type, labels = "", help = ""]) => ({
    name,
    type,
    labels: labels === "–" ? [] : labels.split(", ").map((label) => label.replaceAll("`", "")),
    help: help.trim(),
  }));
  const known = Object.values(SERIES).map(({ name, type, labels, help }) => ({
    name,
    type,
    labels: [...labels],
    help,
  }));
  const byName = (a: { name?: string | undefined }, b: { name?: string | undefined }): number =>
    (a.name ?? "") < (b.name ?? "") ? -1 : 1;
  expect(listed.toSorted(byName)).toEqual(known.toSorted(byName));
});
