// A Chromium for the tests of the page: Debian's package, where it is missing and may be installed.
import { spawnSync } from "node:child_process";
import { accessSync, constants, existsSync } from "node:fs";
import { delimiter, join } from "node:path";
import { say } from "./progress.mjs";

const NAMES = ["chromium", "chromium-browser", "google-chrome"];
const APT = "/usr/bin/apt-get";

/** Installs it on a Debian with apt, as root; elsewhere, and where that fails, those tests are skipped. */
export function getBrowser(env) {
  if (env.TEST_CHROMIUM || NAMES.some((name) => isOnPath(name, env))) return;
  if (process.getuid?.() !== 0 || !existsSync("/etc/debian_version") || !existsSync(APT)) return;
  say("installing Debian's chromium for the tests of the page");
  const quiet = { stdio: "ignore", env: { ...env, DEBIAN_FRONTEND: "noninteractive" }, timeout: 600_000 };
  const install = () =>
    spawnSync(APT, ["install", "-y", "chromium", "fonts-dejavu-core"], quiet).status === 0;
  const update = () => spawnSync(APT, ["update"], quiet).status === 0;
  if (!install() && !(update() && install())) say("there is no chromium to be had: its tests are skipped");
}

function isOnPath(name, { PATH = "" }) {
  return PATH.split(delimiter).some((dir) => {
    try {
      accessSync(join(dir, name), constants.X_OK);
      return true;
    } catch {
      return false;
    }
  });
}
