import { expect, test } from "vitest";

import type { Drift } from "../../../src/kube/drift/index.ts";
import { moduleView, T0, projectView } from "../views.ts";

const FIELD = { field: "data.a", manager: "kubectl-edit", at: T0, removed: false };
const MAP = { object: "n/ConfigMap/m", title: "ConfigMap n/m", fields: [FIELD], isRepairDelayed: false };

const conditionsWith = (drift: Drift): readonly string[] =>
  projectView(moduleView("m", { drift }), {
    now: T0,
  }).status.conditions.map(({ type, status, message }) => `${type} ${status}: ${message}`);

test("Ready says what others have changed, beside the condition", () => {
  expect(conditionsWith({ objects: [MAP], count: 1 })).toEqual([
    expect.stringMatching(
      /^Ready True: .* is in place; changed by others: kubectl-edit changed data\.a of ConfigMap n\/m$/,
    ),
    "Drifted True: kubectl-edit changed data.a of ConfigMap n/m",
    expect.stringContaining("Enabled True"),
  ]);
});

test("what cannot be compared is not known to be as it was left", () => {
  const issue = "ConfigMap n/m cannot be compared with its release: no";
  expect(conditionsWith({ objects: [], count: 0, issue })).toContain(`Drifted Unknown: ${issue}`);
});
