import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { eventually } from "../eventually.mjs";

/** Writes one global hook below `dir`; returns `{ globalHooksDir, modulesDir }`, the latter empty. */
export function writeGlobalHook(dir, { config, body }) {
  const globalHooksDir = join(dir, "global-hooks");
  const modulesDir = join(dir, "modules");
  mkdirSync(globalHooksDir, { recursive: true });
  mkdirSync(modulesDir, { recursive: true });
  const script = `#!/usr/bin/env bash\n${body.replaceAll("$NOTES", dir)}\n`;
  const answer = `if [[ "\${1:-}" == "--config" ]]; then cat <<'EOF'\n${JSON.stringify(config)}\nEOF\nexit 0; fi\n`;
  writeFileSync(join(globalHooksDir, "hook.sh"), script.replace("\n", `\n${answer}`), { mode: 0o755 });
  writeFileSync(join(dir, "notes"), "");
  return { globalHooksDir, modulesDir };
}

/** The lines that the hook has written so far. */
export function notes(dir) {
  return readFileSync(join(dir, "notes"), "utf8").split("\n").slice(0, -1);
}

/** Resolves to all notes once there are `count`. */
export function untilRecorded(dir, count) {
  const check = () => {
    const lines = notes(dir);
    if (lines.length < count) throw new Error(`${lines.length} of ${count} lines were written`);
    return lines;
  };
  return eventually(check, "the hook's notes", { timeoutMs: 60_000, intervalMs: 2 });
}

/** Milliseconds of the wall clock, with fractions, to compare with bash's EPOCHREALTIME. */
export const wallClock = () => performance.timeOrigin + performance.now();

/** A binding for the ConfigMaps labelled `bench` of one namespace. */
const binding = (namespace, more) => ({
  configVersion: "v1",
  kubernetes: [
    {
      apiVersion: "v1",
      kind: "ConfigMap",
      namespace: { nameSelector: { matchNames: [namespace] } },
      labelSelector: { matchLabels: { bench: "yes" } },
      executeHookOnSynchronization: false,
      queue: "bench",
      ...more,
    },
  ],
});

/**
 * Starts an operator with a global hook that runs for each created ConfigMap labelled `bench` of a fresh namespace. `create`
 * creates one, `path` is theirs, and the notes of the hook are in `dir`.
 */
export async function watchingHook(bench, body) {
  const dir = bench.dir();
  const namespace = await bench.namespace();
  const config = binding(namespace, { executeHookOnEvent: ["Added"] });
  const { operator, readyMs } = await bench.start({ namespace, ...writeGlobalHook(dir, { config, body }) });
  await readyMs();
  const path = `/api/v1/namespaces/${namespace}/configmaps`;
  const create = (name) => bench.api.send("POST", path, { metadata: { name, labels: { bench: "yes" } } });
  return { dir, path, create, operator };
}
