import { expect, it } from "vitest";

import type { ModuleView } from "../../../src/engine/state/index.ts";
import { describeRollback } from "../../../src/sources/leader/update-progress.ts";
import type { LockEntry } from "../../../src/sources/types.ts";
import { moduleView } from "../../report/views.ts";

const [OLD, NEW] = ["a", "b"].map((digit) => `sha256:${digit.repeat(64)}`) as [string, string];
const NAMES = { source: "s", verifiedBy: "k" };
const ENTRY: LockEntry = {
  ...NAMES,
  version: "1.5.0",
  digest: NEW,
  at: 0,
  previous: { version: "1.4.2", digest: OLD },
};

function view(refused: string | undefined, digest = NEW): ModuleView {
  const base = moduleView("web");
  const origin = { ...NAMES, version: "1.5.0", digest, removed: false, problem: undefined };
  return { ...base, module: { ...base.module, origin }, rollbackReason: refused };
}

interface Case {
  readonly entry?: LockEntry;
  readonly module?: ModuleView | "unknown";
  /** The content from which the installed revision was made. */
  readonly inForce?: string | undefined;
}

it.each<[string, Case, "failed" | "not"]>([
  ["helm is back on the content before it", {}, "failed"],
  ["nothing was refused", { module: view(undefined) }, "not"],
  ["only values were refused: the good revision has this content", { inForce: NEW }, "not"],
  ["helm is back on older content, by hand say", { inForce: `sha256:${"c".repeat(64)}` }, "not"],
  [
    "the revision does not name its content, and the update is new",
    { entry: { ...ENTRY, isNew: true }, inForce: undefined },
    "failed",
  ],
  ["the revision does not name its content, and the update is good", { inForce: undefined }, "not"],
  ["the module still has the content before", { module: view("why", OLD) }, "not"],
  ["there is nothing before it", { entry: { ...NAMES, version: "1", digest: NEW, at: 0 } }, "not"],
  ["the module is not known", { module: "unknown" }, "not"],
])("an update has failed, or not: %s", (_, given, expected) => {
  const { entry, module, inForce } = { entry: ENTRY, module: view("why"), inForce: OLD, ...given };
  const why = describeRollback(entry, module === "unknown" ? undefined : module, () => inForce);
  expect(why).toBe(expected === "failed" ? "why" : undefined);
});
