// Runs at night: the web page, whose views `test/page/browser.test.ts` checks.
import { once } from "node:events";
import { connect, createServer, type AddressInfo } from "node:net";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";

import { chromiumFile, startChromium } from "../support/chromium.ts";
import { cluster, eventually, freshNamespace } from "../support/cluster.ts";
import { fileTree } from "../support/hook-files.ts";
import { startOperator, type OperatorProcess } from "../support/operator.ts";

// docs/guides/web-page.md, over a real operator.

const SECRET = "c0rrect-horse-battery";
const PATIENCE_MS = 60_000;

/** It says what it is not to say. */
const HOOK = `#!/bin/sh
if [ "$1" = --config ]; then
  echo '{"configVersion": "v1", "beforeHelm": 1}'
  exit 0
fi
echo "the hook speaks of ${SECRET}"
`;

const FILES: Readonly<Record<string, string>> = {
  "modules/010-web/Chart.yaml": "apiVersion: v2\nname: web\nversion: 1.0.0\n",
  "modules/010-web/values.yaml": "web: {size: 1}\nwebEnabled: true\n",
  "modules/010-web/hooks/speak": HOOK,
  "modules/010-web/templates/map.yaml":
    'apiVersion: v1\nkind: ConfigMap\nmetadata: {name: web}\ndata: {size: "{{ .Values.web.size }}"}\n',
  "modules/010-web/templates/secret.yaml":
    'apiVersion: v1\nkind: Secret\nmetadata: {name: web}\nstringData: {key: "{{ .Values.web.password }}"}\n',
  "modules/020-shop/Chart.yaml": "apiVersion: v2\nname: shop\nversion: 1.0.0\n",
  "modules/020-shop/values.yaml": "shopEnabled: true\n",
  "modules/020-shop/addon.yaml": "requires: {modules: {web: '*'}}\n",
};

/** One address for operators that come and go. */
async function address(portOf: () => number): Promise<string> {
  const server = createServer((socket) => {
    const there = connect(portOf(), "127.0.0.1");
    for (const each of [socket, there]) each.on("error", () => [socket, there].map((end) => end.destroy()));
    socket.pipe(there).pipe(socket);
  });
  await once(server.listen(0, "127.0.0.1"), "listening");
  onTestFinished(() => void server.close());
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

/** All that is ever sent to a page that looks at `url`. */
async function overhear(url: string): Promise<string[]> {
  const heard: string[] = [];
  const end = new AbortController();
  onTestFinished(() => end.abort());
  const { body } = await fetch(`${url}/ui/events`, { signal: end.signal });
  const decoder = new TextDecoder();
  void body
    ?.pipeTo(new WritableStream({ write: (chunk) => void heard.push(decoder.decode(chunk)) }))
    .catch(() => {});
  return heard;
}

const program = chromiumFile();

test.skipIf(program === undefined)(
  "the page shows what a real operator does as it does it, no secret, and that the operator has gone and come back",
  { timeout: 180_000 },
  async () => {
    const { kubectl } = cluster();
    const namespace = await freshNamespace("page");
    const patch = (name: string, data: object) =>
      kubectl(["-n", namespace, "patch", "configmap", name, "--type=merge", "-p", JSON.stringify({ data })]);
    await kubectl(["-n", namespace, "create", "configmap", "addon-operator"]);
    await patch("addon-operator", { web: `password: ${SECRET}` });
    const modulesDir = join(fileTree("page", FILES), "modules");
    const start = (): Promise<OperatorProcess> => startOperator({ namespace, modulesDir, args: ["--ui"] });
    let operator = await start();
    const url = await address(() => Number(new URL(operator.url).port));
    const browser = await startChromium(program ?? "");
    onTestFinished(() => browser.close());
    const page = await browser.newPage();
    page.setDefaultTimeout(PATIENCE_MS);
    const answers: Promise<string>[] = [];
    page.on("response", (each) => {
      if (!each.url().endsWith("/events")) answers.push(each.text().catch(() => ""));
    });
    await eventually(async () => (await operator.http("/ui/")).status === 200, "the page is served");
    const heard = await overhear(operator.url);
    const displayed: string[] = [];
    const visit = async (view: string, ...texts: readonly string[]): Promise<void> => {
      await page.goto(`${url}/ui/#/${view}`);
      for (const text of texts) await page.getByText(text).first().waitFor();
      displayed.push(await page.content());
    };

    await visit("modules", "Release web.v1 is in place", "Release shop.v1 is in place");
    await patch("addon-operator", { web: `password: ${SECRET}\nsize: 2` });
    await page.getByText("Release web.v2 is in place").waitFor();
    displayed.push(await page.content());

    await visit("graph", "Ready; requires web", "Ready; required by shop");
    await visit("module/web/values", "ConfigMap: key web", "/password");
    expect(await page.getByRole("row", { name: "/size" }).textContent()).toBe("/size2ConfigMap: key web");
    await patch("web", { size: "9" });
    await visit("module/web/diff", "drifted");
    expect(await page.locator("pre").textContent()).toMatch(/^- +size: .9.\n\+ +size: .2.$/m);
    await visit("module/web/runs", "run-module web");
    await page.locator("summary").filter({ hasText: "done" }).first().click();
    await page.getByText("the hook speaks of").waitFor();
    displayed.push(await page.content());

    await operator.kill9();
    await page.getByText("Disconnected").waitFor();
    operator = await start();
    await expect.poll(() => page.getByText("Disconnected").count()).toBe(0);
    await visit("modules", "Release web.v2 is in place");

    const all = [...heard, ...displayed, ...(await Promise.all(answers))];
    expect(all.join("")).toContain("the hook speaks of");
    for (const secret of [SECRET, Buffer.from(SECRET).toString("base64")])
      expect(all.filter((text) => text.includes(secret))).toEqual([]);
  },
);
