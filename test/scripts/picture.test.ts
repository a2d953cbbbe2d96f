import { readFileSync } from "node:fs";
import { join } from "node:path";

import { describe, expect, test } from "vitest";

import { linesOf, sameEachTime, svgOf, tourIn } from "../../scripts/picture/render.mjs";

const root = join(import.meta.dirname, "../..");
const bold = (text: string): string => `\u001b[1m${text}\u001b[0m`;

const recording = [
  { text: "$ npm run demo", at: 0 },
  { text: bold("[  0.0 s] Begin"), at: 20 },
  { text: "a < b && c > d", at: 20_000 },
  { text: "x".repeat(300), at: 20_010 },
];
const svg = svgOf(recording, "A & B");
/** When each frame begins, in percent, and where the text is then, in lines. */
const frames = [...svg.matchAll(/([\d.]+)% \{ transform: translateY\((-?\d+)px\)/g)].map(([, at, y]) => ({
  at: Number(at),
  y: Number(y),
}));

describe("a picture of a terminal", () => {
  test("holds the lines as text, without colours, cut where they are too long", () => {
    expect(linesOf(svg)).toEqual([
      "$ npm run demo",
      "[  0.0 s] Begin",
      "a < b && c > d",
      `${"x".repeat(103)}…`,
    ]);
    expect(svg).toContain("<title>A &amp; B</title>");
  });

  test("plays as it was recorded, without long waits", () => {
    expect(frames).toHaveLength(2);
    const [first, second] = frames;
    expect(first?.at).toBe(0);
    // 1.5 s of 6.5 s: the wait, and five seconds to look at the end.
    expect(second?.at).toBeCloseTo(23, 0);
    expect((first?.y ?? 0) - (second?.y ?? 0)).toBe(2 * 18);
  });

  test("shows the end where nothing may move", () => {
    expect(svg).toContain(`g { transform: translateY(${frames.at(-1)?.y}px);`);
    expect(svg).toMatch(/prefers-reduced-motion: reduce\) \{ g \{ animation: none; \} \}/);
  });
});

describe("the picture of README.md", () => {
  const picture = readFileSync(join(root, ".github", "demo.svg"), "utf8");
  const displayed = linesOf(picture);

  test("is of a demo in which every step came true", () => {
    expect(readFileSync(join(root, "README.md"), "utf8")).toContain("](.github/demo.svg)");
    expect(displayed.at(-1)).toMatch(/All steps succeeded, and no process remains\.$/);
    expect(tourIn(displayed).length).toBeGreaterThan(20);
  });

  test("is small, fetches nothing, runs nothing, and is good to see on light and dark", () => {
    expect(picture.length).toBeLessThan(20_000);
    expect(picture.replace(' xmlns="http://www.w3.org/2000/svg"', "")).not.toMatch(
      /https?:\/\/(?!127\.0\.0\.1)|url\(|@import|@font-face|<script|<image|href/,
    );
    expect(picture).toContain("prefers-color-scheme: dark");
  });
});

test("what differs from run to run is left out of comparisons", () => {
  const run = (at: string, id: string, revision: number): string[] => [
    bold(`[${at}] Edit the ConfigMap`),
    `it was there ${revision} ms after`,
    `clusterId: ${id}`,
    "NAME   READY     LAST RUN",
    `web    Unknown   ${revision}s`,
    "limitrange/guard-rails",
  ];
  const first = sameEachTime(run("  9.1 s", "227cd7880fae0b98", 958));
  expect(first).toEqual(sameEachTime(run("119.1 s", "78b9852819214d31", 12)));
  expect(first.slice(3)).toEqual(["NAME READY LAST RUN", "web", "limitrange/guard-rails"]);
});
