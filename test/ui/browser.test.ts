import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import axe from "axe-core";
import type { Browser, Page } from "playwright-core";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";

import { bundlePage } from "../../scripts/build.mjs";
import { chromiumFile, startChromium } from "../support/chromium.ts";
import { crowd, openPage, platform, shown, type PageLab } from "../support/page-lab.ts";
import { compared, difference } from "../support/pictures.ts";
import { T0 } from "../status/views.ts";

const program = chromiumFile();

interface Finding {
  readonly id: string;
  readonly nodes: readonly { readonly html: string }[];
}

let dir: string;
let browser: Browser;
let lab: PageLab;
let page: Page;
/** What the browser complained about: errors, and what the Content-Security-Policy forbids. */
let complaints: string[];
let asked: string[];

beforeAll(async () => {
  if (program === undefined) return;
  dir = mkdtempSync(join(tmpdir(), "ui-"));
  await bundlePage(dir);
  browser = await startChromium(program);
}, 60_000);

afterAll(async () => {
  await browser?.close();
  rmSync(dir ?? "", { recursive: true, force: true });
});

async function open(colorScheme: "light" | "dark", modules = platform()): Promise<void> {
  lab = await openPage(modules, { dir });
  page = await browser.newPage({ viewport: { width: 1280, height: 600 }, colorScheme });
  complaints = [];
  asked = [];
  page.on("pageerror", (error) => complaints.push(error.message));
  page.on("console", (line) => complaints.push(line.text()));
  page.on("request", (request) => asked.push(new URL(request.url()).origin));
  await page.clock.setFixedTime(T0);
}

const visit = async (view: string): Promise<void> => {
  await page.goto(`${lab.url}/ui/#/${view}`);
  await page.locator("main h2").first().waitFor({ state: "attached" });
};

async function leave(): Promise<void> {
  await page.close();
  await lab.close();
  expect(complaints).toEqual([]);
  expect([...new Set(asked)]).toEqual([lab.url]);
  expect(lab.failures).toEqual([]);
}

/** What a screen reader, or somebody who sees little, would stumble over. */
async function findings(): Promise<string[]> {
  await page.evaluate(axe.source);
  const found = await page.evaluate<readonly Finding[]>("axe.run().then(({violations}) => violations)");
  return found.map(({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html).join(" ")}`);
}

const names = (): Promise<string[]> => page.locator("tbody th[scope=row]").allTextContents();

/** Address, what it has to show before it is looked at, name of its picture. */
const VIEWS = [
  ["modules", "postgres-operator", "ui-modules"],
  ["module/loki", "CrashLoopBackOff", "ui-module"],
  ["module/prometheus/values", "hook patch", "ui-values"],
  ["module/prometheus/diff", "replicas: 2", "ui-difference"],
  ["graph", "grafana", "ui-graph"],
  ["queues", "Failed 4 times", "ui-queues"],
  ["runs", "run-module postgres-operator", "ui-runs"],
] as const;

describe.skipIf(program === undefined)(
  "the page in Chromium (skipped where there is none: see TEST_CHROMIUM)",
  () => {
    describe.each(["light", "dark"] as const)("%s", (scheme) => {
      beforeEach(() => open(scheme));
      afterEach(leave);

      it.each(VIEWS)("shows %s as in the documents, without a finding of axe", async (view, text, name) => {
        await visit(view);
        await page.getByText(text).first().waitFor();
        if (view === "runs") {
          await page.getByText(text).first().click();
          await page.getByText("backup of 3 clusters").waitFor();
        }
        const picture = await page.screenshot();
        expect(picture.length).toBeLessThan(150_000);
        expect(compared(scheme === "light" ? name : `${name}-dark`, picture)).toBeLessThan(0.02);
        expect(await findings()).toEqual([]);
      });
    });

    describe("for people", () => {
      beforeEach(() => open("light"));
      afterEach(leave);

      it("has what is wrong before what is well", async () => {
        await visit("modules");
        expect((await names()).slice(0, 5)).toEqual([
          "loki",
          "postgres-operator",
          "grafana",
          "kafka",
          "prometheus",
        ]);
      });

      it("sorts, and finds by name, state and message", async () => {
        await visit("modules");
        await page.getByRole("button", { name: "Order" }).click();
        expect((await names()).slice(0, 3)).toEqual(["cilium", "cert-manager", "ingress-nginx"]);
        await page.getByRole("searchbox").fill("crashes");
        expect(await names()).toEqual(["loki"]);
        await page.getByRole("searchbox").fill("");
        await page.getByRole("button", { name: /^Failing/ }).click();
        expect(await names()).toEqual(["loki", "postgres-operator"]);
      });

      it("goes without a mouse from the search to a module and its values", async () => {
        await visit("modules");
        await page.keyboard.press("/");
        await page.keyboard.type("prom");
        await expect
          .poll(names)
          .toEqual(["grafana", "prometheus"].toSorted().filter((name) => name === "prometheus"));
        await page.getByRole("region", { name: "Modules" }).focus();
        await page.keyboard.press("ArrowDown");
        await page.keyboard.press("Enter");
        await page.getByRole("heading", { name: "prometheus" }).waitFor();
        await page.getByRole("link", { name: "Values" }).focus();
        await page.keyboard.press("Enter");
        await page.getByText("/ingress/host").waitFor();
      });

      it("shows a change without being asked, and a module that is new or gone", async () => {
        await visit("modules");
        const changed = platform()
          .filter(({ name }) => name !== "kafka")
          .concat(
            shown("velero", { order: 200 }, { problem: { file: "a", message: "broken", remedy: "mend" } }),
          );
        lab.show(changed, []);
        await lab.clock.advance(100);
        await page.getByRole("link", { name: "velero" }).waitFor();
        expect(await names()).not.toContain("kafka");
        await page.getByRole("link", { name: /^Queues/ }).click();
        await page.getByText("Nothing waits and nothing runs.").waitFor();
      });

      it("names the state in the tab, and shows an invalid ConfigMap in full, on a phone, too", async () => {
        await visit("modules");
        await expect.poll(() => page.title()).toMatch(/^Retrying · addons\/addon-operator$/);
        const message = `app/size: must be integer (mend this key); ${"and so on ".repeat(30)}`;
        lab.showInvalid([{ file: "ConfigMap addon-operator", message }]);
        await lab.clock.advance(100);
        await page.getByRole("status").getByText("must be integer").waitFor();
        expect(await page.title()).toBe("Invalid · addons/addon-operator");
        for (const width of [1280, 380]) {
          await page.setViewportSize({ width, height: 700 });
          const box = await page.getByRole("status").getByText("must be integer").boundingBox();
          // More than a line, within the page.
          expect(box?.height).toBeGreaterThan(30);
          expect((box?.x ?? 0) + (box?.width ?? width + 1)).toBeLessThanOrEqual(width);
        }
      });

      it("says that it is cut off, and shows what is so when it is back", async () => {
        await visit("modules");
        lab.page.close();
        await page.getByText("Not connected").waitFor();
        complaints = complaints.filter((line) => !line.includes("ERR_"));
        lab.show([shown("velero", { order: 1 })]);
        await expect.poll(names, { timeout: 15_000 }).toEqual(["velero"]);
        await expect.poll(() => page.getByText("Not connected").count()).toBe(0);
      });

      it("shows what a run was made of and what it logged, and zooms into a part", async () => {
        await visit("module/postgres-operator/runs");
        await page.getByText("run-module postgres-operator").first().click();
        await page.getByText("backup of 3 clusters hook=010-backup.sh").waitFor();
        const parts = page.getByRole("list", { name: "Parts of the run" }).getByRole("button");
        expect(await parts.count()).toBe(5);
        await parts.filter({ hasText: "upgrade" }).click();
        expect((await parts.allTextContents()).some((part) => part.includes("wait in queue"))).toBe(false);
        await visit("module/loki/runs");
        await page.getByText("Nothing has run since").waitFor();
      });

      it("draws what requires what, and goes along the lines without a mouse", async () => {
        await visit("graph");
        await page.getByText("5 modules have no requirements.").waitFor();
        const drawn = page.getByRole("list", { name: "Modules" }).getByRole("listitem");
        expect(await drawn.filter({ hasText: "grafana" }).filter({ hasText: "Pending" }).textContent()).toBe(
          "grafanaPending; requires prometheus; requires, not met, loki",
        );
        await page.getByRole("link", { name: "cert-manager" }).focus();
        for (const key of ["ArrowRight", "ArrowUp", "ArrowDown", "ArrowRight", "ArrowRight"])
          await page.keyboard.press(key);
        expect(await page.locator(":focus").textContent()).toBe("grafana");
        expect(await page.locator("path.near").count()).toBe(2);
        await page.keyboard.press("ArrowLeft");
        expect(await page.locator(":focus").textContent()).toBe("loki");
        await page.keyboard.press("Enter");
        await page.getByRole("heading", { name: "loki" }).waitFor();
      });

      it("draws what is related to a module, as it changes", async () => {
        await visit("module/external-dns");
        await page.getByText("all that is related").getByRole("link").click();
        const drawn = page.getByRole("list", { name: "Modules" }).getByRole("link");
        await expect
          .poll(() => drawn.allTextContents())
          .toEqual(["cert-manager", "ingress-nginx", "external-dns"]);
        await page.getByRole("searchbox").fill("kaf");
        await expect.poll(() => drawn.allTextContents()).toEqual(["cert-manager", "kafka"]);
        expect(page.url()).toMatch(/#\/graph\/kaf$/);
        lab.show([...platform(), shown("kafka-ui", { order: 200, requires: ["kafka", "not-there"] })]);
        await lab.clock.advance(100);
        await expect.poll(() => drawn.allTextContents()).toEqual(["cert-manager", "kafka", "kafka-ui"]);
        await page.getByRole("list", { name: "Modules" }).getByText("not-there", { exact: true }).waitFor();
      });

      it("shows all runs over one time, which is zoomed and moved by keys, buttons, wheel and drawing", async () => {
        await visit("runs");
        const runs = page.getByRole("list", { name: "Runs" }).locator("summary .what");
        const shown = async (): Promise<string[]> =>
          (await runs.allTextContents()).map((text) => text.replace("run-module ", ""));
        const first = ["cert-manager", "cilium", "ingress-nginx", "prometheus"];
        const all = [...first, "postgres-operator", "cert-manager", "kafka"].toSorted();
        await expect.poll(async () => (await shown()).toSorted()).toEqual(all);
        await page.getByRole("region", { name: "Timeline" }).focus();
        for (const key of ["+", "+", "ArrowLeft", "ArrowLeft"]) await page.keyboard.press(key);
        await expect
          .poll(async () => (await shown()).toSorted())
          .toEqual(["postgres-operator", "prometheus"]);
        await page.keyboard.press("-");
        await expect.poll(async () => (await shown()).length).toBe(3);
        await page.getByRole("button", { name: "All" }).click();
        await expect.poll(async () => (await shown()).length).toBe(7);
        const { x, y, width } = (await page.locator(".tracks").boundingBox()) ?? { x: 0, y: 0, width: 0 };
        await page.mouse.move(x + width - 20, y + 5);
        await page.keyboard.down("Control");
        await page.mouse.wheel(0, -800);
        await page.keyboard.up("Control");
        await expect.poll(shown).toEqual(["kafka"]);
        await page.keyboard.press("0");
        await page.mouse.move(x + 5, y + 5);
        await page.mouse.down();
        await page.mouse.move(x + width / 20, y + 5);
        await page.mouse.up();
        await expect.poll(async () => (await shown()).toSorted()).toEqual(first);
        await page
          .locator(".lane", { hasText: "cilium" })
          .getByRole("button", { includeHidden: true })
          .click();
        await page.getByText("It has logged nothing.").waitFor();
      });

      it("says that a module is not there, in words", async () => {
        await visit("modules");
        await page.goto(`${lab.url}/ui/#/module/nope`);
        await page.getByText('There is no module "nope".').waitFor();
      });

      it("stops its stream while nobody sees it", async () => {
        await visit("modules");
        await expect.poll(() => lab.page.viewers).toBe(1);
        await page.evaluate(
          'Object.defineProperty(document, "hidden", {configurable: true, value: true}); document.dispatchEvent(new Event("visibilitychange"))',
        );
        await expect.poll(() => lab.page.viewers).toBe(0);
      });
    });

    describe("with a thousand modules", () => {
      beforeEach(() => open("light", crowd(1000)));
      afterEach(leave);

      it("draws the rows that are seen, wherever one scrolls, and says how many there are", async () => {
        await visit("modules");
        expect(await page.locator("tbody tr").count()).toBeLessThan(60);
        expect(await page.locator("table").getAttribute("aria-rowcount")).toBe("1001");
        await page.getByRole("button", { name: "Order" }).click();
        await page.locator(".scroll").evaluate((box) => box.scrollTo(0, 30 * 700));
        await page.getByRole("link", { name: "module-0710" }).waitFor();
        expect(await page.locator("tbody tr").count()).toBeLessThan(60);
        await page.locator(".scroll").evaluate((box) => box.scrollTo(0, 1e9));
        await page.getByRole("link", { name: "module-0999" }).waitFor();
      });

      it("draws as much of the graph as one can follow", async () => {
        await visit("graph");
        await page.getByText("850 more are related: find one").waitFor();
        expect(await page.locator(".node").count()).toBe(150);
        await page.getByRole("searchbox").fill("module-0995");
        await expect
          .poll(() => page.locator(".node").allTextContents())
          .toEqual(["module-0990", "module-0995"]);
      });
    });
  },
);

describe("the comparison of pictures", () => {
  const read = (name: string): Buffer =>
    readFileSync(new URL(`../../page/pictures/${name}.png`, import.meta.url));

  it.each(["ui-modules", "ui-queues"])("tells %s from another view, and from dark", (name) => {
    expect(difference(read(name), read(name))).toBe(0);
    expect(difference(read(name), read("ui-module"))).toBeGreaterThan(0.02);
    expect(difference(read(name), read(`${name}-dark`))).toBeGreaterThan(0.5);
  });
});
