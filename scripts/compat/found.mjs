// Which jq and which shells this machine has for the tests.
import { realpathSync } from "node:fs";
import { createRequire } from "node:module";
import { delimiter, join } from "node:path";
import { execaSync } from "execa";
import { isExecutable, onPath } from "../setup/tools.mjs";
import { compareVersions } from "./plan.mjs";

const ask = (file, args) => execaSync(file, args, { reject: false, timeout: 10_000 });

/** Each jq: those that TEST_JQ names, the one on PATH and node-jq's; the oldest first, one of each version. */
export function findJqs(env = process.env) {
  const named = (env.TEST_JQ ?? "").split(delimiter).filter((file) => file !== "");
  const files = [...named, onPath("jq", env), ...nodeJq()].filter((file) => file !== undefined);
  const jqs = files.map((file) => ({ file, version: jqVersion(file) }));
  const known = new Map(jqs.map((jq) => [jq.version, jq]));
  if (known.size === 0)
    throw new Error("no jq: install jq 1.6 or later, or name some with TEST_JQ=PATH:PATH");
  return [...known.values()].toSorted((a, b) => compareVersions(a.version, b.version));
}

function jqVersion(file) {
  const version = ask(file, ["--version"]).stdout?.trim() ?? "";
  const [, major, minor] = /^(?:jq-|gojq )(\d+)\.(\d+)/.exec(version) ?? [];
  if (major === undefined) throw new Error(`${file} is no jq: its --version says "${version}"`);
  if (version.startsWith("jq-") && Number(major) === 1 && Number(minor) < 6)
    throw new Error(`${file} is ${version}: the operator needs 1.6 or later`);
  // gojq also tells what it was built from.
  return version.startsWith("gojq") ? version.split(" ").slice(0, 2).join(" ") : version;
}

function nodeJq() {
  try {
    const file = join(createRequire(import.meta.url).resolve("node-jq"), "..", "..", "bin", "jq");
    return isExecutable(file) ? [file] : [];
  } catch {
    return [];
  }
}

/**
 * Shells as `/bin/sh`: the machine's own, and busybox where it is there and may be put in its place, for the tests
 * alone (`before` is the command that does it). `{ name, before }`, and why there is only one.
 */
export function findShells(env = process.env) {
  const own = { name: usualName(), before: [] };
  const busybox = onPath("busybox", env);
  if (!busybox) return { shells: [own], missing: "no busybox on the PATH" };
  const name = /^BusyBox v([\d.]+)/.exec(ask(busybox, []).stdout ?? "")?.[1];
  const before = ["unshare", "--mount", ...(process.getuid?.() === 0 ? [] : ["--map-root-user"])];
  const put = 'mount --bind "$0" /bin/sh && exec "$@"';
  const command = [...before, "bash", "-c", put, busybox];
  const tried = ask(command[0], [...command.slice(1), "/bin/sh", "-c", "echo ok"]);
  if (tried.stdout?.trim() !== "ok")
    return {
      shells: [own],
      missing: `busybox cannot be put in place of sh: ${tried.stderr?.trim() || "no unshare"}`,
    };
  return { shells: [own, { name: `busybox ${name}`, before: command }] };
}

/** `dash`, where `/bin/sh` leads to it. */
function usualName() {
  return realpathSync("/bin/sh").split("/").at(-1);
}
