/** Batch files that follow the protocol of module-sdk, as shell scripts. */

import { mkdirSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";

/** What a batch file answers; each text is shell. */
export interface BatchFile {
  /** What `hook config` prints, or shell in place of it. */
  readonly config: unknown;
  readonly list?: string;
  /** `$3` is the number of the hook. */
  readonly run?: string;
  readonly ready?: string;
  /** For all other arguments, `--config` among them. */
  readonly other?: string;
}

/** The script of a batch file. It adds a line with its arguments to `$0.calls` each time. */
function batchScript({
  config,
  list,
  run = "exit 0",
  ready = "exit 0",
  other = "exit 1",
}: BatchFile): string {
  const count = Array.isArray(config)
    ? config.length
    : ((config as { hooks?: unknown[] }).hooks?.length ?? 1);
  const answer = typeof config === "string" ? config : `cat <<'EOF'\n${JSON.stringify(config)}\nEOF`;
  return `#!/bin/bash
echo "$*" >> "$0.calls"
case "$1 $2" in
"hook list") ${list ?? `echo "Found ${count} items:"; echo "0 - main"`} ;;
"hook config") ${answer}
;;
"hook run") ${run} ;;
"hook ready") ${ready} ;;
*) ${other} ;;
esac
`;
}

/** Writes it to `path`, executable, with the directories above it. */
export function writeBatchFile(path: string, file: BatchFile): void {
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, batchScript(file), { mode: 0o755 });
}

/** A configuration with one hook and these bindings. */
export const batchConfig = (bindings: object, more: object = {}) => ({
  version: "v1",
  hooks: [{ configVersion: "v1", metadata: { name: "main", path: "m/hooks/" }, ...bindings }],
  ...more,
});
