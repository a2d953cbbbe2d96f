/** A browser for tests: `TEST_CHROMIUM`, else `chromium` or `google-chrome` on the PATH. */

import { accessSync, constants } from "node:fs";
import { delimiter, join } from "node:path";

import { chromium, type Browser } from "playwright-core";

const NAMES = ["chromium", "chromium-browser", "google-chrome"];

/** Where the browser is; undefined where there is none. */
export function chromiumFile(): string | undefined {
  const { TEST_CHROMIUM: named, PATH = "" } = process.env;
  const dirs = PATH.split(delimiter).filter(Boolean);
  const found = NAMES.flatMap((name) => dirs.map((dir) => join(dir, name))).filter(isProgram);
  return named === undefined || named === "" ? found[0] : named;
}

function isProgram(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

/** Starts it. It asks nobody on the internet for anything. */
export function startChromium(executablePath: string): Promise<Browser> {
  const args = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--font-render-hinting=none",
  ];
  return chromium.launch({ executablePath, args });
}
