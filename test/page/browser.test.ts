// Runs at night: few changes touch the page, and a browser takes long.
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import axe from "axe-core";
import type { Browser, Page } from "playwright-core";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";

import { bundlePage } from "../../scripts/build.mjs";
import { chromiumFile, startChromium } from "../support/chromium.ts";
import { crowd, openPage, platform, displayed, withUpdate, type PageLab } from "../support/page-lab.ts";
import { compared, difference } from "../support/pictures.ts";
import { T0 } from "../report/views.ts";

const program = chromiumFile();

interface Finding {
  readonly id: string;
  readonly nodes: readonly { readonly html: string }[];
}

let dir: string;
let browser: Browser;
let lab: PageLab;
let page: Page;
/** Errors of the browser, and violations of the Content-Security-Policy. */
let complaints: string[];
let requested: string[];

beforeAll(async () => {
  if (program === undefined) return;
  dir = mkdtempSync(join(tmpdir(), "ui-"));
  await bundlePage(dir);
  browser = await startChromium(program);
}, 120_000);

afterAll(async () => {
  await browser?.close();
  rmSync(dir ?? "", { recursive: true, force: true });
});

async function open(colorScheme: "light" | "dark", modules = platform()): Promise<void> {
  lab = await openPage(modules, { dir });
  page = await browser.newPage({ viewport: { width: 1280, height: 600 }, colorScheme });
  complaints = [];
  requested = [];
  page.on("pageerror", (error) => complaints.push(error.message));
  page.on("console", (line) => complaints.push(line.text()));
  page.on("request", (request) => requested.push(new URL(request.url()).origin));
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
  expect([...new Set(requested)]).toEqual([lab.url]);
  expect(lab.failures).toEqual([]);
}

/** Accessibility problems found by axe. */
async function findings(): Promise<string[]> {
  await page.evaluate(axe.source);
  const found = await page.evaluate<readonly Finding[]>("axe.run().then(({violations}) => violations)");
  return found.map(({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html).join(" ")}`);
}

const names = (): Promise<string[]> => page.locator("tbody th[scope=row]").allTextContents();

/** Address, text to wait for, name of the screenshot. */
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

      it.each(VIEWS)(
        "shows %s as in the documentation, without a finding of axe",
        async (view, text, name) => {
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
        },
      );
    });

    describe("interaction", () => {
      beforeEach(() => open("light"));
      afterEach(leave);

      it("lists urgent modules first", async () => {
        await visit("modules");
        await expect
          .poll(async () => (await names()).slice(0, 5))
          .toEqual(["loki", "postgres-operator", "grafana", "kafka", "prometheus"]);
      });

      it("sorts, and searches by name, state and message", async () => {
        await visit("modules");
        await page.getByRole("button", { name: "Order" }).click();
        await expect
          .poll(async () => (await names()).slice(0, 3))
          .toEqual(["cilium", "cert-manager", "ingress-nginx"]);
        await page.getByRole("searchbox").fill("crashes");
        await expect.poll(names).toEqual(["loki"]);
        await page.getByRole("searchbox").fill("");
        await page.getByRole("button", { name: /^Failing/ }).click();
        await expect.poll(names).toEqual(["loki", "postgres-operator"]);
      });

      it("moves by keyboard from the search to a module and its values", async () => {
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

      it("shows changes, new modules and deleted modules without a reload", async () => {
        await visit("modules");
        const changed = platform()
          .filter(({ name }) => name !== "kafka")
          .concat(
            displayed(
              "velero",
              { order: 200 },
              { problem: { file: "a", message: "broken", remedy: "mend" } },
            ),
          );
        lab.show(changed, []);
        await lab.clock.advance(100);
        await page.getByRole("link", { name: "velero" }).waitFor();
        await expect.poll(names).not.toContain("kafka");
        await page.getByRole("link", { name: /^Queues/ }).click();
        await page.getByText("All queues are empty.").waitFor();
      });

      it("shows the state in the title, and the message of an invalid ConfigMap in full, also on a phone", async () => {
        await visit("modules");
        await expect.poll(() => page.title()).toMatch(/^Retrying · addons\/addon-operator$/);
        const message = `app/size: must be integer (fix this key); ${"and so on ".repeat(30)}`;
        lab.showInvalid([{ file: "ConfigMap addon-operator", message }]);
        await lab.clock.advance(100);
        await page.getByRole("status").getByText("must be integer").waitFor();
        await expect.poll(() => page.title()).toBe("Invalid · addons/addon-operator");
        for (const width of [1280, 380]) {
          await page.setViewportSize({ width, height: 700 });
          const box = await page.getByRole("status").getByText("must be integer").boundingBox();
          // Several lines, not wider than the page.
          expect(box?.height).toBeGreaterThan(30);
          expect((box?.x ?? 0) + (box?.width ?? width + 1)).toBeLessThanOrEqual(width);
        }
      });

      it("shows that all modules are suspended, and how to resume", async () => {
        await visit("modules");
        lab.showFrozen();
        await lab.clock.advance(100);
        const status = page.getByRole("status");
        await status.getByText("Maintenance", { exact: true }).waitFor();
        await expect.poll(() => page.title()).toBe("Maintenance · Retrying · addons/addon-operator");
        await status.getByText("Remove the key to resume").waitFor();
      });

      it("shows the progress of a converge after the message", async () => {
        await visit("modules");
        lab.showConverge();
        await lab.clock.advance(100);
        await page
          .getByRole("status")
          .getByText(/^Module postgres-operator failed .*; \d+ of \d+ done, /)
          .waitFor();
      });

      it("shows the version that waits in the list, and why in the module, also on a phone", async () => {
        lab.show(withUpdate());
        await visit("modules");
        await page.getByRole("row", { name: "cert-manager" }).getByText("1.17.0 waits").waitFor();
        await page.getByRole("searchbox").fill("waits for approval");
        expect(await names()).toEqual(["cert-manager"]);
        await visit("module/cert-manager");
        const sentence = page.getByText(/update: 1\.17\.0 is no patch of 1\.16\.2: it waits for approval/);
        await sentence.waitFor();
        await page.getByText(/^platform: version 1\.16\.2 .*signed by ci\.pub$/).waitFor();
        expect(await findings()).toEqual([]);
        await page.setViewportSize({ width: 380, height: 700 });
        expect(await page.locator("main").evaluate((main) => main.scrollWidth)).toBeLessThanOrEqual(380);
      });

      it("shows the error of a module once", async () => {
        await visit("module/postgres-operator");
        await page.getByText(/failed 4 times since \S+ \(HelmFailed\): as above/).waitFor();
        const text = await page.locator("#page").innerText();
        expect(text.split("admission webhook denied").length - 1).toBe(1);
        await visit("module/loki");
        await page.getByText("CrashLoopBackOff").waitFor();
        // The object has more details than the module.
        expect((await page.locator("article").innerText()).split("crashes: exit code 1").length - 1).toBe(2);
      });

      it("moves from a search to a result, and restores the focus after Back", async () => {
        await visit("modules");
        await page.keyboard.press("/");
        await page.keyboard.type("cert");
        await expect.poll(names).toEqual(["cert-manager"]);
        await page.keyboard.press("Enter");
        const focused = (): Promise<string | null> => page.locator(":focus").textContent();
        await expect.poll(focused).toBe("cert-manager");
        await page.keyboard.press("Enter");
        await page.getByRole("heading", { name: "cert-manager" }).waitFor();
        await page.goBack();
        await expect.poll(focused).toBe("cert-manager");
        await visit("graph");
        await page.getByText("5 modules have no requirements.").waitFor();
        await page.keyboard.press("/");
        await page.keyboard.type("kafka");
        await expect.poll(() => page.locator("a.node").count()).toBe(2);
        await page.keyboard.press("ArrowDown");
        await expect.poll(focused).toBe("cert-manager");
        await page.keyboard.press("ArrowRight");
        await page.keyboard.press("Enter");
        await page.getByRole("heading", { name: "kafka" }).waitFor();
        await page.goBack();
        await expect.poll(focused).toBe("kafka");
      });

      it.each(VIEWS)("fits a phone: %s", async (view, text) => {
        await page.setViewportSize({ width: 380, height: 700 });
        await visit(view);
        await page.getByText(text).first().waitFor();
        const wide = await page
          .locator("main, .scroll, section, details, ol.runs")
          .evaluateAll((boxes) =>
            boxes
              .filter((box) => box.scrollWidth > box.clientWidth + 1 && !box.matches(".visually-hidden"))
              .map((box) => box.className || box.tagName),
          );
        expect(wide).toEqual([]);
        const status = await page.getByRole("status").first().boundingBox();
        expect((status?.x ?? 0) + (status?.width ?? 381)).toBeLessThanOrEqual(380);
        expect(await findings()).toEqual([]);
      });

      it("shows cause and duration of a run", async () => {
        await visit("runs");
        const failed = page.locator("summary", { hasText: "run-module postgres-operator" });
        expect(await failed.innerText()).toMatch(
          /failed\s+run-module postgres-operator\s+after edit\s+95 s ago, took 9 s/,
        );
        const running = page.locator("summary", { hasText: "run-module kafka" });
        expect(await running.innerText()).toMatch(/running\s+run-module kafka\s+after start\s+for 52 s/);
        await page.getByText("waiting in the queue").waitFor();
      });

      it("shows that it is disconnected, and the current state after it reconnects", async () => {
        await visit("modules");
        lab.page.close();
        await page.getByText("Disconnected").waitFor();
        complaints = complaints.filter((line) => !line.includes("ERR_"));
        lab.show([displayed("velero", { order: 1 })]);
        await expect.poll(names).toEqual(["velero"]);
        await expect.poll(() => page.getByText("Disconnected").count()).toBe(0);
      });

      it("shows spans and log lines of a run, and zooms in on a span", async () => {
        await visit("module/postgres-operator/runs");
        await page.getByText("run-module postgres-operator").first().click();
        await page.getByText("backup of 3 clusters hook=010-backup.sh").waitFor();
        const parts = page.getByRole("list", { name: "Parts of the run" }).getByRole("button");
        await expect.poll(() => parts.count()).toBe(5);
        await parts.filter({ hasText: "upgrade" }).click();
        await expect.poll(async () => (await parts.allTextContents()).join()).not.toContain("wait in queue");
        await visit("module/loki/runs");
        await page.getByText("The operator has no record of a run").waitFor();
      });

      it("draws the graph, and moves along its edges by keyboard", async () => {
        await visit("graph");
        await page.getByText("5 modules have no requirements.").waitFor();
        const drawn = page.getByRole("list", { name: "Modules" }).getByRole("listitem");
        expect(await drawn.filter({ hasText: "grafana" }).filter({ hasText: "Pending" }).textContent()).toBe(
          "grafanaPending; requires prometheus; unmet requirements: loki",
        );
        await page.getByRole("link", { name: "cert-manager" }).focus();
        for (const key of ["ArrowRight", "ArrowUp", "ArrowDown", "ArrowRight", "ArrowRight"])
          await page.keyboard.press(key);
        await expect.poll(() => page.locator(":focus").textContent()).toBe("grafana");
        await expect.poll(() => page.locator("path.near").count()).toBe(2);
        await page.keyboard.press("ArrowLeft");
        await expect.poll(() => page.locator(":focus").textContent()).toBe("loki");
        await page.keyboard.press("Enter");
        await page.getByRole("heading", { name: "loki" }).waitFor();
      });

      it("draws the modules related to a module, and follows changes", async () => {
        await visit("module/external-dns");
        await page.getByText("All related modules").getByRole("link").click();
        const drawn = page.getByRole("list", { name: "Modules" }).getByRole("link");
        await expect
          .poll(() => drawn.allTextContents())
          .toEqual(["cert-manager", "ingress-nginx", "external-dns"]);
        await page.getByRole("searchbox").fill("kaf");
        await expect.poll(() => drawn.allTextContents()).toEqual(["cert-manager", "kafka"]);
        await expect.poll(() => page.url()).toMatch(/#\/graph\/kaf$/);
        lab.show([...platform(), displayed("kafka-ui", { order: 200, requires: ["kafka", "not-there"] })]);
        await lab.clock.advance(100);
        await expect.poll(() => drawn.allTextContents()).toEqual(["cert-manager", "kafka", "kafka-ui"]);
        await page.getByRole("list", { name: "Modules" }).getByText("not-there", { exact: true }).waitFor();
      });

      it("shows all runs on a timeline with zoom and pan by keys, buttons, wheel and selection", async () => {
        await visit("runs");
        const runs = page.getByRole("list", { name: "Runs" }).locator("summary .what");
        const displayed = async (): Promise<string[]> =>
          (await runs.allTextContents()).map((text) => text.replace("run-module ", ""));
        const first = ["cert-manager", "cilium", "ingress-nginx", "prometheus"];
        const all = [...first, "postgres-operator", "cert-manager", "kafka"].toSorted();
        await expect.poll(async () => (await displayed()).toSorted()).toEqual(all);
        await page.getByRole("region", { name: "Timeline" }).focus();
        for (const key of ["+", "+", "ArrowLeft", "ArrowLeft"]) await page.keyboard.press(key);
        await expect
          .poll(async () => (await displayed()).toSorted())
          .toEqual(["postgres-operator", "prometheus"]);
        await page.keyboard.press("-");
        await expect.poll(async () => (await displayed()).length).toBe(3);
        await page.getByRole("button", { name: "All" }).click();
        await expect.poll(async () => (await displayed()).length).toBe(7);
        const { x, y, width } = (await page.locator(".tracks").boundingBox()) ?? { x: 0, y: 0, width: 0 };
        await page.mouse.move(x + width - 20, y + 5);
        await page.keyboard.down("Control");
        await page.mouse.wheel(0, -800);
        await page.keyboard.up("Control");
        await expect.poll(displayed).toEqual(["kafka"]);
        await page.keyboard.press("0");
        await page.mouse.move(x + 5, y + 5);
        await page.mouse.down();
        await page.mouse.move(x + width / 20, y + 5);
        await page.mouse.up();
        await expect.poll(async () => (await displayed()).toSorted()).toEqual(first);
        await page
          .locator(".lane", { hasText: "cilium" })
          .getByRole("button", { includeHidden: true })
          .click();
        await page.getByText("The run has no log lines.").waitFor();
      });

      it("reports a module that does not exist", async () => {
        await visit("modules");
        await page.goto(`${lab.url}/ui/#/module/nope`);
        await page.getByText('Module "nope" does not exist.').waitFor();
      });

      it("closes its stream while the page is hidden", async () => {
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

      it("renders only the visible rows, and states the number of all rows", async () => {
        await visit("modules");
        await expect.poll(() => page.locator("tbody tr").count()).toBeLessThan(60);
        await expect.poll(() => page.locator("table").getAttribute("aria-rowcount")).toBe("1001");
        await page.getByRole("button", { name: "Order" }).click();
        await page.locator(".scroll").evaluate((box) => box.scrollTo(0, 30 * 700));
        await page.getByRole("link", { name: "module-0710" }).waitFor();
        await expect.poll(() => page.locator("tbody tr").count()).toBeLessThan(60);
        await page.locator(".scroll").evaluate((box) => box.scrollTo(0, 1e9));
        await page.getByRole("link", { name: "module-0999" }).waitFor();
        await page.getByRole("link", { name: "module-0995" }).click();
        await page.getByRole("heading", { name: "module-0995" }).waitFor();
        await page.goBack();
        await expect.poll(() => page.locator(":focus").textContent()).toBe("module-0995");
        await expect
          .poll(() => page.getByRole("link", { name: "module-0999" }).boundingBox())
          .toMatchObject({ y: expect.toSatisfy((y: number) => y < 600) });
      });

      it("limits the size of the graph", async () => {
        await visit("graph");
        await page.getByText("The graph omits 850 related modules").waitFor();
        await expect.poll(() => page.locator(".node").count()).toBe(150);
        await page.getByRole("searchbox").fill("module-0995");
        await expect
          .poll(() => page.locator(".node").allTextContents())
          .toEqual(["module-0990", "module-0995"]);
      });
    });
  },
);

describe("the comparison of screenshots", () => {
  const read = (name: string): Buffer =>
    readFileSync(new URL(`../../page/pictures/${name}.png`, import.meta.url));

  it.each(["ui-modules", "ui-queues"])("distinguishes %s from another view and from dark mode", (name) => {
    expect(difference(read(name), read(name))).toBe(0);
    expect(difference(read(name), read("ui-module"))).toBeGreaterThan(0.02);
    expect(difference(read(name), read(`${name}-dark`))).toBeGreaterThan(0.5);
  });
});
