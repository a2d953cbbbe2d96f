import { readFile } from "node:fs/promises";

import { expect, test } from "vitest";

import { parseMetrics } from "../../src/hooks/index.ts";
import { SERIES } from "../../src/metrics/index.ts";
import { ACTIVATIONS } from "../../src/metrics/activation.ts";

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

test("docs/METRICS.md lists every activation of modules and reloads", async () => {
  const text = await readFile(page, "utf8");
  const [, told = ""] = /^`activation` tells why a module ran or a reload began: (.*?)\. /m.exec(text) ?? [];
  const known = [...ACTIVATIONS.flatMap(([, ofModule, ofReload]) => [ofModule, ofReload]), "Other"];
  expect(told.replaceAll("`", "").split(", ").toSorted()).toEqual([...new Set(known)].toSorted());
});

test("every operation that docs/METRICS.md prints is understood", async () => {
  const text = await readFile(page, "utf8");
  const fenced = [...text.matchAll(/^```json\n([^]*?)^```$/gm)].map(([, block = ""]) => block);
  const inline = [...text.matchAll(/`(\{"action[^`]*)`/g)].map(([, code = ""]) => code);
  expect([fenced.length, inline.length]).toEqual([1, 2]);
  const named = (code: string) => code.replace("…", "backups_total");
  expect([...fenced, ...inline].flatMap((code) => parseMetrics(named(code)))).toHaveLength(7);
});
