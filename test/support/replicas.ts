import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";

import { cluster, eventually, helmUnderTest } from "./cluster.ts";
import type { Lab } from "./hook-files.ts";
import { startOperator } from "./operator.ts";
import type { OperatorProcess } from "./operator.ts";

/** The Lease of an operator with the default ConfigMap. */
export const LEASE = "addon-operator-addon-operator";

/** Flags for a lease that two busy processors can keep, and whose end a test can wait for. */
export const QUICK_LEASE = ["--lease-duration=10s", "--lease-renew-deadline=5s", "--lease-retry-period=1s"];

export interface LeaseSpec {
  readonly holderIdentity: string;
  readonly acquireTime?: string;
  readonly renewTime?: string;
}

/** One line of what hooks and helm wrote about themselves. */
export interface Mark {
  readonly what: "start" | "end" | "ask";
  readonly who: string;
  readonly replica: string;
  readonly pid: number;
}

/**
 * Shell text that leaves the marks. Who starts while a process of another replica runs writes `overlap`, which no test
 * forgives: a process that was killed leaves no `end`, so it is asked for by its id. A zombie runs nothing: it waits for
 * its parent, or for whoever adopts it, to look at it.
 */
const marks = (file: string): string => `
mark() { echo "$1 $2 $REPLICA $$" >>'${file}'; }
runs() { kill -0 "$1" 2>/dev/null && ! grep -q '^State:.*Z' "/proc/$1/status" 2>/dev/null; }
alone() {
  grep -v " $REPLICA " '${file}' | while read -r what who replica pid; do
    [ "$what" = start ] && runs "$pid" && echo "overlap $1:$$-with-$who:$pid $REPLICA $$" >>'${file}'
  done || true
}
`;

/** Directories that several replicas share, whose hooks and helm say when they run and for whom. */
export class Stage {
  readonly namespace: string;
  readonly lab: Lab;
  readonly #file: string;
  readonly #helm: string;

  constructor(namespace: string, lab: Lab) {
    this.namespace = namespace;
    this.lab = lab;
    this.#file = join(lab.dir, "marks");
    this.#helm = join(lab.dir, "helm");
    writeFileSync(this.#file, "");
    // A standby may read the version: that is no work.
    const helm = `#!/usr/bin/env bash
[ "$1" != version ] || exec '${helmUnderTest()}' "$@"
${marks(this.#file)}
mark start helm; alone helm
'${helmUnderTest()}' "$@" & child=$!
trap 'kill "$child"' TERM INT
wait "$child"; code=$?
while kill -0 "$child" 2>/dev/null; do wait "$child"; code=$?; done
mark end helm
exit "$code"
`;
    writeFileSync(this.#helm, helm, { mode: 0o755 });
  }

  /** A hook that leaves marks around `body`. */
  hook(path: string, config: object, body: string): void {
    const text = `#!/usr/bin/env bash
set -eu
me="\${0##*/}"
me="\${me%.sh}"
${marks(this.#file)}
if [ "\${1:-}" = --config ]; then
  mark ask "$me"
  echo '${JSON.stringify({ configVersion: "v1", ...config })}'
  exit 0
fi
mark start "$me"; alone "$me"
${body}
mark end "$me"
`;
    this.lab.file(path, text);
  }

  marks(replica?: string): Mark[] {
    const lines = readFileSync(this.#file, "utf8").trim().split("\n");
    const all = lines.map((line) => {
      const [what, who, of, pid] = line.split(" ");
      return { what, who, replica: of, pid: Number(pid) } as Mark;
    });
    return all.filter((mark) => replica === undefined || mark.replica === replica);
  }

  overlaps(): string[] {
    return this.marks()
      .filter(({ what }) => (what as string) === "overlap")
      .map(({ who }) => who);
  }

  async replica(
    name: string,
    lease: readonly string[],
    env: Record<string, string> = {},
  ): Promise<OperatorProcess> {
    return startOperator({
      namespace: this.namespace,
      modulesDir: this.lab.modulesDir,
      globalHooksDir: this.lab.globalHooksDir,
      helm: this.#helm,
      args: ["--ha", ...lease],
      env: { REPLICA: name, ADDON_OPERATOR_POD: name, ...env },
    });
  }

  async lease(): Promise<LeaseSpec> {
    const { spec } = await cluster().json<{ spec: LeaseSpec }>(["get", "lease", LEASE, "-n", this.namespace]);
    return spec;
  }

  /** Resolves when a process `who` of this replica has left a mark of this kind. */
  async sees(replica: string, what: Mark["what"], who: string): Promise<Mark> {
    const check = (): Mark => {
      const found = this.marks(replica).find((mark) => mark.what === what && mark.who === who);
      if (found === undefined) throw new Error(JSON.stringify(this.marks().slice(-5)));
      return found;
    };
    return eventually(check, `${what} of ${who} by ${replica}`, { timeoutMs: 60_000 });
  }
}
