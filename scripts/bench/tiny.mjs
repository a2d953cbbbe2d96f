import { mkdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";

/** `tiny-m0001` …: the name of module `index`, from 1. */
export const tinyName = (index) => `tiny-m${String(index).padStart(4, "0")}`;
/** The key of that module in values and ConfigMap. */
export const tinyKey = (index) => `tinyM${String(index).padStart(4, "0")}`;

/**
 * Writes that many enabled modules without charts below `dir`; `files(index)` gives further files of a module by path,
 * those below hooks/ executable. Returns `dir`.
 */
export function writeTiny(dir, count, files = () => ({})) {
  const all = Array.from({ length: count }, (_, index) => index + 1);
  writeFileSync(join(dir, "values.yaml"), all.map((index) => `${tinyKey(index)}Enabled: true\n`).join(""));
  for (const index of all) {
    const home = join(dir, `${String(100 + (index % 900))}-${tinyName(index)}`);
    const own = { "values.yaml": `${tinyKey(index)}: {}\n`, ...files(index) };
    for (const [path, text] of Object.entries(own)) {
      mkdirSync(dirname(join(home, path)), { recursive: true });
      writeFileSync(join(home, path), text, { mode: path.startsWith("hooks/") ? 0o755 : 0o644 });
    }
  }
  return dir;
}

/** A hook in plain sh with one binding, of the life cycle unless it is configured, so that its own cost is next to nothing. */
export function shHook(binding, body, config = 1) {
  const answer = JSON.stringify({ configVersion: "v1", [binding]: config });
  return `#!/bin/sh\nif [ "$1" = --config ]; then echo '${answer}'; exit 0; fi\n${body}\n`;
}
