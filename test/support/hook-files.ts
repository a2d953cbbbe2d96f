import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { onTestFinished } from "vitest";

/** One element of a binding context file, as a hook reads it. */
export interface Context {
  readonly binding: string;
  readonly type?: string;
  readonly watchEvent?: string;
  readonly groupName?: string;
  readonly object?: { readonly metadata: { readonly name: string; readonly namespace?: string } };
  readonly objects?: readonly Item[];
  readonly filterResult?: unknown;
  readonly snapshots?: Readonly<Record<string, readonly Item[]>>;
  readonly [more: string]: unknown;
}

export type Item = Pick<Context, "object" | "filterResult">;

/** A directory of hooks and modules made for one test file, and what its hooks recorded. */
export interface Lab {
  readonly dir: string;
  readonly globalHooksDir: string;
  readonly modulesDir: string;
  /** Makes a file; hooks and `enabled` scripts are executable. */
  readonly file: (path: string, text: string) => void;
  /** A hook that records its context, then does what `body` says, for example `wait_until COMMAND`. `config` is what it prints for --config. */
  readonly hook: (path: string, config: object | string, body?: string) => void;
  /** The binding contexts of each run so far, in order; a hook is named by its file name without extension. */
  readonly runs: (hook: string) => Context[][];
  /** All contexts of all runs. */
  readonly contexts: (hook: string) => Context[];
  /** Names of hooks in the order of their runs. */
  readonly order: () => string[];
  /** A file that hooks wait for with `wait_for NAME`. */
  readonly release: (name: string) => void;
}

/** Without processes, which each run of a hook would pay for. */
const PRELUDE = `
lab="\${0%%/global-hooks*}"
export RECORDS="\${lab%%/modules*}/records"
me="\${0##*/}"
me="\${me%.sh}"
wait_until() {
local never
exec {never}<> <(:)
until "$@"; do read -rt 0.02 -u "$never" || :; done
exec {never}>&-
}
wait_for() { wait_until [ -e "$RECORDS/go-$1" ]; }
`;

/** These files in a fresh temp dir, those below a module's hooks/ executable, and hooks/ for global ones; gone after the test. */
export function fileTree(prefix: string, files: Readonly<Record<string, string>>): string {
  const root = mkdtempSync(join(tmpdir(), `${prefix}-`));
  onTestFinished(() => rmSync(root, { recursive: true, force: true }));
  for (const [path, text] of Object.entries(files)) {
    const file = join(root, path);
    mkdirSync(dirname(file), { recursive: true });
    writeFileSync(file, text);
    if (path.includes("/hooks/")) chmodSync(file, 0o755);
  }
  mkdirSync(join(root, "hooks"));
  return root;
}

/** Makes a directory, and missing ones above it, that hooks under user ids of their own may pass, whatever the umask. */
function makeDir(dir: string): void {
  if (existsSync(dir)) return;
  makeDir(dirname(dir));
  mkdirSync(dir);
  chmodSync(dir, 0o755);
}

/** Directories in a fresh temp dir. */
export function hookLab(prefix: string): Lab {
  const dir = mkdtempSync(join(tmpdir(), `${prefix}-`));
  const records = join(dir, "records");
  for (const name of ["records", "modules", "global-hooks"]) makeDir(join(dir, name));
  const file = (path: string, text: string): void => {
    const target = join(dir, path);
    makeDir(dirname(target));
    writeFileSync(target, text);
    chmodSync(target, path.endsWith(".sh") || path.endsWith("/enabled") ? 0o755 : 0o644);
  };
  const hook: Lab["hook"] = (path, config, body = "") => {
    const text = typeof config === "string" ? config : JSON.stringify(config);
    file(
      path,
      `#!/usr/bin/env bash
set -eu
if [ "\${1:-}" = --config ]; then
cat <<'CONFIG'
${text}
CONFIG
exit 0
fi${PRELUDE}
[ -d "$RECORDS/$me" ] || mkdir -p "$RECORDS/$me"
files=("$RECORDS/$me"/*)
[ -e "\${files[0]}" ] || files=()
printf -v run '%06d' "\${#files[@]}"
cp "$BINDING_CONTEXT_PATH" "$RECORDS/$me/.$run-$$"; mv "$RECORDS/$me/.$run-$$" "$RECORDS/$me/$run-$$.json"
echo "$me" >> "$RECORDS/order"
${body}
`,
    );
  };
  const runs: Lab["runs"] = (name) => {
    const folder = join(records, name);
    if (!existsSync(folder)) return [];
    const files = readdirSync(folder).filter((each) => each.endsWith(".json"));
    return files.toSorted().map((each) => JSON.parse(readFileSync(join(folder, each), "utf8")) as Context[]);
  };
  return {
    dir,
    globalHooksDir: join(dir, "global-hooks"),
    modulesDir: join(dir, "modules"),
    file,
    hook,
    runs,
    contexts: (name) => runs(name).flat(),
    order: () => readFileSync(join(records, "order"), "utf8").trim().split("\n"),
    release: (name) => writeFileSync(join(records, `go-${name}`), ""),
  };
}

/** Short text of a context: `Event Added name`, `Synchronization [a b]`, `Group pods`. */
export function brief(context: Context): string {
  const names = (items: readonly Item[] = []): string =>
    items.map(({ object, filterResult }) => object?.metadata.name ?? JSON.stringify(filterResult)).join(" ");
  if (context.type === "Synchronization") return `Synchronization [${names(context.objects)}]`;
  if (context.type === "Event") return `${context.watchEvent} ${names([context])}`;
  if (context.type === "Group") return `Group ${context.groupName}`;
  return context.type ?? context.binding;
}
